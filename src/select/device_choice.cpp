#include "select/device_choice.hpp"

#include "select/copy_choice.hpp"
#include "select/device_paths.hpp"
#include "select/packet_choice.hpp"
#include "select/read_choice.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Contributions have no place in the outputs of others.
bool can_be_put(Collective collective) {
  return !is_reduction(collective) && collective != Collective::kBarrier;
}

// Pays where bytes cost more than the handshake does, and where one hop is the best way: of
// broadcasts, between two alone. What is stored is slow where blocks are not aligned to 16 bytes.
bool suits_puts(Collective collective,
                int ranks,
                std::int64_t bytes,
                const DeviceFacts& facts,
                const Means& means) {
  if (collective == Collective::kSendRecv) {
    return means.one_sided && bytes >= facts.profile->message_puts_from_bytes;
  }
  const bool is_of_blocks =
      (collective == Collective::kAllGather || collective == Collective::kAllToAll) &&
      bytes % 16 == 0;
  const bool is_one_hop = is_of_blocks || (collective == Collective::kBroadcast && ranks == 2);
  return means.one_sided && is_one_hop && ranks > 1 &&
         total_bytes(collective, ranks, bytes) >= facts.profile->puts_from_bytes;
}

Result<Protocol> requested_protocol(Collective collective,
                                    const CallRequest& request,
                                    const Means& means) {
  SENNIT_ASSIGN_OR_RETURN(const Protocol protocol, parse_protocol(request.protocol));
  if (protocol == Protocol::kDirectPut && !means.one_sided) {
    return fail(Code::kUnsupported,
                "protocol {} needs ranks that may reach into each other's buffers, which "
                "SENNIT_COPY_ENGINES=off forbids",
                request.protocol);
  }
  if (protocol == Protocol::kDirectGet) {
    SENNIT_RETURN_IF_ERROR(can_be_read(collective, request, means));
  }
  if (protocol == Protocol::kDirectPut && !can_be_put(collective)) {
    return fail(Code::kUnsupported, "{} has no protocol direct_put on GPU ranks", name(collective));
  }
  if (protocol == Protocol::kDirectPut && !request.algorithm.empty() &&
      request.algorithm != kOneHop) {
    return fail(Code::kUnsupported,
                "{} {} passes on what arrives, which protocol direct_put does not on GPU ranks; "
                "algorithm {} does",
                name(collective),
                request.algorithm,
                kOneHop);
  }
  return protocol;
}

Result<const Algorithm*> find_for(Collective collective,
                                  std::string_view wanted,
                                  const Shape& shape) {
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* const algorithm, find_algorithm(collective, wanted));
  if (const std::string why = refusal_of(*algorithm, shape); !why.empty()) {
    return fail(Code::kUnsupported,
                "{} {} refuses {} ranks: {}",
                name(collective),
                wanted,
                shape.ranks,
                why);
  }
  return algorithm;
}

// The call asks for what the interpreter alone runs: an algorithm of many hops.
bool wants_steps(Collective collective,
                 const Shape& shape,
                 const CallRequest& request,
                 const DeviceFacts& facts,
                 const Means& means) {
  if (collective == Collective::kSendRecv || collective == Collective::kBarrier ||
      request.algorithm.empty() || has_direct_kernel(request.algorithm) ||
      names_copies(collective, shape.ranks, request, facts, means)) {
    return false;
  }
  const bool suits = request.protocol.empty() || request.protocol == name(Protocol::kSlots);
  const bool by_rings = !facts.reach && means.host_rings;
  return suits && !(by_rings && request.algorithm == gpu_collective(collective).on_host);
}

Result<DeviceChoice> choose_steps(Collective collective,
                                  const Shape& shape,
                                  const CallRequest& request) {
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* const algorithm,
                          find_for(collective, request.algorithm, shape));
  return DeviceChoice{.algorithm = algorithm, .protocol = Protocol::kSlots, .by_steps = true};
}

