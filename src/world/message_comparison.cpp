#include "world/message_comparison.hpp"

#include <algorithm>

namespace sennit {

std::optional<Verdict> MessageComparison::compare(int from, int to, std::uint64_t& compared) const {
  const auto& sent = world_.device_line(from).messages[static_cast<std::size_t>(to)].sent;
  const auto& received = world_.device_line(to).messages[static_cast<std::size_t>(from)].received;
  const std::uint64_t last = std::min(sent.entered.load(std::memory_order_acquire),
                                      received.entered.load(std::memory_order_acquire));
  for (; compared < last; ++compared) {
    const std::uint64_t number = compared + 1;
    CallWords meant;
    CallWords expected;
    // Messages so old that they cannot be read have ended long ago.
    if (sent.read(number, meant) && received.read(number, expected) && meant != expected) {
      if (meant.varying && expected.varying && meant.count != expected.count) {
        return different_counts(world_, from, meant.count, to, expected.count);
      }
      return Verdict{.code = Code::kMismatch,
                     .blamed_ranks = {std::min(from, to), std::max(from, to)},
                     .evidence = fmt::format("message {} from {} to {} is {} for its sender and {} "
                                             "for its receiver",
                                             number,
                                             world_.peers().describe(from),
                                             world_.peers().describe(to),
                                             describe(meant),
                                             describe(expected))};
    }
  }
  return std::nullopt;
}

std::optional<Verdict> MessageComparison::find_difference() {
  if (world_.size() > stream::kMaxRanks) {
    return std::nullopt;  // they have no logs
  }
  for (int peer = 0; peer < world_.size(); ++peer) {
    if (peer == world_.rank()) {
      continue;
    }
    Compared& compared = compared_[static_cast<std::size_t>(peer)];
    if (auto verdict = compare(world_.rank(), peer, compared.sent)) {
      return verdict;
    }
    if (auto verdict = compare(peer, world_.rank(), compared.received)) {
      return verdict;
    }
  }
  return std::nullopt;
}

std::optional<Verdict> MessageComparison::find_missing(int finalized) const {
  if (world_.size() > stream::kMaxRanks || finalized == world_.rank()) {
    return std::nullopt;
  }
  const MessageLine& mine =
      world_.device_line(world_.rank()).messages[static_cast<std::size_t>(finalized)];
  const MessageLine& theirs =
      world_.device_line(finalized).messages[static_cast<std::size_t>(world_.rank())];
  struct Way {
    std::uint64_t there;
    const char* their_calls;
    std::uint64_t here;
    const char* my_calls;
  };
  const auto entered = [](const auto& log) { return log.entered.load(std::memory_order_acquire); };
  for (const Way& way :
       {Way{entered(theirs.sent), "sends to", entered(mine.received), "recvs from"},
        Way{entered(theirs.received), "recvs from", entered(mine.sent), "sends to"}}) {
    if (way.there < way.here) {
      return Verdict{.code = Code::kMismatch,
                     .blamed_ranks = {finalized},
                     .evidence = fmt::format("{} finalized the communicator after {} {} this rank; "
                                             "this rank has called {} {} it",
                                             world_.peers().describe(finalized),
                                             way.there,
                                             way.their_calls,
                                             way.here,
                                             way.my_calls)};
    }
  }
  return std::nullopt;
}

}  // namespace sennit
