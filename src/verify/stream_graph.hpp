// StreamGraph: which step of which stream comes after which other one, for the queue check.
#pragma once

#include "verify/queues.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sennit {

// Why a step comes after another one; see queues.hpp. A call of a host has a node of its own: it
// comes after the one before it, a step after the call that issues it, and a call that waits after
// what it waits for.
enum class Reason : std::uint8_t { kStream, kEvent, kSignal, kQueue, kHost, kIssue, kHostWait };

struct Cause {
  int from = 0;  // node
  Reason reason = Reason::kStream;
};

class StreamGraph {
 public:
  // With the reasons that hold always. kNotProved where a wait has no signal, or a signal no wait.
  static Result<StreamGraph> build(std::span<const IssuedSteps> ranks, const FlagNames& names);

  // Nodes of steps come first, by rank and place.
  [[nodiscard]] int steps() const { return first_.back(); }
  [[nodiscard]] int size() const { return static_cast<int>(causes_.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int node(int rank, std::size_t place) const {
    return first_[static_cast<std::size_t>(rank)] + static_cast<int>(place);
  }
  [[nodiscard]] int rank_of(int node) const;
  [[nodiscard]] std::size_t place_of(int node) const {
    return static_cast<std::size_t>(node - first_[static_cast<std::size_t>(rank_of(node))]);
  }
  [[nodiscard]] const StreamStep& step(int node) const {
    return issued(rank_of(node)).steps[place_of(node)];
  }
  [[nodiscard]] const IssuedSteps& issued(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const std::vector<Cause>& causes(int node) const {
    return causes_[static_cast<std::size_t>(node)];
  }

  void add(int from, int to, Reason reason) {
    causes_[static_cast<std::size_t>(to)].push_back({from, reason});
  }
  // A node for the call that issues a step.
  int add_call(int step);

  // All nodes, each behind its causes; none where some wait for each other in a circle.
  [[nodiscard]] std::optional<std::vector<int>> sorted() const;
  // One such circle in words.
  [[nodiscard]] std::string circle() const;
  [[nodiscard]] std::string describe(int node) const;

  // Generations of a flag, in order: its signal, the waits for it, and its reset.
  struct Generation {
    int signal = -1;
    std::vector<int> waits{};
    int reset = -1;
  };
  struct FlagUse {
    std::int64_t flag = 0;
    std::vector<Generation> generations{};
  };
  [[nodiscard]] const std::vector<FlagUse>& flags() const { return flags_; }
  [[nodiscard]] std::string name(std::int64_t flag) const { return names_(flag); }

 private:
  StreamGraph(std::span<const IssuedSteps> ranks, FlagNames names);
  void add_stream_order(int rank);
  Status add_events(int rank);
  Status collect_flags();
  Status add_signals();

  std::span<const IssuedSteps> ranks_;
  FlagNames names_;
  std::vector<int> first_;  // node of each rank, and one past the last
  std::vector<std::vector<Cause>> causes_;
  std::vector<int> step_of_call_;  // of nodes behind those of steps
  std::vector<FlagUse> flags_;
};

// What has surely happened before a node: of each stream of each rank, how many of its steps. Only
// of graphs without a circle.
class StreamClocks {
 public:
  // Causes for which `counts` is false are left out.
  StreamClocks(const StreamGraph& graph, const std::function<bool(Reason)>& counts);

  // Whether step `before` comes before step `after`, or is it.
  [[nodiscard]] bool precedes(int before, int after) const {
    const auto stream = static_cast<std::size_t>(stream_of_[static_cast<std::size_t>(before)]);
    return clock(after)[stream] > ordinal_[static_cast<std::size_t>(before)];
  }
  // The last step of `rank` that comes before `node` or is it, by its place; none: -1.
  [[nodiscard]] int last_of(int rank, int node) const;

 private:
  [[nodiscard]] std::span<const int> clock(int node) const {
    return std::span(clocks_).subspan(static_cast<std::size_t>(node) * streams_.size(),
                                      streams_.size());
  }

  struct Stream {
    int rank = 0;
    int number = 0;
    std::vector<int> places{};  // of its steps
  };
  std::vector<Stream> streams_;
  std::vector<int> stream_of_;  // by step: an index of streams_
  std::vector<int> ordinal_;    // by step: its place in the stream
  std::vector<int> clocks_;     // by node and stream: steps that have ended
};

// A hardware queue, the same for two streams that share it: ranks of one process on one device do.
std::int64_t queue_of(const StreamGraph& graph, const QueueModel& model, int step);

}  // namespace sennit
