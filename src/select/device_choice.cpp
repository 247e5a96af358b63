#include "select/device_choice.hpp"

#include <algorithm>

namespace sennit {
namespace {

// What a second hop costs, as bytes that a GPU could have sent meanwhile: about 1 us at 350 GB/s
// (bench/results, `gpu-h200x4`).
constexpr std::int64_t kHopBytes = 350 * 1000;

// What all ranks together hold in the end, of each result once.
std::int64_t total_bytes(Collective collective, int ranks, std::int64_t bytes) {
  return is_cut(collective) ? bytes : bytes * ranks;
}

// Copy engines move, they do not reduce; in a gather or scatter they would be no faster than the
// root's one wire, which the SMs fill as well.
bool suits_copy_engines(Collective collective,
                        int ranks,
                        std::int64_t bytes,
                        const DeviceFacts& facts) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kBroadcast:
      return ranks > 1 && total_bytes(collective, ranks, bytes) >= facts.copies_from_bytes;
    case Collective::kSendRecv:
      return bytes >= kCopiedMessagesFromBytes;
    case Collective::kAllReduce:
    case Collective::kBarrier:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
      return false;
  }
  return false;
}

std::string_view default_algorithm(Collective collective, int ranks, std::int64_t bytes) {
  switch (collective) {
    case Collective::kAllReduce: {
      // One-shot sends (n - 1) vectors, two-shot 2 (n - 1) / n and needs a second hop.
      const std::int64_t more = bytes * (ranks - 1) * (ranks - 2) / ranks;
      return more <= kHopBytes ? "one_shot" : "two_shot";
    }
    case Collective::kBarrier:
      return "dissemination";
    case Collective::kBroadcast: {
      // Direct sends (n - 1) vectors from the root, in two hops it sends one.
      const std::int64_t more = bytes * (ranks - 2);
      return more <= kHopBytes ? "direct" : "scatter_forward";
    }
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSendRecv:
      return "direct";
  }
  return {};
}

// Bytes of one message.
std::int64_t message_bytes(const Algorithm& algorithm, int ranks, std::int64_t bytes) {
  return algorithm.name == "two_shot"          ? bytes / ranks
         : algorithm.name == "scatter_forward" ? bytes / std::max(1, ranks - 1)
                                               : bytes;
}

Result<Protocol> wished_protocol(const Wishes& wishes, bool copy_engines) {
  SENNIT_ASSIGN_OR_RETURN(const Protocol protocol, parse_protocol(wishes.protocol));
  if (protocol == Protocol::kDirectGet && !copy_engines) {
    return fail(Code::kUnsupported,
                "protocol direct_get is that of copy engines, which these ranks do not use "
                "(SENNIT_COPY_ENGINES)");
  }
  if (protocol != Protocol::kLl && protocol != Protocol::kLl128 &&
      protocol != Protocol::kDirectGet) {
    return fail(Code::kUnsupported,
                "GPU ranks have no protocol '{}' yet; there are: ll, ll128, direct_get",
                wishes.protocol);
  }
  return protocol;
}

}  // namespace

Result<DeviceChoice> choose_for_devices(Collective collective,
                                        const Shape& shape,
                                        std::int64_t bytes,
                                        const Wishes& wishes,
                                        const DeviceFacts& facts) {
  if (!wishes.path.empty() && wishes.path != "nvlink") {
    return fail(
        Code::kUnsupported, "GPU ranks have no path '{}' yet; there is: nvlink", wishes.path);
  }
  DeviceChoice choice;
  bool copies = facts.copy_engines && wishes.algorithm.empty() &&
                suits_copy_engines(collective, shape.ranks, bytes, facts);
  if (!wishes.protocol.empty()) {
    SENNIT_ASSIGN_OR_RETURN(choice.protocol, wished_protocol(wishes, facts.copy_engines));
    copies = choice.protocol == Protocol::kDirectGet;
  }
  const std::string_view wanted = wishes.algorithm.empty()
                                      ? default_algorithm(collective, shape.ranks, bytes)
                                      : std::string_view(wishes.algorithm);
  SENNIT_ASSIGN_OR_RETURN(choice.algorithm, find_algorithm(collective, wanted));
  if (const std::string_view why = choice.algorithm->refuses(shape); !why.empty()) {
    return fail(Code::kUnsupported,
                "{} {} refuses {} ranks: {}",
                name(collective),
                wanted,
                shape.ranks,
                why);
  }
  if (copies) {
    choice.protocol = Protocol::kDirectGet;
  } else if (wishes.protocol.empty()) {
    choice.protocol = message_bytes(*choice.algorithm, shape.ranks, bytes) <= kLlUpToBytes
                          ? Protocol::kLl
                          : Protocol::kLl128;
  }
  return choice;
}

Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape) {
  SENNIT_ASSIGN_OR_RETURN(Schedule made, make_schedule(*choice.algorithm, shape));
  // Two generations of packets: a message may wait while its successor is written. Copy engines
  // have words for all parts of a message.
  constexpr int kSlots = 2;
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(
      bind(std::make_shared<const Schedule>(std::move(made)),
           PathKind::kNvlink,
           choice.protocol,
           kSlots,
           choice.protocol == Protocol::kDirectGet ? Engine::kStream : Engine::kSm));
  return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace sennit
