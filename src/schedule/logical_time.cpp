#include "schedule/logical_time.hpp"

#include <algorithm>

namespace sennit {
namespace {

class Graph {
 public:
  explicit Graph(const Schedule& schedule) : schedule_(schedule) {
    first_.resize(schedule.ranks.size());
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
        first_[rank].push_back(time_.nodes.size());
        for (std::size_t step = 0; step < schedule.ranks[rank][lane].steps.size(); ++step) {
          time_.nodes.push_back(
              {static_cast<int>(rank), static_cast<int>(lane), static_cast<int>(step), 0});
        }
      }
    }
  }

  LogicalTime run() && {
    add_edges_within_ranks();
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      add_messages(static_cast<int>(c));
    }
    set_ticks();
    return std::move(time_);
  }

 private:
  [[nodiscard]] std::size_t first_of(LaneId id) const {
    return first_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)];
  }

  [[nodiscard]] const std::vector<Step>& steps_of(LaneId id) const {
    return schedule_.ranks[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)]
        .steps;
  }

  [[nodiscard]] const Step& step_of(const StepNode& node) const {
    return steps_of({node.rank, node.lane})[static_cast<std::size_t>(node.step)];
  }

  void add_edges_within_ranks() {
    for (std::size_t n = 0; n < time_.nodes.size(); ++n) {
      const StepNode& node = time_.nodes[n];
      if (node.step > 0) {
        time_.edges.push_back({n - 1, n, EdgeKind::kLane});
      }
      for (const StepRef ref : step_of(node).after) {
        const std::size_t before =
            first_of({node.rank, ref.lane}) + static_cast<std::size_t>(ref.step);
        time_.edges.push_back({before, n, EdgeKind::kAfter});
      }
    }
  }

  // The steps of a lane that name `channel` in `list`, as often as they name it, in order.
  [[nodiscard]] std::vector<std::size_t> uses(LaneId lane,
                                              std::vector<int> Step::* list,
                                              int channel) const {
    std::vector<std::size_t> nodes;
    const std::vector<Step>& steps = steps_of(lane);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto times = static_cast<std::size_t>(std::ranges::count(steps[s].*list, channel));
      nodes.insert(nodes.end(), times, first_of(lane) + s);
    }
    return nodes;
  }

  // A channel is a FIFO: the k-th message sent is the k-th received.
  void add_messages(int channel) {
    const Channel& c = schedule_.channels[static_cast<std::size_t>(channel)];
    const std::vector<std::size_t> sent = uses(c.writer, &Step::out, channel);
    for (const LaneId reader : c.readers) {
      const std::vector<std::size_t> received = uses(reader, &Step::in, channel);
      for (std::size_t m = 0; m < std::min(sent.size(), received.size()); ++m) {
        time_.edges.push_back({sent[m], received[m], EdgeKind::kMessage, channel});
      }
    }
  }

  // Longest paths in topological order.
  void set_ticks() {
    std::vector<std::vector<std::size_t>> next(time_.nodes.size());
    std::vector<int> waits_for(time_.nodes.size(), 0);
    for (const StepEdge& edge : time_.edges) {
      next[edge.from].push_back(edge.to);
      ++waits_for[edge.to];
    }
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < waits_for.size(); ++n) {
      if (waits_for[n] == 0) {
        ready.push_back(n);
      }
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const std::size_t n = ready[i];
      for (const std::size_t to : next[n]) {
        time_.nodes[to].tick = std::max(time_.nodes[to].tick, time_.nodes[n].tick + 1);
        if (--waits_for[to] == 0) {
          ready.push_back(to);
        }
      }
    }
    time_.cyclic = ready.size() < time_.nodes.size();
    for (std::size_t n = 0; n < time_.nodes.size(); ++n) {
      StepNode& node = time_.nodes[n];
      if (time_.cyclic && node.step > 0) {
        node.tick = std::max(node.tick, time_.nodes[n - 1].tick + 1);
      }
      time_.ticks = std::max(time_.ticks, node.tick + 1);
    }
  }

  const Schedule& schedule_;
  std::vector<std::vector<std::size_t>> first_;  // node of step 0, by rank and lane
  LogicalTime time_;
};

}  // namespace

LogicalTime logical_time(const Schedule& schedule) { return Graph(schedule).run(); }

}  // namespace sennit
