// WorkQueues: the outstanding works of a communicator of host ranks. Collectives run one after the
// other, and so do the sends to a peer and the recvs from it: only the first work of a queue has
// begun.
#pragma once

#include "comm/work.hpp"

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace sennit {

struct WorkQueues {
  using Queue = std::deque<std::shared_ptr<Work>>;
  // In this order they go on: sends first, since peers wait for what they say, and a recv may fetch
  // for long.
  struct PairKey {
    bool is_recv = false;
    int peer = 0;
    auto operator<=>(const PairKey&) const = default;
  };
  static PairKey recv_from(int peer) { return {.is_recv = true, .peer = peer}; }
  using Pairs = std::map<PairKey, Queue>;

  Queue collectives;
  // Recvs from any rank are in the queue of kAnyRank, which is never empty, until their message is
  // known.
  Pairs pairs;
  Pairs::node_type spare;  // the queue that became empty last, for the next new one

  // The queue for works such as this one.
  [[nodiscard]] Queue& of(const Work& work);
  // Forgets an empty queue; the one behind it.
  Pairs::iterator erase(Pairs::iterator pair);
  // The first work of that queue, or null.
  [[nodiscard]] const Work* first_of(const Work& work) const;
  [[nodiscard]] bool have_recvs_from_any() const { return pairs.contains(recv_from(kAnyRank)); }
  // Takes the recv that was posted first of those from `peer`, or from any rank, with this tag out
  // of its queue; null: there is none.
  std::shared_ptr<Work> take_recv(int peer, std::int32_t tag);
  // The first of each queue.
  [[nodiscard]] std::vector<std::shared_ptr<Work>> running() const;
  // Any one, or null.
  [[nodiscard]] std::shared_ptr<Work> outstanding() const;
  // When the next work has to be looked at.
  [[nodiscard]] Clock::time_point next_look() const;
  [[nodiscard]] bool are_empty() const { return collectives.empty() && pairs.empty(); }
};

}  // namespace sennit
