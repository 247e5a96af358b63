#include "verify/stream_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace sennit {
namespace {

using Kind = StreamStep::Kind;

// More would not help anybody to understand it.
constexpr int kWordsInCircle = 12;

std::string_view reason_in_words(Reason reason) {
  switch (reason) {
    case Reason::kStream:
      return "comes behind it in its stream";
    case Reason::kEvent:
      return "waits for an event behind it";
    case Reason::kSignal:
      return "waits for its signal";
    case Reason::kQueue:
      return "stands behind it in one hardware queue";
    case Reason::kHost:
      return "is made behind it by the hosts";
    case Reason::kIssue:
      return "is issued by it";
    case Reason::kHostWait:
      return "waits for it on the host";
  }
  return {};
}

}  // namespace

std::string number_of_flag(std::int64_t flag) { return fmt::format("flag {}", flag); }

StreamGraph::StreamGraph(std::span<const IssuedSteps> ranks, FlagNames names)
    : ranks_(ranks), names_(std::move(names)) {
  first_.push_back(0);
  for (const IssuedSteps& rank : ranks_) {
    first_.push_back(first_.back() + static_cast<int>(rank.steps.size()));
  }
  causes_.resize(static_cast<std::size_t>(first_.back()));
}

int StreamGraph::rank_of(int node) const {
  return static_cast<int>(std::ranges::upper_bound(first_, node) - first_.begin()) - 1;
}

Result<StreamGraph> StreamGraph::build(std::span<const IssuedSteps> ranks, const FlagNames& names) {
  StreamGraph graph(ranks, names);
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    graph.add_stream_order(rank);
    SENNIT_RETURN_IF_ERROR(graph.add_events(rank));
  }
  SENNIT_RETURN_IF_ERROR(graph.collect_flags());
  SENNIT_RETURN_IF_ERROR(graph.add_signals());
  return graph;
}

void StreamGraph::add_stream_order(int rank) {
  std::map<int, int> last;  // node, by stream
  for (std::size_t place = 0; place < issued(rank).steps.size(); ++place) {
    const int at = node(rank, place);
    const auto [known, is_first] = last.emplace(issued(rank).steps[place].stream, at);
    if (!is_first) {
      add(known->second, at, Reason::kStream);
      known->second = at;
    }
  }
}

Status StreamGraph::add_events(int rank) {
  std::map<int, int> recorded;  // node, by event
  for (std::size_t place = 0; place < issued(rank).steps.size(); ++place) {
    const StreamStep& step = issued(rank).steps[place];
    const int at = node(rank, place);
    if (step.kind == Kind::kRecord) {
      recorded[step.event] = at;
    } else if (step.kind == Kind::kAwaitEvent) {
      const auto known = recorded.find(step.event);
      if (known == recorded.end()) {
        return fail(Code::kNotProved, "{} waits for an event that is not recorded", describe(at));
      }
      add(known->second, at, Reason::kEvent);
    }
  }
  return {};
}

// The k-th signal begins the k-th generation, and the k-th reset of the rank that waits ends it.
Status StreamGraph::collect_flags() {
  struct Ends {
    int signaller = -1;
    int waiter = -1;
    std::vector<int> signals{};
    std::vector<Generation> generations{};  // as the waiter sees them; the last may be open
  };
  std::map<std::int64_t, Ends> flags;
  for (int at = 0; at < steps(); ++at) {
    const StreamStep& s = step(at);
    if (s.kind != Kind::kSignal && s.kind != Kind::kReset && s.kind != Kind::kAwait) {
      continue;
    }
    Ends& ends = flags[s.flag];
    int& rank = s.kind == Kind::kSignal ? ends.signaller : ends.waiter;
    if (rank >= 0 && rank != rank_of(at)) {
      return fail(Code::kNotProved, "{}: rank {} does so, too", describe(at), rank);
    }
    rank = rank_of(at);
    if (s.kind == Kind::kSignal) {
      ends.signals.push_back(at);
      continue;
    }
    if (ends.generations.empty() || ends.generations.back().reset >= 0) {
      ends.generations.emplace_back();
    }
    if (s.kind == Kind::kAwait) {
      ends.generations.back().waits.push_back(at);
    } else {
      ends.generations.back().reset = at;
    }
  }
  for (auto& [flag, ends] : flags) {
    for (std::size_t g = 0; g < ends.generations.size() && g < ends.signals.size(); ++g) {
      ends.generations[g].signal = ends.signals[g];
    }
    if (ends.signals.size() > ends.generations.size()) {
      return fail(Code::kNotProved,
                  "{}, which nobody waits for",
                  describe(ends.signals[ends.generations.size()]));
    }
    flags_.push_back({flag, std::move(ends.generations)});
  }
  return {};
}

Status StreamGraph::add_signals() {
  for (const FlagUse& use : flags_) {
    for (const Generation& generation : use.generations) {
      if (generation.signal < 0) {
        const int waiting = generation.waits.empty() ? generation.reset : generation.waits.front();
        return fail(Code::kNotProved, "{}, which nobody signals", describe(waiting));
      }
      for (const int wait : generation.waits) {
        add(generation.signal, wait, Reason::kSignal);
      }
    }
  }
  return {};
}

int StreamGraph::add_call(int step) {
  causes_.emplace_back();
  step_of_call_.push_back(step);
  return size() - 1;
}

