#include "world/passed_deadline.hpp"

#include "world/operation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sennit {
namespace {

int other_end(const World& world, const CallView& view) {
  return view.message.from == world.rank() ? view.message.to : view.message.from;
}

// Whether the other end of a message has begun its part, as far as that is known.
bool has_other_end(const World& world, const CallView& view) {
  const bool is_send = view.message.from == world.rank();
  const int peer = other_end(world, view);
  if (peer == kAnyRank) {
    return false;
  }
  // Message logs stay on their node.
  return !world.is_local(peer) ||
         world.message_log(peer, world.rank())
                 .way(!is_send)
                 .calls.entered.load(std::memory_order_acquire) >= view.message.number;
}

// Whether a rank that has not left our call has not come there yet.
bool is_absent(const World& world, int rank, const CallView& view) {
  return view.sequence != 0
             ? world.line(rank).entered.load(std::memory_order_acquire) < view.sequence
             : !has_other_end(world, view);
}

// Whom a rank in our call waits for, as far as it has said so. One that has done its part of it
// waits for something else.
int waits_for(const World& world, int rank, const CallView& view) {
  if (rank == world.rank()) {
    return view.waiting.peer;
  }
  if (view.sequence != 0 && has_left(world, rank, view)) {
    return -1;
  }
  const int peer = world.line(rank).waits_for.load(std::memory_order_acquire);
  return peer >= 0 && peer < world.size() ? peer : -1;
}

// Which ranks are in the call, where none is absent.
std::string describe_presence(const World& world, const CallView& view) {
  if (view.sequence == 0) {
    const int peer = other_end(world, view);
    return world.is_local(peer) ? "both ranks have made their calls"
                                : fmt::format("whether {} has made its call is not known here",
                                              world.peers().describe(peer));
  }
  std::vector<int> left;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank() && has_left(world, rank, view)) {
      left.push_back(rank);
    }
  }
  return left.empty() ? "all ranks have made the call"
                      : fmt::format("{} {} done all of the call, and the others are in it",
                                    describe_ranks(world, left),
                                    left.size() == 1 ? "has" : "have");
}

// Of the last rank of a chain: whether it waits at all.
std::string describe_last(const World& world, const CallView& view, int rank) {
  // What ranks of other nodes do is known with a delay.
  const bool is_idle = rank != world.rank() && world.is_local(rank) &&
                       !has_left(world, rank, view) && waits_for(world, rank, view) < 0;
  return is_idle ? fmt::format(
                       "; {} has started its call and does not wait for it: a call goes on "
                       "only while its rank waits for one",
                       world.peers().describe(rank))
                 : "";
}

// Of a chain of ranks that wait for each other: between which of them the network is. It need not
// be the end of the chain: what ranks of other nodes wait for is known with a delay.
std::string describe_crossings(const World& world, std::span<const int> chain) {
  std::vector<std::string> pairs;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (world.node_of(chain[i - 1]) != world.node_of(chain[i])) {
      pairs.push_back(fmt::format("{} and {}", chain[i - 1], chain[i]));
    }
  }
  if (pairs.empty()) {
    return {};
  }
  return fmt::format("; ranks {} are on different nodes: a card or cable may be down",
                     fmt::join(pairs, ", "));
}

}  // namespace

Verdict explain_deadline(const World& world, const CallView& view) {
  std::vector<int> stopped;
  std::vector<int> absent;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank() || has_left(world, rank, view)) {
      continue;
    }
    if (world.peers().is_stopped(rank)) {
      stopped.push_back(rank);
    } else if (is_absent(world, rank, view)) {
      absent.push_back(rank);
    }
  }
  Verdict verdict{.code = Code::kDeadlineExceeded};
  if (!stopped.empty()) {
    verdict.blamed_ranks = stopped;
    verdict.evidence =
        fmt::format("stopped by a signal or a debugger: {}", describe_ranks(world, stopped));
    return verdict;
  }
  if (!absent.empty()) {
    verdict.blamed_ranks = absent;
    verdict.evidence =
        fmt::format("alive, but has not made {}: {}",
                    view.sequence != 0                  ? "this call"
                    : view.message.from == world.rank() ? "the recv that this send needs"
                                                        : "the send that this recv needs",
                    describe_ranks(world, absent));
    return verdict;
  }
  // What moved when a short call began says nothing of its end.
  const double longest_pause_s = std::min(1.0, view.elapsed_s / 2);
  const std::string presence = describe_presence(world, view);
  if (view.idle_s && *view.idle_s < longest_pause_s) {
    verdict.evidence = fmt::format("{}, and its data moves", presence);
    verdict.next = "give the call more time (deadline_s, or SENNIT_DEADLINE_S)";
    return verdict;
  }
  // Every rank is in the call, or has done its part of it: follow who waits for whom to the end, or
  // into a circle.
  std::vector<int> chain{world.rank()};
  std::set<int> seen{world.rank()};
  for (int next = waits_for(world, world.rank(), view); next >= 0 && seen.insert(next).second;
       next = waits_for(world, next, view)) {
    chain.push_back(next);
  }
  verdict.blamed_ranks = chain.size() > 1 ? std::vector<int>{chain.back()} : std::vector<int>{};
  verdict.evidence = fmt::format("{}, without progress{} at lane {} step {}",
                                 presence,
                                 view.idle_s ? fmt::format(" for {:.0f} s", *view.idle_s) : "",
                                 view.waiting.lane,
                                 view.waiting.step);
  if (chain.size() > 1) {
    verdict.evidence += fmt::format("; who waits for whom: {}", fmt::join(chain, " -> "));
    verdict.evidence += describe_last(world, view, chain.back());
    verdict.evidence += describe_crossings(world, chain);
  }
  return verdict;
}

}  // namespace sennit
