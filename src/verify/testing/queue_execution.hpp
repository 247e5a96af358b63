// For tests: the execution of steps in hardware queues, by their rules alone.
#pragma once

#include "verify/queues.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sennit::verify_test {

// Of each rank, its steps in the order of its one queue.
using QueueOrders = std::vector<std::vector<std::size_t>>;

inline QueueOrders orders_of_issue(const std::vector<IssuedSteps>& ranks) {
  QueueOrders orders;
  for (const IssuedSteps& rank : ranks) {
    orders.emplace_back();
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      orders.back().push_back(i);
    }
  }
  return orders;
}

// In queues, one step after the other.
class QueueExecution {
 public:
  // Without orders each stream has a queue of its own. Steps of kernels hold up their stream alone,
  // and so do events of a graph, which are edges of it.
  QueueExecution(const std::vector<IssuedSteps>& ranks,
                 const QueueOrders& orders,
                 bool is_graph = false)
      : ranks_(ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::map<int, std::vector<std::size_t>> queues;
      for (std::size_t i = 0; i < ranks[rank].steps.size(); ++i) {
        const std::size_t place = orders.empty() ? i : orders[rank][i];
        const StreamStep& step = ranks[rank].steps[place];
        const bool is_event =
            step.kind == StreamStep::Kind::kRecord || step.kind == StreamStep::Kind::kAwaitEvent;
        if (step.is_in_kernel || (is_event && is_graph)) {
          queues_.push_back({rank, {place}});
        } else {
          queues[orders.empty() ? step.stream : 0].push_back(place);
        }
      }
      for (auto& [number, queue] : queues) {
        queues_.push_back({rank, std::move(queue)});
      }
    }
  }

  // Whether all steps end that `has_issued` says are there.
  template <typename HasIssued>
  void run(HasIssued has_issued) {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (Queue& queue : queues_) {
        while (queue.next < queue.places.size()) {
          const std::pair at(queue.rank, queue.places[queue.next]);
          if (!has_issued(at.first, at.second) || !can_end(at)) {
            break;
          }
          end(at);
          ++queue.next;
          has_moved = true;
        }
      }
    }
  }

  [[nodiscard]] bool has_ended(std::size_t rank, std::size_t place) const {
    return ended_.contains({rank, place});
  }
  [[nodiscard]] bool has_ended_all() const {
    std::size_t steps = 0;
    for (const IssuedSteps& rank : ranks_) {
      steps += rank.steps.size();
    }
    return ended_.size() == steps;
  }

 private:
  using At = std::pair<std::size_t, std::size_t>;
  struct Queue {
    std::size_t rank = 0;
    std::vector<std::size_t> places{};
    std::size_t next = 0;
  };

  [[nodiscard]] bool can_end(At at) const {
    const std::vector<StreamStep>& steps = ranks_[at.first].steps;
    const StreamStep& step = steps[at.second];
    for (std::size_t before = 0; before < at.second; ++before) {
      const bool is_of_stream = steps[before].stream == step.stream;
      const bool is_record = steps[before].kind == StreamStep::Kind::kRecord &&
                             step.kind == StreamStep::Kind::kAwaitEvent &&
                             steps[before].event == step.event;
      if ((is_of_stream || is_record) && !has_ended(at.first, before)) {
        return false;
      }
    }
    return step.kind != StreamStep::Kind::kAwait || full_.contains(step.flag);
  }
  void end(At at) {
    const StreamStep& step = ranks_[at.first].steps[at.second];
    if (step.kind == StreamStep::Kind::kSignal) {
      full_.insert(step.flag);
    } else if (step.kind == StreamStep::Kind::kReset) {
      full_.erase(step.flag);
    }
    ended_.insert(at);
  }

  const std::vector<IssuedSteps>& ranks_;
  std::vector<Queue> queues_;
  std::set<At> ended_;
  std::set<std::int64_t> full_;
};

inline bool ends(const std::vector<IssuedSteps>& ranks,
                 const QueueOrders& orders,
                 bool is_graph = false) {
  QueueExecution execution(ranks, orders, is_graph);
  execution.run([](std::size_t, std::size_t) { return true; });
  return execution.has_ended_all();
}

}  // namespace sennit::verify_test
