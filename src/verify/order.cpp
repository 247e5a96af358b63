// Topological order, reachability and the words for a circle.
#include "graph.hpp"

#include <algorithm>
#include <numeric>

namespace sennit {
namespace {

// Sources that one sweep follows at once, one bit each.
constexpr int kSweepWidth = 64;

// More would not help anybody to understand it.
constexpr int kWordsInCircle = 8;

std::string wait_in_words(const Graph& graph, const Edge& edge) {
  const FlatStrand& program = graph.program();
  const auto earlier = [&] { return program.describe(graph.step_of(edge.from)); };
  switch (edge.kind) {
    case EdgeKind::kOrder:
      if (graph.step_of(edge.from) == graph.step_of(edge.to)) {
        return "cannot end before it begins";
      }
      return fmt::format("stands in its lane behind {}", earlier());
    case EdgeKind::kAfter:
      return fmt::format("runs after {}", earlier());
    case EdgeKind::kScratch:
      return graph.step_of(edge.from) < 0
                 ? fmt::format(
                       "waits for scratch '{}' of an earlier tile to be free",
                       program.schedule().scratch[static_cast<std::size_t>(edge.subject)].name)
                 : fmt::format("is used by {}", earlier());
    case EdgeKind::kMessage:
      return fmt::format("waits for a message of channel {} from {}", edge.subject, earlier());
    case EdgeKind::kCredit:
      return fmt::format(
          "waits for a free slot of channel {}, which {} would give", edge.subject, earlier());
    case EdgeKind::kRelease:
      return fmt::format("ends only when its blocks on channel {} (direct_get) were read by {}",
                         edge.subject,
                         earlier());
    case EdgeKind::kReady:
      return fmt::format(
          "waits for the reader of channel {}, which chooses a path only after {}",
          edge.subject,
          graph.step_of(edge.from) < 0 ? "its scratch of an earlier tile is free" : earlier());
  }
  return {};
}

}  // namespace

Order::Order(const Graph& graph, int periods) {
  const int size = graph.size() * periods;
  first_successor_.assign(static_cast<std::size_t>(size) + 1, 0);
  position_of_.assign(static_cast<std::size_t>(size), -1);
  const auto for_each_edge = [&](auto&& visit) {
    for (const Edge& edge : graph.edges()) {
      for (int p = 0; p + edge.delay < periods; ++p) {
        visit(edge.from + p * graph.size(), edge.to + (p + edge.delay) * graph.size());
      }
    }
  };
  for_each_edge([&](int from, int) { ++first_successor_[static_cast<std::size_t>(from) + 1]; });
  std::partial_sum(first_successor_.begin(), first_successor_.end(), first_successor_.begin());
  successors_.resize(static_cast<std::size_t>(first_successor_.back()));
  std::vector<int> next(first_successor_.begin(), first_successor_.end() - 1);
  for_each_edge([&](int from, int to) {
    successors_[static_cast<std::size_t>(next[static_cast<std::size_t>(from)]++)] = to;
  });
  sort_nodes();
  if (complete()) {
    number_by_position();
  }
}

void Order::sort_nodes() {
  const std::size_t size = position_of_.size();
  std::vector<int> waits(size, 0);
  for (const int to : successors_) {
    ++waits[static_cast<std::size_t>(to)];
  }
  node_at_.reserve(size);
  const auto place = [this](std::size_t node) {
    position_of_[node] = static_cast<int>(node_at_.size());
    node_at_.push_back(static_cast<int>(node));
  };
  for (std::size_t v = 0; v < size; ++v) {
    if (waits[v] == 0) {
      place(v);
    }
  }
  // node_at_ grows meanwhile: NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t next = 0; next < node_at_.size(); ++next) {
    const auto v = static_cast<std::size_t>(node_at_[next]);
    for (int e = first_successor_[v]; e < first_successor_[v + 1]; ++e) {
      const auto to = static_cast<std::size_t>(successors_[static_cast<std::size_t>(e)]);
      if (--waits[to] == 0) {
        place(to);
      }
    }
  }
}