// All through host memory, by copy engines.
Result<DeviceChoice> choose_on_host(Collective collective,
                                    const Shape& shape,
                                    const CallRequest& request,
                                    const DeviceFacts& facts) {
  const std::string_view usual = gpu_collective(collective).on_host;
  if (usual.empty()) {
    return fail(Code::kUnsupported,
                "copy engines have no {} over path host alone; kernels do where SENNIT_PATHS=host",
                name(collective));
  }
  if (!request.protocol.empty() && request.protocol != name(Protocol::kSlots) &&
      request.protocol != kByCopyEngines) {
    return fail(Code::kUnsupported,
                "next to {}, path host carries protocol slots, not '{}'",
                name(direct_path(facts)),
                request.protocol);
  }
  const std::string_view wanted =
      request.algorithm.empty() ? usual : std::string_view(request.algorithm);
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* const algorithm, find_for(collective, wanted, shape));
  return DeviceChoice{.algorithm = algorithm,
                      .protocol = Protocol::kSlots,
                      .engine = Engine::kStream,
                      .host_share = kWhole};
}

// Where no GPU reaches another: the call goes by copy engines, as requested or by its size.
bool suits_rings(Collective collective,
                 const Shape& shape,
                 std::int64_t bytes,
                 const CallRequest& request,
                 const DeviceFacts& facts,
                 const Means& means) {
  const std::string_view by_copies = gpu_collective(collective).on_host;
  if (!means.host_rings || by_copies.empty() || request.protocol == name(Protocol::kLl)) {
    return false;
  }
  const bool is_requested = request.algorithm == by_copies && by_copies != kOneHop;
  const bool is_left_open = request.algorithm.empty() || request.algorithm == by_copies;
  // A recv waits on the host for what copy engines run: of messages, large ones alone.
  const bool is_large =
      collective == Collective::kSendRecv
          ? facts.copies_messages &&
                bytes >= std::min(facts.profile->message_copies_from_bytes,
                                  facts.profile->host_message_copies_from_bytes)
          : facts.profile->has_host_copies_of(
                collective, shape.ranks, total_bytes(collective, shape.ranks, bytes));
  const bool wants = is_large || request.protocol == name(Protocol::kSlots);
  return is_requested || (is_left_open && shape.ranks > 1 && wants);
}

std::string_view algorithm_through_host(const GpuProfile& profile,
                                        Collective collective,
                                        int ranks,
                                        std::int64_t bytes) {
  // What goes to all is written once, so a second hop spares a broadcast nothing.
  return collective == Collective::kBroadcast
             ? gpu_collective(collective).one_hop
             : algorithm_by_model(collective, ranks, bytes, profile.host_hop_bytes);
}

// Fewer groups spare the memory of the host more: as many times as it sees a vector, the leaders'
// messages are written for each reader and read by it, while packets of a two-shot are written once
// for all. A byte costs more step by step: on 2 + 2 H200s 4 times 64 MB took 1741 us, by packets 10
// times 2462 (`h200x4-groups`, `h200x4-nop2p`), so 7 quarters.
bool groups_spare_host(int groups, int ranks) {
  const int by_steps = 2 * groups * (groups - 1);
  const int by_packets = ranks + 2 * (ranks - 1);
  return 7 * by_steps < 4 * by_packets;
}

// Of a call that is left open and pays to go through the groups of ranks, every member of which
// leads a slice; else null.
const Algorithm* algorithm_of_groups(Collective collective,
                                     const Shape& shape,
                                     std::int64_t bytes,
                                     const CallRequest& request,
                                     const DeviceFacts& facts) {
  // Its sums are not in the order of ranks.
  const bool is_left_open = request.algorithm.empty() && !request.name_a_way() &&
                            !request.rank_order && !facts.reproducible;
  const std::string_view grouped = gpu_collective(collective).through_groups;
  if (grouped.empty() || facts.groups.empty() || !is_left_open ||
      bytes < facts.profile->groups_from_bytes ||
      !groups_spare_host(static_cast<int>(facts.groups.size()), shape.ranks)) {
    return nullptr;
  }
  const Result<const Algorithm*> found = find_for(collective, grouped, shape);
  return found.ok() ? *found : nullptr;
}

