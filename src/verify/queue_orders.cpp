#include "verify/queue_orders.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sennit {
namespace {

constexpr std::size_t kMostQueues = 64;

// An entry is a step that one of another queue, or of another rank's host, orders; an exit is a
// step that orders such a one. An entry leads to another one if an exit that orders that one may
// stand behind the first. Of the steps of one stream the earliest leads to all that later ones lead
// to, so only the earliest of each stream is kept.
class Orders {
 public:
  Orders(const StreamGraph& graph, const QueueModel& model)
      : graph_(graph), model_(model), local_(graph, [](Reason reason) {
          return reason == Reason::kStream || reason == Reason::kEvent;
        }) {
    number_queues();
    find_entries();
    lead();
  }

  [[nodiscard]] Status run() {
    if (queues_ > kMostQueues) {
      return fail(Code::kUnsupported,
                  "any order of {} hardware queues; up to {} are looked at",
                  queues_,
                  kMostQueues);
    }
    leave_circles();
    for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
      std::vector<Lead> path;
      if (entries_[entry].is_in_circle && comes_back(entry, entry, bit(entry), path)) {
        return fail(Code::kNotProved,
                    "steps may wait for each other in a circle: {}",
                    in_words(entry, path));
      }
    }
    return {};
  }

 private:
  using Mask = std::uint64_t;  // of queues
  struct Lead {
    int exit = 0;
    std::size_t entry = 0;  // that it orders
  };
  struct Entry {
    int step = 0;
    bool is_in_circle = true;
    std::vector<Lead> leads{};
  };

  [[nodiscard]] std::size_t queue(int step) const {
    return queue_of_[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] Mask bit(std::size_t entry) const { return Mask{1} << queue(entries_[entry].step); }

  // Its rank, and its number there.
  [[nodiscard]] std::pair<int, int> stream_of(std::size_t entry) const {
    const int step = entries_[entry].step;
    return {graph_.rank_of(step), graph_.step(step).stream};
  }

  void number_queues() {
    std::map<std::int64_t, std::size_t> known;
    for (int at = 0; at < graph_.steps(); ++at) {
      queue_of_.push_back(known.emplace(queue_of(graph_, model_, at), known.size()).first->second);
    }
    queues_ = known.size();
  }

  void find_entries() {
    exits_.resize(queues_);
    ordered_by_.resize(static_cast<std::size_t>(graph_.steps()));
    for (int at = 0; at < graph_.steps(); ++at) {
      bool is_entry = false;
      for (const Cause& cause : graph_.causes(at)) {
        if (queue(cause.from) == queue(at) && graph_.rank_of(cause.from) == graph_.rank_of(at)) {
          continue;
        }
        is_entry = true;
        std::vector<std::size_t>& ordered = ordered_by_[static_cast<std::size_t>(cause.from)];
        if (ordered.empty()) {
          exits_[queue(cause.from)].push_back(cause.from);
        }
        ordered.push_back(entries_.size());
      }
      if (is_entry) {
        entries_.push_back({.step = at});
      }
    }
  }

  // Entries are in the order of their streams.
  void lead() {
    for (Entry& entry : entries_) {
      std::map<std::pair<int, int>, Lead> earliest;  // by stream
      const int holder = holder_of(entry.step);
      for (const int exit : exits_[queue(entry.step)]) {
        if (!may_be_held_up(exit, entry.step, holder)) {
          continue;
        }
        for (const std::size_t next : ordered_by_[static_cast<std::size_t>(exit)]) {
          const auto [known, is_first] = earliest.emplace(stream_of(next), Lead{exit, next});
          if (!is_first && next < known->second.entry) {
            known->second = {exit, next};
          }
        }
      }
      for (const auto& [stream, found] : earliest) {
        entry.leads.push_back(found);
      }
    }
  }

  // What a step inside a kernel waits for holds up its stream alone. In a graph, so does an event:
  // it is no node, but an edge to the next node.
  [[nodiscard]] bool stands_in_queue(int step) const {
    const StreamStep::Kind kind = graph_.step(step).kind;
    const bool is_event =
        kind == StreamStep::Kind::kRecord || kind == StreamStep::Kind::kAwaitEvent;
    return !graph_.step(step).is_in_kernel && !(is_event && model_.order == QueueOrder::kAny);
  }

  // The first step of its stream, from this one on, that stands in the queue; none: -1.
  [[nodiscard]] int holder_of(int step) const {
    const int rank = graph_.rank_of(step);
    const int stream = graph_.step(step).stream;
    for (int at = step; at < graph_.steps() && graph_.rank_of(at) == rank; ++at) {
      if (graph_.step(at).stream == stream && stands_in_queue(at)) {
        return at;
      }
    }
    return -1;
  }

  // While `entry` waits, and so `holder` stands in the queue.
  [[nodiscard]] bool may_be_held_up(int exit, int entry, int holder) const {
    const bool needs_entry =
        graph_.rank_of(entry) == graph_.rank_of(exit) && local_.precedes(entry, exit);
    return needs_entry || (holder >= 0 && !is_ahead(exit, holder));
  }

  // Whether `one` stands ahead of `other` in every order of their queue.
  [[nodiscard]] bool is_ahead(int one, int other) const {
    const int rank = graph_.rank_of(one);
    const int other_rank = graph_.rank_of(other);
    if (model_.order == QueueOrder::kAny) {
      return rank == other_rank && local_.precedes(one, other);
    }
    if (rank == other_rank) {
      return one <= other;
    }
    const std::vector<std::size_t>& theirs = graph_.issued(other_rank).meetings;
    const auto met = std::ranges::upper_bound(theirs, graph_.place_of(other)) - theirs.begin();
    return met > 0 &&
           graph_.place_of(one) < graph_.issued(rank).meetings[static_cast<std::size_t>(met - 1)];
  }

  // Marks what leads to nothing that leads on: it is in no circle.
  void leave_circles() {
    std::vector<std::vector<std::size_t>> led_by(entries_.size());
    std::vector<std::size_t> open(entries_.size());
    std::vector<std::size_t> ended;
    for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
      open[entry] = entries_[entry].leads.size();
      for (const Lead& found : entries_[entry].leads) {
        led_by[found.entry].push_back(entry);
      }
      if (open[entry] == 0) {
        ended.push_back(entry);
      }
    }
    while (!ended.empty()) {
      const std::size_t entry = ended.back();
      ended.pop_back();
      entries_[entry].is_in_circle = false;
      for (const std::size_t before : led_by[entry]) {
        if (--open[before] == 0) {
          ended.push_back(before);
        }
      }
    }
  }

