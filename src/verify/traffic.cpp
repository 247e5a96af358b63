// How much a schedule sends, and in how many rounds: read off the schedule itself, to be compared
// with the closed forms that its algorithm claims.
#include "graph.hpp"

#include "verify/verify.hpp"

#include <algorithm>
#include <limits>

namespace sennit {
namespace {

// A message that only passes through is as long as the one it came from, so its length is known
// after that one's. -1: the messages wait for each other in a circle.
class MessageLengths {
 public:
  explicit MessageLengths(const FlatStrand& program)
      : program_(program), lengths_(program.messages().size(), kUnknown) {}

  std::int64_t of(int message) {
    std::vector<int> chain;
    std::int64_t length = kUnknown;
    while (length == kUnknown) {
      if (lengths_[static_cast<std::size_t>(message)] != kUnknown) {
        length = lengths_[static_cast<std::size_t>(message)];
        break;
      }
      chain.push_back(message);
      const int sender = program_.messages()[static_cast<std::size_t>(message)].sender;
      const Step& step = *program_.steps()[static_cast<std::size_t>(sender)].step;
      if (!step.to.empty() || !step.from.empty() || step.kind == StepKind::kToken) {
        length = static_cast<std::int64_t>(step.to.empty() ? step.from.size() : step.to.size());
      } else if (chain.size() > lengths_.size()) {
        length = -1;
      } else {
        message = program_.taken_by(sender).front();
      }
    }
    for (const int known : chain) {
      lengths_[static_cast<std::size_t>(known)] = length;
    }
    return length;
  }

 private:
  static constexpr std::int64_t kUnknown = -2;

  const FlatStrand& program_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace

std::vector<std::int64_t> link_blocks(const Schedule& schedule) {
  const Strand strand = bind(std::make_shared<const Schedule>(schedule),
                             PathKind::kShm,
                             Protocol::kSlots,
                             /*slots=*/1,
                             Engine::kCpu);
  const FlatStrand program(strand);
  MessageLengths lengths(program);
  const auto ranks = static_cast<std::size_t>(schedule.problem.ranks);
  std::vector<std::int64_t> blocks(ranks * ranks, 0);
  for (std::size_t m = 0; m < program.messages().size(); ++m) {
    const FlatStrand::Message& message = program.messages()[m];
    const auto rank_of = [&](int step) {
      return static_cast<std::size_t>(program.steps()[static_cast<std::size_t>(step)].rank);
    };
    const std::int64_t length = std::max<std::int64_t>(0, lengths.of(static_cast<int>(m)));
    for (const int recipient : program.recipients(message)) {
      blocks[rank_of(message.sender) * ranks + rank_of(recipient)] += length;
    }
  }
  return blocks;
}

std::int64_t longest_chain(const Schedule& schedule) {
  // With slots without end, credits wait for earlier tiles only and so drop out.
  const Strand strand = bind(std::make_shared<const Schedule>(schedule),
                             PathKind::kShm,
                             Protocol::kSlots,
                             std::numeric_limits<int>::max() / 2,
                             Engine::kCpu);
  const FlatStrand program(strand);
  const Result<Graph> graph = Graph::build(program);
  SENNIT_CHECK(graph.ok(), "without bursts there always is a graph");
  const Order order(*graph);
  if (!order.complete()) {
    return -1;
  }
  std::vector<const Edge*> edges;
  for (const Edge& edge : graph->edges()) {
    if (edge.delay == 0) {
      edges.push_back(&edge);
    }
  }
  std::ranges::sort(edges, {}, [&](const Edge* edge) { return order.position(edge->from); });
  std::vector<std::int64_t> longest(static_cast<std::size_t>(graph->size()), 0);
  for (const Edge* edge : edges) {
    const std::int64_t length =
        longest[static_cast<std::size_t>(edge->from)] + (edge->kind == EdgeKind::kMessage ? 1 : 0);
    std::int64_t& there = longest[static_cast<std::size_t>(edge->to)];
    there = std::max(there, length);
  }
  return longest.empty() ? 0 : *std::ranges::max_element(longest);
}

}  // namespace sennit