// Where no GPU reaches another.
Result<DeviceChoice> choose_through_host(Collective collective,
                                         const Shape& shape,
                                         std::int64_t bytes,
                                         const CallRequest& request,
                                         const DeviceFacts& facts,
                                         const Means& means) {
  if (wants_steps(collective, shape, request, facts, means)) {
    if (!request.path.empty() && !facts.groups.empty()) {
      return fail(
          Code::kUnsupported,
          "{} runs step by step, over path nvlink or device within groups of ranks and path "
          "host between them; request no path",
          name(collective));
    }
    return choose_steps(collective, shape, request);
  }
  if (const Algorithm* const grouped =
          algorithm_of_groups(collective, shape, bytes, request, facts)) {
    return DeviceChoice{.algorithm = grouped, .protocol = Protocol::kSlots, .by_steps = true};
  }
  const bool is_requested = !request.protocol.empty();
  DeviceChoice choice{.protocol = Protocol::kSlots};
  if (request.protocol == kByCopyEngines) {
    choice.protocol = Protocol::kDirectPut;
  } else if (is_requested) {
    SENNIT_ASSIGN_OR_RETURN(choice.protocol, parse_protocol(request.protocol));
  }
  if (choice.protocol != Protocol::kLl && choice.protocol != Protocol::kSlots) {
    return fail(Code::kUnsupported,
                "path host carries protocols ll and slots on GPU ranks, not '{}', which needs path "
                "{}; that is not there: {}",
                request.protocol,
                name(direct_path(facts)),
                facts.why_no_reach);
  }
  if (suits_rings(collective, shape, bytes, request, facts, means)) {
    return choose_on_host(collective, shape, request, facts);
  }
  const std::string_view wanted =
      request.algorithm.empty()
          ? algorithm_through_host(*facts.profile, collective, shape.ranks, bytes)
          : std::string_view(request.algorithm);
  SENNIT_ASSIGN_OR_RETURN(choice.algorithm, find_for(collective, wanted, shape));
  if (!is_requested && message_bytes(choice.algorithm->name, shape.ranks, bytes) <=
                           facts.profile->host_ll_up_to_bytes) {
    choice.protocol = Protocol::kLl;
  }
  return choice;
}

// On the SMs or copy engines, from memory of one rank into that of another.
Result<DeviceChoice> choose_direct(Collective collective,
                                   const Shape& shape,
                                   std::int64_t bytes,
                                   const CallRequest& request,
                                   const DeviceFacts& facts,
                                   const Means& means) {
  const bool is_free = request.algorithm.empty();
  const PacketWay packets =
      packets_for(*facts.profile,
                  collective,
                  shape.ranks,
                  bytes,
                  request.algorithm,
                  collective == Collective::kSendRecv ? facts.ll_send_bytes : facts.ll_call_bytes);
  DeviceChoice choice{.protocol = packets.protocol};
  if (requests_copies(collective, request)) {
    SENNIT_RETURN_IF_ERROR(can_be_copied(collective, request, means));
    choice.engine = Engine::kStream;
  } else if (!request.protocol.empty()) {
    SENNIT_ASSIGN_OR_RETURN(choice.protocol, requested_protocol(collective, request, means));
  } else if (means.copy_engines && suits_copy_engines(collective, shape.ranks, bytes, facts) &&
             (is_free || names_copies(collective, shape.ranks, request, facts, means))) {
    choice.engine = Engine::kStream;
  } else if (is_free && suits_puts(collective, shape.ranks, bytes, facts, means)) {
    choice.protocol = Protocol::kDirectPut;
  } else if (is_free && suits_reads(collective, shape.ranks, bytes, facts, means)) {
    choice.protocol = Protocol::kDirectGet;
  }
  std::string_view wanted = packets.algorithm;
  if (choice.engine == Engine::kStream) {
    choice.protocol =
        collective == Collective::kSendRecv ? Protocol::kDirectGet : Protocol::kDirectPut;
    wanted = is_free ? copying_algorithm(facts, collective, shape.ranks, bytes) : wanted;
    const GpuAlgorithm* const known = find_gpu_algorithm(wanted);
    choice.shares_copies = known != nullptr && known->shares_copies;
    choice.by_leader = !choice.shares_copies && suits_a_leader(collective, shape.ranks, facts);
  } else if (choice.protocol == Protocol::kDirectPut) {
    wanted = kOneHop;
  } else if (choice.protocol == Protocol::kDirectGet) {
    wanted = reading_algorithm(collective);
  }
  SENNIT_ASSIGN_OR_RETURN(choice.algorithm, find_for(collective, wanted, shape));
  return choice;
}

