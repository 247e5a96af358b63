// OneSidedExecutable: collectives of one hop whose blocks ranks store in each other's outputs. Each
// block is a message that its receiver offers a place for (memory/message_put.hpp), and a rank's
// messages are one launch. docs/decisions/0031-collectives-by-messages.md says why.
#pragma once

#include "exec/executable.hpp"
#include "exec/sm/direct_program.hpp"
#include "exec/sm/peer_launcher.hpp"

#include <memory>
#include <vector>

namespace sennit::sm {

class OneSidedExecutable final : public Executable {
 public:
  // `context` and `launcher` outlive the result.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     Context& context,
                                                     PeerLauncher& launcher);

  [[nodiscard]] bool needs_separate_buffers() const override { return !may_be_in_place(); }
  [[nodiscard]] Status refuses(const Operation& operation) const override;
  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  OneSidedExecutable(ProvedPlan proved,
                     const DirectProgram& program,
                     Context& context,
                     PeerLauncher& launcher)
      : Executable(std::move(proved)), program_(program), context_(context), launcher_(launcher) {}

  [[nodiscard]] std::vector<KernelMessage> messages_of(const GpuCall& call) const;

  DirectProgram program_;
  Context& context_;
  PeerLauncher& launcher_;
};

}  // namespace sennit::sm
