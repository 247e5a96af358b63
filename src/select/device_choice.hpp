// Selection for ranks with a GPU each: which algorithm and protocol a call uses on NVLink, and
// which share of the message goes through host memory meanwhile; or how all of it goes there. A
// pure function of what all ranks share.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/plan.hpp"
#include "schedule/scaling.hpp"
#include "select/device_sharing.hpp"
#include "select/gpu_profile.hpp"
#include "select/packet_choice.hpp"
#include "select/select.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace sennit {

inline constexpr int kWhole = 100;
// Of copies to, or from, all ranks but the first, each a whole.
constexpr int copies_through_host(int ranks, int percent) {
  return ((ranks - 1) * percent + kWhole / 2) / kWhole;
}

struct DeviceChoice {
  const Algorithm* algorithm = nullptr;
  // Copy engines put blocks where they belong (direct_put), contributions into staging memory; SMs
  // send packets or put, or read contributions and put sums (direct_get). Of a message direct_get
  // stands for both: its ends find out when they meet.
  Protocol protocol = Protocol::kLl;
  Engine engine = Engine::kSm;
  // Percent of each block that go through host memory, up to kWhole. Between these a strand of its
  // own, by GpuCollective::on_host, carries them next to that of `algorithm`, which copy engines
  // run; in a send_recv it may be one of packets, too.
  int host_share = 0;
  // Of a message: it begins with that, and follows the load (select/dynamic_share.hpp).
  bool dynamic_share = false;
  // Nobody has requested that: then a message has a share if it is put. Of these each end knows
  // how its group lies to that of the other one, so that no order of groups can make them stand
  // still, whatever queues the streams of a device share.
  bool shares_puts_alone = false;
  // One of copy engines whose work for all ranks rank 0 does (exec/stream/leader_operations.hpp).
  bool by_leader = false;
  // Whole vectors are copied to rank 0 and back, `host_share` percent of them through host memory.
  bool shares_copies = false;
  // SMs run the schedule step by step, whatever its hops, in protocol slots.
  bool by_steps = false;
  ScaledParts scaled{};  // what the operator scales in such a schedule

  bool operator==(const DeviceChoice&) const = default;
  auto operator<=>(const DeviceChoice&) const = default;
};

// What the ranks of a communicator share.
struct DeviceFacts {
  // The ranks can use them, and so can agree about buffers that these reach into.
  bool copy_engines = false;
  // The ranks reach each other's memory: over path device within a GPU, over path nvlink between
  // two. Where not, packets of kernels go through host memory, too.
  bool reach = true;
  std::string_view why_no_reach = "SENNIT_PATHS leaves it out";
  // The GPU of each rank, by its first rank; empty: each has one of its own.
  std::vector<int> gpus{};
  bool reproducible = false;  // every call requests the order of ranks
  // Where not: ranks that do, by group, for what runs step by step; empty: none do.
  std::vector<std::vector<int>> groups{};
  // The longest messages that Ll carries: of calls in one round, and of sends.
  std::int64_t ll_call_bytes = kLlRoundBytes;
  std::int64_t ll_send_bytes = profile_for({}).ll_up_to_bytes;
  int host_slots = 0;   // of each rank's ring in host memory; 0: copy engines may not use the host
  int host_share = -1;  // next to NVLink, in percent; negative: by the table
  bool dynamic_share = false;  // of messages, which then begin with that
  // There are but two ranks: their messages have the wires to the host for themselves.
  bool is_pair = false;
  DeviceSharing sharing = DeviceSharing::kNone;
  // Of messages copy engines wait for several ranks at once, so their streams need queues of their
  // own.
  bool copies_messages = true;
  // Receivers of messages can offer their buffers to the kernels of senders.
  bool offers = false;
  // From which sizes on which way is taken. Never null; outlives the facts.
  const GpuProfile* profile = &profile_for({});

  bool operator==(const DeviceFacts&) const = default;
};

// Means: what a plan may rely on. A communicator has what its facts say. Of one call the ranks may
// find out together that a means is not there (a buffer that others cannot map, say); the next
// candidate is the best plan without it.
struct Means {
  bool copy_engines = false;
  bool host_rings = false;  // of copy engines, in pinned host memory
  bool one_sided = false;   // kernels may store in buffers of other ranks
  bool reads = false;       // and reduce what they read there
  // The operator has kernels of all protocols, not of ll and the interpreter alone.
  bool every_kernel = true;

  static Means of(const DeviceFacts& facts) {
    return {.copy_engines = facts.copy_engines,
            .host_rings = facts.copy_engines && facts.host_slots > 0,
            .one_sided = facts.offers,
            .reads = facts.offers};
  }
  // Of a reduction by `op`.
  static Means of(const DeviceFacts& facts, ReduceOp op);
  bool operator==(const Means&) const = default;
};

// Which means all ranks have found to be missing, for one call.
enum class Lack : std::uint8_t { kNothing, kHostRings, kCopyEngines, kOneSided };
Means without(Means means, Lack lack);

// `bytes`: of the whole vector for cut collectives, of one rank's part otherwise. Requests that
// cannot be met are refused by name (kUnsupported, kInvalidArgument). Path "nvlink+host:8" requests
// 8 % through host memory, "nvlink+host:dynamic" what the load leaves free; where all ranks share
// one GPU, "device" stands in place of "nvlink". The best candidate; with fewer means, the next
// one.
Result<DeviceChoice> choose_for_devices(Collective collective,
                                        const Shape& shape,
                                        std::int64_t bytes,
                                        const CallRequest& request,
                                        const DeviceFacts& facts,
                                        const Means& means);
inline Result<DeviceChoice> choose_for_devices(Collective collective,
                                               const Shape& shape,
                                               std::int64_t bytes,
                                               const CallRequest& request,
                                               const DeviceFacts& facts) {
  return choose_for_devices(collective, shape, bytes, request, facts, Means::of(facts));
}

// The protocol of packets for a message that is not stored in place, nor moved by copy engines.
Protocol protocol_of_message(std::int64_t bytes, const DeviceFacts& facts);

// Kernels have what of it does not go through host memory.
bool leaves_rest_to_kernels(const DeviceChoice& choice);

// The same choice with just so many percent through host memory: how a message goes whose ends
// request different shares, or where less of the host is there than was requested.
DeviceChoice with_host_share(const DeviceChoice& choice, int share);

// The strand of the kernels or copy engines, from memory to memory where the ranks reach each
// other's, and that of copy engines through host memory.
Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape,
                                                     const DeviceFacts& facts);

}  // namespace sennit