// An operator that has kernels of ll and the interpreter alone takes ll at any size over NVLink.
// Through host memory long messages of ll wait warp by warp: there the interpreter has them.
Result<DeviceChoice> choose_for_rare_operator(Collective collective,
                                              const Shape& shape,
                                              std::int64_t bytes,
                                              const CallRequest& request,
                                              const DeviceFacts& facts,
                                              const Means& means) {
  if (wants_steps(collective, shape, request, facts, means)) {
    return choose_steps(collective, shape, request);
  }
  const bool takes_ll = request.protocol.empty() || request.protocol == name(Protocol::kLl);
  const bool takes_path = request.path.empty() ||
                          request.path == name(facts.reach ? direct_path(facts) : PathKind::kHost);
  if (!takes_ll || !takes_path) {
    return fail(
        Code::kUnsupported,
        "{} has no {} for logical and bitwise operators, which go by protocol ll or step by "
        "step on GPU ranks: ask for no protocol and no path",
        name(collective),
        takes_ll ? request.path : request.protocol);
  }
  CallRequest by_ll = request;
  by_ll.protocol = name(Protocol::kLl);
  if (facts.reach) {
    return choose_direct(collective, shape, bytes, by_ll, facts, means);
  }
  if (by_ll.algorithm.empty()) {
    by_ll.algorithm = algorithm_through_host(*facts.profile, collective, shape.ranks, bytes);
  }
  return request.protocol.empty() && message_bytes(by_ll.algorithm, shape.ranks, bytes) >
                                         facts.profile->host_ll_up_to_bytes
             ? choose_steps(collective, shape, by_ll)
             : choose_through_host(collective, shape, bytes, by_ll, facts, means);
}

// Parts of blocks make a whole only where both algorithms cut the vector equally.
bool cuts_as_host_algorithm(const Algorithm& algorithm, const Shape& shape) {
  return !is_cut(algorithm.collective) || shape.ranks <= 2;
}

// What of `choice`, on copy engines, goes through host memory.
Status share_with_host(DeviceChoice& choice,
                       const Shape& shape,
                       std::int64_t bytes,
                       const DeviceFacts& facts,
                       const DevicePaths& paths) {
  const Algorithm& algorithm = *choice.algorithm;
  if (choice.shares_copies) {
    const int share =
        !paths.is_requested ? 0
        : paths.share >= 0
            ? paths.share
            : usual_host_share(*facts.profile, algorithm.collective, shape.ranks, bytes);
    choice.host_share = copies_through_host(shape.ranks, share) > 0 ? share : 0;
    return {};
  }
  const bool is_message = algorithm.collective == Collective::kSendRecv;
  // Kernels know the one part of a message that is theirs; of other calls they run the whole.
  const bool leaves_a_part = choice.engine == Engine::kStream || (is_message && paths.is_requested);
  const bool can = !gpu_collective(algorithm.collective).on_host.empty() &&
                   (cuts_as_host_algorithm(algorithm, shape) || paths.share == kWhole) &&
                   leaves_a_part;
  if (!can) {
    return paths.is_requested ? fail(Code::kUnsupported,
                                     "{} {} by {} does not share its message with path host",
                                     name(algorithm.collective),
                                     algorithm.name,
                                     name(choice.protocol))
                              : Status();
  }
  const bool has_usual =
      paths.is_requested || (is_message ? paths.shares_messages : paths.shares_calls);
  choice.host_share =
      paths.share >= 0 ? paths.share
      : has_usual      ? usual_host_share(*facts.profile, algorithm.collective, shape.ranks, bytes)
                       : 0;
  // What nobody requested must not lose where others use the wires to the host.
  choice.shares_puts_alone = is_message && paths.share < 0 && !paths.is_requested &&
                             !paths.is_dynamic && choice.host_share > 0;
  choice.dynamic_share = is_message && (paths.is_dynamic || choice.shares_puts_alone);
  if (choice.dynamic_share && choice.host_share == 0) {
    choice.host_share = facts.profile->first_dynamic_share;
  }
  return {};
}