void Order::number_by_position() {
  std::vector<int> first{0};
  std::vector<int> list;
  first.reserve(first_successor_.size());
  list.reserve(successors_.size());
  for (const int node : node_at_) {
    const auto v = static_cast<std::size_t>(node);
    for (int e = first_successor_[v]; e < first_successor_[v + 1]; ++e) {
      list.push_back(position(successors_[static_cast<std::size_t>(e)]));
    }
    first.push_back(static_cast<int>(list.size()));
  }
  first_successor_ = std::move(first);
  successors_ = std::move(list);
}

void Order::pass_on(std::vector<std::uint64_t>& reached, int begin, int end) const {
  for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p) {
    if (reached[p] == 0) {
      continue;
    }
    for (int e = first_successor_[p]; e < first_successor_[p + 1]; ++e) {
      reached[static_cast<std::size_t>(successors_[static_cast<std::size_t>(e)])] |= reached[p];
    }
  }
}

int Order::first_unordered(std::span<const Pair> pairs) const {
  std::vector<int> by_source(pairs.size());
  std::iota(by_source.begin(), by_source.end(), 0);
  const auto pair = [&](std::size_t i) { return pairs[static_cast<std::size_t>(by_source[i])]; };
  std::ranges::sort(by_source, {}, [&](int i) { return pairs[static_cast<std::size_t>(i)].from; });

  std::vector<std::uint64_t> reached(node_at_.size(), 0);
  std::size_t begin = 0;
  while (begin < by_source.size()) {
    // The next 64 sources, and the furthest position that any of their pairs asks for.
    std::size_t end = begin;
    int sources = 0;
    int furthest = 0;
    for (; end < by_source.size(); ++end) {
      if (end == begin || pair(end).from != pair(end - 1).from) {
        if (sources == kSweepWidth) {
          break;
        }
        reached[static_cast<std::size_t>(pair(end).from)] |= std::uint64_t{1} << sources++;
      }
      furthest = std::max(furthest, pair(end).to);
    }
    const int start = pair(begin).from;
    pass_on(reached, start, furthest);
    int bit = -1;
    for (std::size_t i = begin; i < end; ++i) {
      bit += i == begin || pair(i).from != pair(i - 1).from ? 1 : 0;
      if ((reached[static_cast<std::size_t>(pair(i).to)] >> bit & 1) == 0) {
        return by_source[i];
      }
    }
    // Successors may lie beyond `furthest`.
    std::fill(reached.begin() + start, reached.end(), 0);
    begin = end;
  }
  return -1;
}

std::string explain_circle(const Graph& graph, const Order& order) {
  // Every node that was not placed waits for another one that was not placed; following these waits
  // must come back.
  std::vector<const Edge*> blocker(static_cast<std::size_t>(graph.size()), nullptr);
  int node = -1;
  for (const Edge& edge : graph.edges()) {
    if (edge.delay == 0 && order.position(edge.from) < 0 && order.position(edge.to) < 0) {
      blocker[static_cast<std::size_t>(edge.to)] = &edge;
      node = edge.to;
    }
  }
  SENNIT_CHECK(node >= 0, "an incomplete order has a circle");
  std::vector<bool> seen(static_cast<std::size_t>(graph.size()), false);
  const auto step_back = [&](int v) { return blocker[static_cast<std::size_t>(v)]->from; };
  while (!seen[static_cast<std::size_t>(node)] || graph.step_of(node) < 0) {
    seen[static_cast<std::size_t>(node)] = true;
    node = step_back(node);
  }
  std::string words = graph.program().describe(graph.step_of(node));
  int reported = 0;
  int v = node;
  do {
    const Edge& edge = *blocker[static_cast<std::size_t>(v)];
    v = edge.from;
    if (reported < kWordsInCircle) {
      words += (reported == 0 ? " " : ", which ") + wait_in_words(graph, edge);
    }
    ++reported;
  } while (v != node);
  if (reported > kWordsInCircle) {
    words += fmt::format(", and so on: {} waits in a circle", reported);
  }
  return words;
}

}  // namespace sennit
