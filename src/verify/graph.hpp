// Graph: who waits for whom in a strand, for all tiles at once.
//
// A node is one step of one rank (with bursts: one step for `burst` consecutive tiles, which run as
// one unit). An edge from u to v with delay k says: v of tile t starts only after u of tile t - k
// has finished. Tiles are counted in periods: the least common multiple of all bursts, 1 as a rule.
//
//   order    a lane's steps one after the other (0), its first after its last (1)
//   after    the same rank and tile (0)
//   scratch  every user of the instance at tile t - depth, through one node that stands for
//            "instance free", which keeps the number of edges linear
//   message  sender -> recipient (0)
//   credit   the recipient of global message g - slots -> the sender of g
//   release  where there is such an end: recipient -> end of the sending step
//   ready    where the reader of a bundle chooses: all that its step waits for -> the sender,
//   because
//            it answers only when nothing but the message is missing
//
// A step that sends by direct_get, or on a bundle whose reader chooses, has two nodes. At the first
// its inputs are consumed (`in` slots are free again) and its blocks are offered; at the second
// every reader has taken them. Lane successors and `after` steps wait for the second.
//
// Who waits for whom on a bundle depends on the paths that its sender picks. Two graphs enclose all
// of it (docs/decisions/0011-choices-at-run-time.md has the proofs):
//   kTightest  credit by the slots of one path, release edges wherever a message may be exposed.
//              Every wait of every choice follows from its edges, and a sender that always picks
//              one path waits for exactly that; so what is live here is live with every choice. A
//              topological order of it is an execution that every choice allows.
//   kLoosest   credit by the slots of all paths, no release edge unless all paths expose. Its order
//              holds with every choice, so races are looked for here. A message that is exposed
//              only by choice is read at a pair of nodes of its own: what follows the fetch follows
//              the first, because the sender ends after it; what the fetch follows, the second
//              follows. No path leads through either, so no other order rests on that choice.
// Without bundles the two are equal.
#pragma once

#include "flat_strand.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace sennit {

enum class EdgeKind : std::uint8_t {
  kOrder,
  kAfter,
  kScratch,
  kMessage,
  kCredit,
  kRelease,
  kReady
};

struct Edge {
  int from = 0;
  int to = 0;
  int delay = 0;  // in periods
  EdgeKind kind = EdgeKind::kOrder;
  int subject = 0;  // the channel, or the scratch
};

enum class Coupling : std::uint8_t { kTightest, kLoosest };

class Graph {
 public:
  // kNotProved when bursts make the two ends of a channel disagree on the order of its messages.
  // `program` outlives the graph. Nodes have the same numbers whatever the coupling, but for those
  // of fetches, which only the loosest one has.
  static Result<Graph> build(const FlatStrand& program, Coupling coupling = Coupling::kTightest);

  // The waits that remain when no message of a single_hop channel is sent: where lengths vary, any
  // of them may be missing in a tile.
  [[nodiscard]] Graph without_single_hop() const;

  [[nodiscard]] const FlatStrand& program() const { return *program_; }
  [[nodiscard]] int period() const { return period_; }
  [[nodiscard]] int size() const { return static_cast<int>(step_of_.size()); }
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }

  // Where `step` runs for tile 0 <= tile < period().
  [[nodiscard]] int node(int step, int tile) const;
  // The node at which it has finished: another one only when it sends by direct_get.
  [[nodiscard]] int finish(int node) const { return finish_[static_cast<std::size_t>(node)]; }

  // Where `recipient` fetches a message that is exposed by choice, in the loosest graph: a read
  // that comes before all that the first node comes before, and after all that the second comes
  // after.
  struct Fetch {
    int before = 0;
    int after = 0;
  };
  [[nodiscard]] Fetch fetch(int message, int recipient, int tile) const {
    return fetches_.at({message, recipient, tile});
  }

  // The step of a node, -1 for "instance free".
  [[nodiscard]] int step_of(int node) const { return step_of_[static_cast<std::size_t>(node)]; }

 private:
  Graph(const FlatStrand& program, int period, Coupling coupling)
      : program_(&program), period_(period), coupling_(coupling) {}

  void add_steps();
  void add_lane_order();
  void add_after();
  void add_scratch();
  void add_scratch_uses(int scratch, std::span<const int> users);
  Status add_channel(int channel);
  void add_ready();
  void add_fetches();
  void add_fetch(int message, int recipient, int tile);
  [[nodiscard]] std::vector<int> run_order(int channel, int lane, int reader) const;
  [[nodiscard]] int step_at(int message, int reader) const;

  const FlatStrand* program_;
  int period_;
  Coupling coupling_;
  std::vector<int> first_node_;  // of each lane
  std::vector<int> step_of_;
  std::vector<int> finish_;
  std::vector<Edge> edges_;
  std::map<std::tuple<int, int, int>, Fetch> fetches_;  // by message, recipient, tile
};

// The edges of delay zero of a graph, put in order: every node stands behind all that it waits for.
// Positions, not nodes, are what reachability works on.
class Order {
 public:
  // `tiles` periods of the graph, unrolled: node v of period p is v + p * graph.size().
  explicit Order(const Graph& graph, int periods = 1);

  // False when some nodes wait for each other in a circle.
  [[nodiscard]] bool complete() const { return node_at_.size() == position_of_.size(); }
  [[nodiscard]] std::span<const int> nodes() const { return node_at_; }
  [[nodiscard]] int position(int node) const {
    return position_of_[static_cast<std::size_t>(node)];  // -1: in or behind a circle
  }

  // Pairs of positions, the lower one first.
  struct Pair {
    int from = 0;
    int to = 0;
  };
  // The index of a pair that no path joins; -1 when there is none.
  [[nodiscard]] int first_unordered(std::span<const Pair> pairs) const;

 private:
  void sort_nodes();
  void number_by_position();
  // Passes to the successors of each position from `begin` to before `end` what has reached it.
  void pass_on(std::vector<std::uint64_t>& reached, int begin, int end) const;

  std::vector<int> first_successor_;  // by node while sorting, by position afterwards
  std::vector<int> successors_;
  std::vector<int> node_at_;
  std::vector<int> position_of_;
};

// One circle of a graph whose order is not complete, in words.
std::string explain_circle(const Graph& graph, const Order& order);

}  // namespace sennit
