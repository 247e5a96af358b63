#include "world/passed_deadline.hpp"

#include <fmt/ranges.h>

#include <atomic>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sennit {
namespace {

// Whether the other end of a message has begun its part.
bool has_other_end(const World& world, const CallView& view) {
  const bool is_send = view.message.from == world.rank();
  const int peer = is_send ? view.message.to : view.message.from;
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
  constexpr double kIdleTime = 1.0;
  if (view.idle_s && *view.idle_s < kIdleTime) {
    verdict.evidence = "all are in the call, and its data moves";
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
  verdict.evidence = fmt::format(
      "all are in the call, without progress{} at lane {} step {}; who waits for whom: {}",
      view.idle_s ? fmt::format(" for {:.0f} s", *view.idle_s) : "",
      view.waiting.lane,
      view.waiting.step,
      fmt::join(chain, " -> "));
  verdict.evidence += describe_crossings(world, chain);
  return verdict;
}

}  // namespace sennit
