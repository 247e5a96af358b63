#include "verify/queues.hpp"

#include "verify/queue_orders.hpp"
#include "verify/stream_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace sennit {
namespace {

// Whatever the hardware, for which `counts` is asked.
bool holds_always(Reason reason) {
  return reason == Reason::kStream || reason == Reason::kEvent || reason == Reason::kSignal;
}

Status circle_of(const StreamGraph& graph) {
  return fail(Code::kNotProved, "steps wait for each other in a circle: {}", graph.circle());
}

// Whether a wait comes behind a step for another reason than the signal that it waits for.
bool comes_behind(const StreamGraph& graph, const StreamClocks& clocks, int step, int wait) {
  return std::ranges::any_of(graph.causes(wait), [&](const Cause& cause) {
    return cause.reason != Reason::kSignal && clocks.precedes(step, cause.from);
  });
}

// The signal comes before the reset, and each wait within the generation.
Status check_generation(const StreamGraph& graph,
                        const StreamClocks& clocks,
                        const StreamGraph::Generation& generation) {
  if (generation.reset < 0) {
    return fail(Code::kNotProved,
                "{}, which stays full: nobody resets it",
                graph.describe(generation.signal));
  }
  for (const int wait : generation.waits) {
    if (!clocks.precedes(wait, generation.reset)) {
      return fail(Code::kNotProved,
                  "{} may come before ({}), which then misses it",
                  graph.describe(generation.reset),
                  graph.describe(wait));
    }
  }
  if (!clocks.precedes(generation.signal, generation.reset)) {
    return fail(Code::kNotProved,
                "{} may come before ({})",
                graph.describe(generation.reset),
                graph.describe(generation.signal));
  }
  return {};
}

// A generation ends before anything of the next one begins.
Status check_succession(const StreamGraph& graph,
                        const StreamClocks& clocks,
                        const StreamGraph::Generation& generation,
                        const StreamGraph::Generation& next) {
  if (!clocks.precedes(generation.reset, next.signal)) {
    return fail(Code::kNotProved,
                "{} may come before ({}), and is lost then",
                graph.describe(next.signal),
                graph.describe(generation.reset));
  }
  for (const int wait : next.waits) {
    if (!comes_behind(graph, clocks, generation.reset, wait)) {
      return fail(Code::kNotProved,
                  "{} may come before ({}), and takes an old signal for a new one",
                  graph.describe(wait),
                  graph.describe(generation.reset));
    }
  }
  return {};
}

Status check_generations(const StreamGraph& graph) {
  const StreamClocks clocks(graph, holds_always);
  for (const StreamGraph::FlagUse& use : graph.flags()) {
    for (std::size_t g = 0; g < use.generations.size(); ++g) {
      const StreamGraph::Generation& generation = use.generations[g];
      SENNIT_RETURN_IF_ERROR(check_generation(graph, clocks, generation));
      if (g + 1 < use.generations.size()) {
        SENNIT_RETURN_IF_ERROR(check_succession(graph, clocks, generation, use.generations[g + 1]));
      }
    }
  }
  return {};
}

Result<StreamGraph> proved_signals(std::span<const IssuedSteps> ranks, const FlagNames& names) {
  SENNIT_ASSIGN_OR_RETURN(StreamGraph graph, StreamGraph::build(ranks, names));
  if (!graph.sorted()) {
    return circle_of(graph);
  }
  SENNIT_RETURN_IF_ERROR(check_generations(graph));
  return graph;
}

void add_queues(StreamGraph& graph, const QueueModel& model) {
  std::map<std::int64_t, int> last;  // step, by queue
  for (int at = 0; at < graph.steps(); ++at) {
    if (graph.step(at).is_in_kernel) {
      continue;
    }
    const auto [known, is_first] = last.emplace(queue_of(graph, model, at), at);
    if (!is_first) {
      graph.add(known->second, at, Reason::kQueue);
      known->second = at;
    }
  }
}

bool do_ranks_share_queues(std::span<const IssuedSteps> ranks, const QueueModel& model) {
  std::set<std::pair<int, int>> places;
  for (const IssuedSteps& rank : ranks) {
    places.insert({rank.process, rank.device});
  }
  return model.queues != Queues::kOwn && places.size() < ranks.size();
}

// Calls of hosts, and what they wait for.
class HostCalls {
 public:
  HostCalls(StreamGraph& graph, const QueueModel& model, const HostModel& host)
      : graph_(graph), model_(model), host_(host) {}