// Each block goes as a message of its length. Proved of the call is that all may be stored where
// they belong, or go by packets. What is refused does not depend on lengths, so that all ranks
// refuse it.
Result<DeviceChoice> choose_for_varying(Collective collective,
                                        const Shape& shape,
                                        const CallRequest& request,
                                        const DeviceFacts& facts,
                                        const Means& means) {
  if (!request.algorithm.empty() && request.algorithm != kOneHop) {
    return fail(Code::kUnsupported,
                "GPU ranks run {}_v by algorithm {}, each block a message, not by '{}'",
                name(collective),
                kOneHop,
                request.algorithm);
  }
  CallRequest of_message = request;
  of_message.algorithm.clear();
  SENNIT_RETURN_IF_ERROR(
      choose_for_devices(Collective::kSendRecv, {.ranks = 2}, 1, of_message, facts, means)
          .status());
  DeviceChoice choice{.protocol = means.one_sided ? Protocol::kDirectPut : Protocol::kSlots};
  SENNIT_ASSIGN_OR_RETURN(choice.algorithm, find_for(collective, kOneHop, shape));
  return choice;
}

}  // namespace

Result<DeviceChoice> choose_for_devices(Collective collective,
                                        const Shape& shape,
                                        std::int64_t bytes,
                                        const CallRequest& request,
                                        const DeviceFacts& facts,
                                        const Means& means) {
  if (shape.varying) {
    return choose_for_varying(collective, shape, request, facts, means);
  }
  if (is_dynamic_request(request.path) && collective != Collective::kSendRecv) {
    return fail(Code::kUnsupported,
                "path {} is for sends and recvs, whose receiver advises their sender; all ranks "
                "of {} have to know its share: request {}+host or {}+host:8",
                request.path,
                name(collective),
                name(direct_path(facts)),
                name(direct_path(facts)));
  }
  if (!means.every_kernel) {
    return choose_for_rare_operator(collective, shape, bytes, request, facts, means);
  }
  SENNIT_ASSIGN_OR_RETURN(const DevicePaths paths, paths_for(request.path, facts, means));
  if (!facts.reach) {
    return choose_through_host(collective, shape, bytes, request, facts, means);
  }
  if (!paths.direct) {
    return choose_on_host(collective, shape, request, facts);
  }
  if (wants_steps(collective, shape, request, facts, means) &&
      !(paths.is_requested && paths.host)) {
    return choose_steps(collective, shape, request);
  }
  CallRequest directly = request;
  if (paths.is_requested && paths.host) {
    // Kernels leave the host a part of a message alone; of other calls copy engines have to run the
    // rest, whatever would be best by size.
    if (request.protocol.empty() && collective != Collective::kSendRecv) {
      directly.protocol = kByCopyEngines;
    }
  }
  SENNIT_ASSIGN_OR_RETURN(DeviceChoice choice,
                          choose_direct(collective, shape, bytes, directly, facts, means));
  if (paths.host) {
    SENNIT_RETURN_IF_ERROR(share_with_host(choice, shape, bytes, facts, paths));
  }
  if (choice.host_share == kWhole && !choice.shares_copies) {
    return choose_on_host(collective, shape, {}, facts);
  }
  return choice;
}

Protocol protocol_of_message(std::int64_t bytes, const DeviceFacts& facts) {
  if (facts.reach) {
    return packets_for(
               *facts.profile, Collective::kSendRecv, 2, bytes, kOneHop, facts.ll_send_bytes)
        .protocol;
  }
  return bytes <= facts.profile->host_ll_up_to_bytes ? Protocol::kLl : Protocol::kSlots;
}

bool leaves_rest_to_kernels(const DeviceChoice& choice) {
  return choice.engine == Engine::kSm && choice.host_share < kWhole;
}

DeviceChoice with_host_share(const DeviceChoice& choice, int share) {
  DeviceChoice result = choice;
  result.host_share = share;
  result.dynamic_share = false;
  result.shares_puts_alone = false;
  if (share == kWhole) {
    result.protocol = Protocol::kSlots;
    result.engine = Engine::kStream;
  } else if (choice.host_share == kWhole) {
    result.protocol = Protocol::kDirectGet;
  }
  return result;
}

}  // namespace sennit
