// VaryingExecutable: the v-forms. Each block is a message of the length that both its ends know,
// goes as a send of that length would, and is compared with what the other end expects as sends
// are; a rank's messages are one launch.
#pragma once

#include "exec/executable.hpp"
#include "exec/sm/peer_launcher.hpp"

#include <memory>
#include <vector>

namespace sennit::sm {

class VaryingExecutable final : public Executable {
 public:
  // `context` and `launcher` outlive the result. kUnsupported for schedules of more than one hop.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     Context& context,
                                                     PeerLauncher& launcher);

  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  VaryingExecutable(ProvedPlan proved, Context& context, PeerLauncher& launcher)
      : Executable(std::move(proved)), context_(context), launcher_(launcher) {}

  [[nodiscard]] KernelMessage message_of(const GpuCall& call, int peer, bool is_send) const;
  [[nodiscard]] std::vector<KernelMessage> messages_of(const GpuCall& call) const;

  Context& context_;
  PeerLauncher& launcher_;
};

}  // namespace sennit::sm
