// Executable: a proved plan as one rank of a communicator of GPU ranks runs it. The only way from a
// plan into a stream, whatever the engine.
//
//   SENNIT_ASSIGN_OR_RETURN(Executable* const executable, executables.find(operation, choice));
//   ledger.report(words_of(operation, executable->hash_of(operation)));
//   SENNIT_ASSIGN_OR_RETURN(const Lack lack, executable->enqueue(call));
//
// An engine adds a folder with a class of its own, and a row in exec/executables.cpp.
#pragma once

#include "exec/proved_plan.hpp"
#include "select/device_choice.hpp"
#include "world/operation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace sennit {

// What host code that waits for other ranks asks meanwhile.
class CallGuard {
 public:
  virtual ~CallGuard() = default;
  // A function that says why waiting for the call is in vain, or ok. Valid as long as the
  // operation.
  [[nodiscard]] virtual std::function<Status()> trouble_of(const Operation& operation) = 0;
};

// One call on its way into a stream.
struct GpuCall {
  const Operation& operation;
  void* stream = nullptr;
  double deadline_s = 0;  // not positive: none
  CallGuard& guard;

  // 0: none.
  [[nodiscard]] std::uint64_t deadline_ns() const {
    return deadline_s > 0 ? static_cast<std::uint64_t>(deadline_s * 1e9) : 0;
  }
  [[nodiscard]] std::uint32_t deadline_ms() const {
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::clamp(std::ceil(deadline_s * 1e3), 0.0, kMost));
  }
};

// What decides the executable of a call.
struct PlanKey {
  Collective collective;
  int root;
  int place;  // of this rank in the schedule
  bool varying;
  bool by_copy_engines;  // all of it, or what kernels leave of a message
  bool within_gpu;       // a message of two ranks of one GPU
  DeviceChoice choice;

  auto operator<=>(const PlanKey&) const = default;
};

class Executable {
 public:
  explicit Executable(ProvedPlan proved) : proved_(std::move(proved)) {}
  virtual ~Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  [[nodiscard]] const ProvedPlan& proved() const { return proved_; }
  [[nodiscard]] const Plan& plan() const { return *proved_.plan; }
  [[nodiscard]] std::uint64_t hash() const { return proved_.hash; }
  // What has to be the same on all ranks for this call: more than the plan where they rely on it.
  [[nodiscard]] virtual std::uint64_t hash_of(const Operation& /*operation*/) const {
    return hash();
  }
  // Whether the plan also holds where some ranks, or all, work in place.
  [[nodiscard]] bool may_be_in_place() const { return proved_.proof.in_place; }
  // Whether the input and the output of every rank have to be separate buffers, so that the plan is
  // no fallback for a call of which some rank, unknown to the others, works in place.
  [[nodiscard]] virtual bool needs_separate_buffers() const { return false; }
  // Whether enqueue() does what the call asks for in rms_norm, too. The same on all ranks.
  [[nodiscard]] virtual bool normalises(const Operation& /*operation*/) const { return false; }
  // Why this rank refuses such a call; what it refuses may be a matter of this rank alone.
  [[nodiscard]] virtual Status refuses(const Operation& /*operation*/) const { return {}; }

  // Puts the call into its stream, or says which means all ranks have found to be missing; then
  // nothing has been put there. A failure may be one of this rank alone.
  virtual Result<Lack> enqueue(const GpuCall& call) = 0;

 protected:
  [[nodiscard]] const Proof& proof() const { return proved_.proof; }

 private:
  ProvedPlan proved_;
};

}  // namespace sennit
