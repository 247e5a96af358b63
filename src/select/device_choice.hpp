// Selection for ranks with a GPU each: which algorithm and protocol a call uses on NVLink, and
// which share of the message goes through host memory meanwhile; or how all of it goes there. A
// pure function of what all ranks share.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/plan.hpp"
#include "schedule/scaling.hpp"
#include "select/packet_choice.hpp"
#include "select/select.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace sennit {

inline constexpr int kWhole = 100;

struct DeviceChoice {
  const Algorithm* algorithm = nullptr;
  // Copy engines put blocks where they belong (direct_put), contributions into staging memory; SMs
  // send packets or put. Of a message direct_get stands for both: its ends find out when they meet.
  Protocol protocol = Protocol::kLl;
  Engine engine = Engine::kSm;
  // Percent of each block that go through host memory, up to kWhole. Between these a strand of its
  // own, by GpuCollective::on_host, carries them beside that of `algorithm`, which copy engines
  // run; in a send_recv it may be one of packets, too.
  int host_share = 0;
  // Of a message: it begins with that, and follows the load (select/dynamic_share.hpp).
  bool dynamic_share = false;
  // Nobody has requested that: then a message has a share if it is put. Of these each end knows
  // how its group lies to that of the other one, so that no order of groups can make them stand
  // still, whatever queues the streams of a device share.
  bool shares_puts_alone = false;
  // SMs run the schedule step by step, whatever its hops, in protocol slots.
  bool by_steps = false;
  ScaledParts scaled{};  // what the operator scales in such a schedule

  bool operator==(const DeviceChoice&) const = default;
  auto operator<=>(const DeviceChoice&) const = default;
};

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Copy engines that put are ahead of SMs from some size on, of all ranks together. On 4 H200s
// (`h200x4-copy-engines-put`; us for 64 MB, 256 MB and 1 GB, by SMs in brackets,
// `h200x4-gpu-second`): all_gather 189 (162), 590 (598), 2138 (2314); all_to_all 185 (168), 593
// (601), 2137 (2324); all_reduce 373 (312), 1150 (1205), 4343 (4729); reduce_scatter 215 (169), 633
// (618), 2312 (2387). On 2: all_gather 123 (107), 385 (393), 1424 (1516); all_to_all 124 (104), 388
// (388), 1427 (1503); all_reduce 233 (209), 756 (786), 2817 (3054); reduce_scatter 142 (118), 433
// (410), 1563 (1562).
inline constexpr std::int64_t kCopiesFromBytes = std::int64_t{192} << 20;
inline constexpr std::int64_t kFoldsFromBytes = std::int64_t{192} << 20;
inline constexpr std::int64_t kFoldedBlocksFromBytes = std::int64_t{512} << 20;

// But a broadcast between two is one copy: 1 % ahead of stores at 128 MB, and 11 % with a share
// through the host (`h200x2-lines`).
inline constexpr std::int64_t kCopiedBroadcastsFromBytes = std::int64_t{128} << 20;

// A message is one copy. On 2 H200s kernels that store it in place were 5 % ahead at 64 MB, copy
// engines by 1 % at 256 MB and by 7 % (one way) at 1 GB (bench/results, `h200x2-gpu-first` and
// `h200x2-pair-puts`).
inline constexpr std::int64_t kCopiedMessagesFromBytes = std::int64_t{128} << 20;

// On 4 H200s, of all ranks together: ahead of packets by a fifth at 16 MB, and by 3 and 4 % at 4
// MB (docs/lab/2026-11-24-kernels.md), by a kernel of their own before they were messages. Not
// measured since.
inline constexpr std::int64_t kPutsFromBytes = std::int64_t{8} << 20;

// Of one message, whose ends speak before it moves: at 256 KB as fast as packets, ahead of them by
// 7 % at 1 MB (`h200x2-gpu-first`).
inline constexpr std::int64_t kMessagePutsFromBytes = std::int64_t{512} << 10;

// Of one message, where no GPU reaches another (elsewhere: kLlUpToBytes): what small calls and
// messages hold there.
// Plain packets have a fence and a word more to wait for: a broadcast of 32 KB to 3 ranks took 4.6
// us and 6.9, an all_gather of as much from each 8.7 and 15.2, an all_reduce of 128 KB in two
// hops 19.3 and 32.2. Beyond it warps wait one by one: 64 KB took 54.9 us and 7.5
// (`h200x4-host-packets`).
inline constexpr std::int64_t kHostLlUpToBytes = 32 * 1024;

