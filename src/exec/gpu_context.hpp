// GpuContext: what a communicator of GPU ranks has to run plans with: the memory that its GPUs
// share, its engines, and the facts by which all its ranks choose the same.
#pragma once

#include "codec/codec_rules.hpp"
#include "drivers/cuda/cuda.hpp"
#include "memory/device_memory.hpp"
#include "select/device_choice.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sennit {

class CallLedger;
class CopyEngines;
class MessagePuts;
namespace sm {
class PeerLauncher;
struct Context;
}  // namespace sm

struct GpuOptions {
  std::string name = "world";
  double deadline_s = 30.0;  // negative: none
  // What has not ended so long after finalize() is abandoned; nothing is where calls may wait for
  // ever.
  double finalize_s = 4.0;
  int blocks = 128;  // of a call, at most
  // kAuto: where every rank is a process. A call of copy engines waits on the host for all ranks,
  // so a thread that makes the calls of several of them would wait for itself.
  enum class CopyUse : std::uint8_t { kOff, kAuto, kOn };
  CopyUse copy_engines = CopyUse::kAuto;
  CodecRules codec_rules{};      // for calls that name no codec
  bool reproducible = false;     // sums have the order of ranks, or are refused
  bool copies_by_kernel = true;  // blocks that stay, next to copy engines
  // Paths that may be used; host may where the world has memory for it.
  bool nvlink = true;
  bool device = true;
  int group = 0;            // of this rank, see DeviceIdentity
  std::string groups_by{};  // see Fifos::Options
  // See DeviceFacts.
  int host_share = -1;
  bool dynamic_share = false;
  // The same on all ranks; none: that of the model of rank 0's GPU.
  std::optional<GpuProfile> profile{};
};

// "auto", "on" or "off".
Result<GpuOptions::CopyUse> parse_copy_engines(std::string_view text);

class GpuContext {
 public:
  // All ranks together; `device` is the current one. `driver` and `world` outlive the result.
  static Result<std::unique_ptr<GpuContext>> create(CudaDriver& driver,
                                                    int device,
                                                    World& world,
                                                    const GpuOptions& options,
                                                    const Exchange& exchange);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  [[nodiscard]] const DeviceMemory& memory() const { return *memory_; }
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] CallLedger& ledger() { return *ledger_; }
  [[nodiscard]] sm::Context& kernels() { return *kernels_; }
  [[nodiscard]] sm::PeerLauncher& launcher() { return *launcher_; }
  // Null: this communicator does not use them.
  [[nodiscard]] CopyEngines* copy_engines() { return copy_engines_.get(); }
  // Buffers that ranks have mapped for each other; null: they map none.
  [[nodiscard]] MessagePuts* message_puts() { return message_puts_.get(); }
  // By a kernel of its own, what the operation asks for in rms_norm, of the sum in its output.
  Status normalise_rows(const Operation& operation, void* stream);

 private:
  GpuContext();
  void open_copy_engines(CudaDriver& driver, World& world, const GpuOptions& options);
  Status agree_on_facts(CudaDriver& driver,
                        int device,
                        World& world,
                        const GpuOptions& options,
                        const Exchange& exchange);

  std::optional<GpuProfile> own_profile_;  // where the options have one
  std::unique_ptr<DeviceMemory> memory_;
  DeviceFacts facts_;
  std::unique_ptr<CallLedger> ledger_;
  // Each uses the memory.
  std::unique_ptr<CopyEngines> copy_engines_;
  std::unique_ptr<MessagePuts> message_puts_;
  std::unique_ptr<sm::Context> kernels_;
  std::unique_ptr<sm::PeerLauncher> launcher_;
};

}  // namespace sennit