  // Whether `at` leads back to `first` through other queues, each of them once; `path` is then how.
  bool comes_back(std::size_t first, std::size_t at, Mask visited, std::vector<Lead>& path) {
    for (const Lead& found : entries_[at].leads) {
      path.push_back(found);
      // What may stand behind the first entry may stand behind an earlier one of its stream as
      // well.
      if (found.entry <= first && stream_of(found.entry) == stream_of(first)) {
        return true;
      }
      if (entries_[found.entry].is_in_circle && (visited & bit(found.entry)) == 0 &&
          dead_ends_.emplace(first, found.entry, visited).second &&
          comes_back(first, found.entry, visited | bit(found.entry), path)) {
        return true;
      }
      path.pop_back();
    }
    return false;
  }

  [[nodiscard]] std::string in_words(std::size_t first, const std::vector<Lead>& path) const {
    std::string words;
    std::size_t at = first;
    for (const Lead& lead : path) {
      words += fmt::format("{}{} may be queued behind ({}), and ({}) needs it",
                           words.empty() ? "" : "; ",
                           graph_.describe(lead.exit),
                           graph_.describe(entries_[at].step),
                           graph_.describe(entries_[lead.entry].step));
      at = lead.entry;
    }
    return words;
  }

  const StreamGraph& graph_;
  QueueModel model_;
  StreamClocks local_;  // of what a graph keeps
  std::size_t queues_ = 0;
  std::vector<std::size_t> queue_of_;                 // by step
  std::vector<Entry> entries_;                        // by step
  std::vector<std::vector<int>> exits_;               // by queue
  std::vector<std::vector<std::size_t>> ordered_by_;  // by exit, entries
  std::set<std::tuple<std::size_t, std::size_t, Mask>> dead_ends_;
};

}  // namespace

Status check_all_orders(const StreamGraph& graph, const QueueModel& model) {
  return Orders(graph, model).run();
}

}  // namespace sennit