std::optional<std::vector<int>> StreamGraph::sorted() const {
  std::vector<int> waits(causes_.size());
  std::vector<std::vector<int>> followers(causes_.size());
  std::vector<int> order;
  order.reserve(causes_.size());
  for (int at = 0; at < size(); ++at) {
    waits[static_cast<std::size_t>(at)] = static_cast<int>(causes(at).size());
    for (const Cause& cause : causes(at)) {
      followers[static_cast<std::size_t>(cause.from)].push_back(at);
    }
    if (causes(at).empty()) {
      order.push_back(at);
    }
  }
  // order grows meanwhile: NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const int follower : followers[static_cast<std::size_t>(order[next])]) {
      if (--waits[static_cast<std::size_t>(follower)] == 0) {
        order.push_back(follower);
      }
    }
  }
  return order.size() == causes_.size() ? std::optional(std::move(order)) : std::nullopt;
}

std::string StreamGraph::describe(int node) const {
  if (node >= steps()) {
    return fmt::format("the call for ({})",
                       describe(step_of_call_[static_cast<std::size_t>(node - steps())]));
  }
  const StreamStep& s = step(node);
  std::string what;
  switch (s.kind) {
    case Kind::kWork:
      what = "works";
      break;
    case Kind::kLaunch:
      what = "runs a kernel";
      break;
    case Kind::kSignal:
      what = "signals " + names_(s.flag);
      break;
    case Kind::kReset:
      what = "resets " + names_(s.flag);
      break;
    case Kind::kAwait:
      what = "waits for " + names_(s.flag);
      break;
    case Kind::kRecord:
      what = fmt::format("records event {}", s.event);
      break;
    case Kind::kAwaitEvent:
      what = fmt::format("waits for event {}", s.event);
      break;
  }
  return fmt::format("rank {} stream {} step {} {}", rank_of(node), s.stream, place_of(node), what);
}

std::string StreamGraph::circle() const {
  // Nodes that nothing holds up are taken away, until each that is left waits for another of them.
  std::vector<bool> is_left(causes_.size(), true);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int at = 0; at < size(); ++at) {
      const auto is_held = [&](const Cause& cause) {
        return is_left[static_cast<std::size_t>(cause.from)];
      };
      if (is_left[static_cast<std::size_t>(at)] && std::ranges::none_of(causes(at), is_held)) {
        is_left[static_cast<std::size_t>(at)] = false;
        has_changed = true;
      }
    }
  }
  const auto found = std::ranges::find(is_left, true);
  SENNIT_CHECK(found != is_left.end(), "an incomplete order has a circle");
  auto at = static_cast<int>(found - is_left.begin());
  const auto cause_of = [&](int node) {
    return *std::ranges::find_if(
        causes(node), [&](const Cause& c) { return is_left[static_cast<std::size_t>(c.from)]; });
  };
  std::vector<bool> seen(causes_.size());
  while (!seen[static_cast<std::size_t>(at)]) {
    seen[static_cast<std::size_t>(at)] = true;
    at = cause_of(at).from;
  }
  // Steps that only follow in their stream are left out of the words.
  std::string words = describe(at);
  const int begin = at;
  int reported = 0;
  do {
    const Cause cause = cause_of(at);
    at = cause.from;
    const bool is_plain =
        cause.reason == Reason::kStream && at != begin && cause_of(at).reason == Reason::kStream;
    if (!is_plain && ++reported <= kWordsInCircle) {
      words += fmt::format("; {}: {}", reason_in_words(cause.reason), describe(at));
    }
  } while (at != begin);
  return reported > kWordsInCircle ? words + "; and so on" : words;
}

StreamClocks::StreamClocks(const StreamGraph& graph, const std::function<bool(Reason)>& counts) {
  std::map<std::pair<int, int>, int> known;  // index, by rank and stream
  for (int at = 0; at < graph.steps(); ++at) {
    const auto [stream, is_new] = known.emplace(std::pair(graph.rank_of(at), graph.step(at).stream),
                                                static_cast<int>(streams_.size()));
    if (is_new) {
      streams_.push_back({.rank = stream->first.first, .number = stream->first.second});
    }
    std::vector<int>& places = streams_[static_cast<std::size_t>(stream->second)].places;
    stream_of_.push_back(stream->second);
    ordinal_.push_back(static_cast<int>(places.size()));
    places.push_back(static_cast<int>(graph.place_of(at)));
  }
  clocks_.assign(static_cast<std::size_t>(graph.size()) * streams_.size(), 0);
  const std::optional<std::vector<int>> order = graph.sorted();
  SENNIT_CHECK(order.has_value(), "clocks of a graph with a circle");
  for (const int at : *order) {
    const std::span<int> mine =
        std::span(clocks_).subspan(static_cast<std::size_t>(at) * streams_.size(), streams_.size());
    for (const Cause& cause : graph.causes(at)) {
      if (counts(cause.reason)) {
        std::ranges::transform(
            mine, clock(cause.from), mine.begin(), [](int a, int b) { return std::max(a, b); });
      }
    }
    if (at < graph.steps()) {
      int& own = mine[static_cast<std::size_t>(stream_of_[static_cast<std::size_t>(at)])];
      own = std::max(own, ordinal_[static_cast<std::size_t>(at)] + 1);
    }
  }
}

int StreamClocks::last_of(int rank, int node) const {
  int last = -1;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const int ended = clock(node)[s];
    if (streams_[s].rank == rank && ended > 0) {
      last = std::max(last, streams_[s].places[static_cast<std::size_t>(ended - 1)]);
    }
  }
  return last;
}

std::int64_t queue_of(const StreamGraph& graph, const QueueModel& model, int step) {
  const int rank = graph.rank_of(step);
  const int stream = graph.step(step).stream;
  // Streams of their own are never those of another rank.
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (model.queues == Queues::kOwn) {
    return (rank + 1) * kMost + stream;
  }
  const std::int64_t number = model.queues == Queues::kOne ? 0 : stream % model.count;
  const IssuedSteps& issued = graph.issued(rank);
  return -((issued.process * kMost + issued.device) * kMost + number + 1);
}

}  // namespace sennit