// Where no GPU reaches another, copy engines move what they can from so many bytes of all ranks
// together on: their waits took 50 us of an all_gather (`h200x4-nop2p-first`), and beyond those no
// more bytes travel than in plain packets. A broadcast of 64 MB to 3 ranks took 1580 us, by kernels
// 1876 (not measured as a crossover). But an all_gather took 1395 and 1099, so kernels keep it. Of
// sends in a ring those of 4 MB took 172 us, by kernels 187 (all `h200x4-host-rings`).
inline constexpr std::int64_t kSlotsFromBytes = std::int64_t{32} << 20;
inline constexpr std::int64_t kHostMessagesFromBytes = std::int64_t{4} << 20;

// Where ranks reach each other in groups, an all_reduce goes through the groups from so many bytes
// on: 2 + 2 H200s took 25 us for 256 KB and 20 for 64 KB, all through the host 36 and 15
// (`h200x4-groups-crossover`).
inline constexpr std::int64_t kGroupsFromBytes = std::int64_t{128} << 10;

// What the ranks of a communicator share.
struct DeviceFacts {
  // The ranks can use them, and so can agree about buffers that these reach into.
  bool copy_engines = false;
  // The ranks reach each other's memory. Where not, packets of kernels go through host memory, too.
  bool nvlink = true;
  std::string_view why_no_nvlink = "SENNIT_PATHS leaves it out";
  bool reproducible = false;  // every call requests the order of ranks
  // Where not: ranks that do, by group, for what runs step by step; empty: none do.
  std::vector<std::vector<int>> groups{};
  // The longest messages that Ll may carry, in one round: of calls, and of sends.
  std::int64_t ll_call_bytes = kLlRoundBytes;
  std::int64_t ll_send_bytes = kLlUpToBytes;
  int host_slots = 0;   // of each rank's ring in host memory; 0: copy engines may not use the host
  int host_share = -1;  // beside NVLink, in percent; negative: by the table
  bool dynamic_share = false;  // of messages, which then begin with that
  // There are but two ranks: their messages have the wires to the host for themselves.
  bool is_pair = false;
  bool shares_devices = false;  // within one, nothing is gained by a way through the host
  // From which sizes on copy engines run what they could; collectives: of all ranks together.
  std::int64_t copies_from_bytes = kCopiesFromBytes;
  std::int64_t broadcasts_from_bytes = kCopiedBroadcastsFromBytes;
  std::int64_t folds_from_bytes = kFoldsFromBytes;  // all_reduce
  std::int64_t folded_blocks_from_bytes =
      kFoldedBlocksFromBytes;  // of more than two: reduce_scatter
  // Also messages. These wait for several ranks at once, so their streams need queues of their own.
  bool copies_messages = true;
  std::int64_t messages_from_bytes = kCopiedMessagesFromBytes;
  // Receivers of messages can offer their buffers to the kernels of senders. From which sizes on
  // they do: of collectives that are such messages, and of a send.
  bool offers = false;
  std::int64_t puts_from_bytes = kPutsFromBytes;
  std::int64_t message_puts_from_bytes = kMessagePutsFromBytes;

  bool operator==(const DeviceFacts&) const = default;
};

// Means: what a plan may rely on. A communicator has what its facts say. Of one call the ranks may
// find out together that a means is not there (a buffer that others cannot map, say); the next
// candidate is the best plan without it.
struct Means {
  bool copy_engines = false;
  bool host_rings = false;  // of copy engines, in pinned host memory
  bool one_sided = false;   // kernels may store in buffers of other ranks
  // The operator has kernels of all protocols, not of ll and the interpreter alone.
  bool every_kernel = true;

  static Means of(const DeviceFacts& facts) {
    return {.copy_engines = facts.copy_engines,
            .host_rings = facts.copy_engines && facts.host_slots > 0,
            .one_sided = facts.offers};
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
// 8 % through host memory, "nvlink+host:dynamic" for what the load leaves free. The best
// candidate; with fewer means, the next one.
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

// How kernels carry one block, of so many bytes, of a call whose lengths vary and whose request
// choose_for_devices() has met: as a send of that length.
Protocol protocol_of_block(std::int64_t bytes,
                           const CallRequest& request,
                           const DeviceFacts& facts);

// The protocol of packets for a message that is not stored in place, nor moved by copy engines.
Protocol protocol_of_message(std::int64_t bytes, const DeviceFacts& facts);

// Kernels have what of it does not go through host memory.
bool leaves_rest_to_kernels(const DeviceChoice& choice);

// The same choice with just so many percent through host memory: how a message goes whose ends
// request different shares, or where less of the host is there than was requested.
DeviceChoice with_host_share(const DeviceChoice& choice, int share);

// The strand of the kernels or copy engines, on NVLink where the ranks have it, and that of copy
// engines through host memory.
Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape,
                                                     const DeviceFacts& facts);

}  // namespace sennit
