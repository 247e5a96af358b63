#include "select/copy_choice.hpp"

#include "select/packet_choice.hpp"

namespace sennit {
// In a reduce, gather or scatter copy engines would be no faster than the root's one wire, which
// the SMs fill as well; a broadcast in two hops would wait between its copies, and lost to kernels.
// Ranks of one GPU read what they reduce: a copy would only move it within the same memory.
std::int64_t copied_from_bytes(Collective collective, const DeviceFacts& facts) {
  const bool is_at_once = facts.sharing == DeviceSharing::kAtOnce;
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return facts.profile->copies_from_bytes;
    case Collective::kAllReduce:
      return is_at_once ? kNever : facts.profile->all_reduce_copies_from_bytes;
    case Collective::kReduceScatter:
      return is_at_once ? kNever : facts.profile->reduce_scatter_copies_from_bytes;
    case Collective::kSendRecv:
      return !facts.copies_messages                    ? kNever
             : facts.sharing == DeviceSharing::kInTurn ? 0
                                                       : facts.profile->message_copies_from_bytes;
    case Collective::kBroadcast:
      return facts.profile->broadcast_copies_from_bytes;
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kBarrier:
      return kNever;
  }
  return kNever;
}

bool suits_a_leader(Collective collective, int ranks, const DeviceFacts& facts) {
  return facts.sharing == DeviceSharing::kInTurn && ranks > 1 &&
         collective != Collective::kSendRecv;
}

bool suits_copy_engines(Collective collective,
                        int ranks,
                        std::int64_t bytes,
                        const DeviceFacts& facts) {
  const bool is_message = collective == Collective::kSendRecv;
  if (suits_a_leader(collective, ranks, facts)) {
    return true;
  }
  const bool can = is_message || (collective == Collective::kBroadcast       ? ranks == 2
                                  : collective == Collective::kReduceScatter ? ranks > 2
                                                                             : ranks > 1);
  return can && (is_message ? bytes : total_bytes(collective, ranks, bytes)) >=
                    copied_from_bytes(collective, facts);
}

bool requests_copies(Collective collective, const CallRequest& request) {
  return request.protocol == kByCopyEngines ||
         (collective == Collective::kSendRecv && request.protocol == name(Protocol::kDirectGet));
}

// For sends, recvs, and what has blocks that go somewhere.
Status can_be_copied(Collective collective, const CallRequest& request, const Means& means) {
  if (!means.copy_engines) {
    return fail(Code::kUnsupported,
                "protocol {} needs ranks that agree about their buffers on the host, which these "
                "ranks do not (SENNIT_COPY_ENGINES)",
                request.protocol);
  }
  const GpuAlgorithm* const wanted = find_gpu_algorithm(request.algorithm);
  if (wanted != nullptr && wanted->passes_on) {
    return fail(
        Code::kUnsupported,
        "{} {} passes on what arrives, or sums that are stored nowhere, which kernels do and "
        "copy engines do not: request no protocol for it, or algorithm {}",
        name(collective),
        request.algorithm,
        kOneHop);
  }
  return collective == Collective::kBarrier
             ? fail(Code::kUnsupported, "{} has nothing for copy engines", name(collective))
             : Status();
}

bool names_copies(Collective collective,
                  int ranks,
                  const CallRequest& request,
                  const DeviceFacts& facts,
                  const Means& means) {
  return facts.reach && suits_a_leader(collective, ranks, facts) && request.protocol.empty() &&
         find_gpu_algorithm(request.algorithm) != nullptr &&
         can_be_copied(collective, request, means).ok();
}

std::string_view copying_algorithm(const DeviceFacts& facts,
                                   Collective collective,
                                   int ranks,
                                   std::int64_t bytes) {
  const GpuCollective& known = gpu_collective(collective);
  if (!known.by_leader.empty() && suits_a_leader(collective, ranks, facts)) {
    return known.by_leader;
  }
  return known.by_copy_engines.empty()
             ? algorithm_by_model(collective, ranks, bytes, facts.profile->hop_bytes)
             : known.by_copy_engines;
}

}  // namespace sennit