  void add() {
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      calls_.emplace_back();
      for (std::size_t place = 0; place < graph_.issued(rank).steps.size(); ++place) {
        add_call(rank, place);
      }
    }
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      for (std::size_t n = 0; n < graph_.issued(rank).meetings.size(); ++n) {
        add_meeting(rank, n);
      }
    }
  }

  // A call that waits with the lock of its process needs nothing that another thread may not have
  // issued yet. `clocks` know of no hosts.
  [[nodiscard]] Status check_locks(const StreamClocks& clocks) const {
    for (const Wait& wait : waits_) {
      for (int other = 0; other < graph_.ranks(); ++other) {
        if (other == wait.rank ||
            graph_.issued(other).process != graph_.issued(wait.rank).process) {
          continue;
        }
        const int needed = clocks.last_of(other, wait.step);
        if (needed >= static_cast<int>(surely_issued(other, wait.rank, wait.place))) {
          return fail(Code::kNotProved,
                      "a host holds the lock of its process at ({}) until ({}) has ended, which "
                      "needs that another thread issues ({})",
                      graph_.describe(graph_.node(wait.rank, wait.place)),
                      graph_.describe(wait.step),
                      graph_.describe(graph_.node(other, static_cast<std::size_t>(needed))));
        }
      }
    }
    return {};
  }

 private:
  struct Wait {
    int rank = 0;
    std::size_t place = 0;  // of the call
    int step = 0;           // that it waits for
  };

  void add_call(int rank, std::size_t place) {
    const int step = graph_.node(rank, place);
    const int call = graph_.add_call(step);
    std::vector<int>& calls = calls_[static_cast<std::size_t>(rank)];
    if (!calls.empty()) {
      graph_.add(calls.back(), call, Reason::kHost);
    }
    calls.push_back(call);
    graph_.add(call, step, Reason::kIssue);
    const bool is_launch = graph_.step(step).kind == StreamStep::Kind::kLaunch;
    if (host_.waits == HostModel::Waits::kForRoom) {
      std::vector<int>& queue = queues_[{rank, queue_of(graph_, model_, step)}];
      const auto depth = static_cast<std::size_t>(host_.depth);
      if (queue.size() >= depth) {
        wait(rank, place, queue[queue.size() - depth]);
      }
      queue.push_back(step);
    } else if (host_.waits == HostModel::Waits::kAlways || is_launch) {
      for (const auto& [stream, last] : last_[rank]) {
        wait(rank, place, last);
      }
    }
    last_[rank][graph_.step(step).stream] = step;
  }

  void wait(int rank, std::size_t place, int step) {
    graph_.add(step, calls_[static_cast<std::size_t>(rank)].back(), Reason::kHostWait);
    waits_.push_back({rank, place, step});
  }

  void add_meeting(int rank, std::size_t n) {
    const std::size_t behind = graph_.issued(rank).meetings[n];
    if (behind >= graph_.issued(rank).steps.size()) {
      return;
    }
    for (int other = 0; other < graph_.ranks(); ++other) {
      const std::size_t before = graph_.issued(other).meetings[n];
      if (other != rank && before > 0) {
        graph_.add(calls_[static_cast<std::size_t>(other)][before - 1],
                   calls_[static_cast<std::size_t>(rank)][behind],
                   Reason::kHost);
      }
    }
  }

  // How many steps `other` has issued at least when `rank` issues the one at `place`.
  [[nodiscard]] std::size_t surely_issued(int other, int rank, std::size_t place) const {
    const std::vector<std::size_t>& mine = graph_.issued(rank).meetings;
    const auto met = std::ranges::upper_bound(mine, place) - mine.begin();
    return met == 0 ? 0 : graph_.issued(other).meetings[static_cast<std::size_t>(met - 1)];
  }

  StreamGraph& graph_;
  QueueModel model_;
  HostModel host_;
  std::vector<std::vector<int>> calls_;                              // nodes, by rank
  std::map<std::pair<int, std::int64_t>, std::vector<int>> queues_;  // steps, by rank and queue
  std::map<int, std::map<int, int>> last_;                           // step, by rank and stream
  std::vector<Wait> waits_;
};

}  // namespace

Status check_signals(std::span<const IssuedSteps> ranks, const FlagNames& names) {
  return proved_signals(ranks, names).status();
}

Status check_queues(std::span<const IssuedSteps> ranks,
                    const QueueModel& model,
                    const FlagNames& names) {
  SENNIT_ASSIGN_OR_RETURN(StreamGraph graph, proved_signals(ranks, names));
  if (model.order == QueueOrder::kAny || do_ranks_share_queues(ranks, model)) {
    return check_all_orders(graph, model);
  }
  add_queues(graph, model);
  return graph.sorted() ? Status() : circle_of(graph);
}

Status check_hosts(std::span<const IssuedSteps> ranks,
                   const QueueModel& model,
                   const HostModel& host,
                   const FlagNames& names) {
  SENNIT_ASSIGN_OR_RETURN(StreamGraph graph, proved_signals(ranks, names));
  add_queues(graph, model);
  if (!graph.sorted()) {
    return circle_of(graph);
  }
  HostCalls calls(graph, model, host);
  const StreamClocks clocks(graph, [](Reason) { return true; });
  calls.add();
  if (!graph.sorted()) {
    return circle_of(graph);
  }
  return host.locks_process ? calls.check_locks(clocks) : Status();
}

}  // namespace sennit
