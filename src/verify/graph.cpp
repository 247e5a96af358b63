#include "graph.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sennit {
namespace {

// Beyond it the unrolled graph would be too large; real bursts are small powers of two.
constexpr std::int64_t kMaxPeriod = 256;

Result<int> common_period(const FlatStrand& program) {
  std::int64_t period = 1;
  for (const FlatStrand::LaneInfo& lane : program.lanes()) {
    period = std::lcm(period, static_cast<std::int64_t>(lane.burst));
    if (period > kMaxPeriod) {
      return fail(Code::kNotProved,
                  "bursts: the least common multiple of the lanes' bursts is above {}",
                  kMaxPeriod);
    }
  }
  return static_cast<int>(period);
}

// Tile `tile` of any sign, as a period and a tile within it.
struct Split {
  int period = 0;
  int tile = 0;
};

Split split(int tile, int period) {
  const int below = tile % period < 0 ? 1 : 0;
  const int quotient = tile / period - below;
  return {.period = quotient, .tile = tile - quotient * period};
}

bool touches(const Step& step, int scratch) {
  const auto in_scratch = [scratch](const Block& block) {
    return block.space == Space::kScratch && block.scratch == scratch;
  };
  return std::ranges::any_of(step.from, in_scratch) || std::ranges::any_of(step.to, in_scratch);
}

}  // namespace

Result<Graph> Graph::build(const FlatStrand& program, Coupling coupling) {
  SENNIT_ASSIGN_OR_RETURN(const int period, common_period(program));
  Graph graph(program, period, coupling);
  graph.add_steps();
  graph.add_lane_order();
  graph.add_after();
  graph.add_scratch();
  for (std::size_t c = 0; c < program.schedule().channels.size(); ++c) {
    SENNIT_RETURN_IF_ERROR(graph.add_channel(static_cast<int>(c)));
  }
  if (coupling == Coupling::kLoosest) {
    graph.add_fetches();
  } else {
    graph.add_ready();
  }
  return graph;
}

Graph Graph::without_single_hop() const {
  Graph rest = *this;
  std::erase_if(rest.edges_, [this](const Edge& edge) {
    const bool of_channel = edge.kind == EdgeKind::kMessage || edge.kind == EdgeKind::kCredit ||
                            edge.kind == EdgeKind::kRelease;
    return of_channel &&
           program_->schedule().channels[static_cast<std::size_t>(edge.subject)].single_hop;
  });
  return rest;
}

int Graph::node(int step, int tile) const {
  const auto lane =
      static_cast<std::size_t>(program_->steps()[static_cast<std::size_t>(step)].lane);
  const FlatStrand::LaneInfo& info = program_->lanes()[lane];
  return first_node_[lane] + tile / info.burst * info.steps + (step - info.first_step);
}

void Graph::add_steps() {
  for (const FlatStrand::LaneInfo& lane : program_->lanes()) {
    first_node_.push_back(static_cast<int>(step_of_.size()));
    for (int unit = 0; unit < period_ / lane.burst; ++unit) {
      for (int s = 0; s < lane.steps; ++s) {
        step_of_.push_back(lane.first_step + s);
      }
    }
  }
  finish_.resize(step_of_.size());
  std::iota(finish_.begin(), finish_.end(), 0);
  const std::size_t runs = step_of_.size();
  for (std::size_t v = 0; v < runs; ++v) {
    const auto sent = program_->sent_by(step_of_[v]);
    const bool exposes = std::ranges::any_of(sent, [this](int message) {
      return may_hold(program_->binding(program_->messages()[static_cast<std::size_t>(message)]));
    });
    if (exposes) {
      const int end = static_cast<int>(step_of_.size());
      step_of_.push_back(step_of_[v]);
      finish_.push_back(end);
      finish_[v] = end;
      edges_.push_back({.from = static_cast<int>(v), .to = end, .kind = EdgeKind::kOrder});
    }
  }
}

void Graph::add_lane_order() {
  for (std::size_t l = 0; l < program_->lanes().size(); ++l) {
    const FlatStrand::LaneInfo& lane = program_->lanes()[l];
    const int units = period_ / lane.burst * lane.steps;
    for (int i = 0; i < units; ++i) {
      const bool last = i + 1 == units;
      edges_.push_back({.from = finish(first_node_[l] + i),
                        .to = first_node_[l] + (last ? 0 : i + 1),
                        .delay = last ? 1 : 0,
                        .kind = EdgeKind::kOrder});
    }
  }
}

void Graph::add_after() {
  for (std::size_t s = 0; s < program_->steps().size(); ++s) {
    const FlatStrand::StepInfo& info = program_->steps()[s];
    for (const StepRef ref : info.step->after) {
      const int earlier = program_->step_index(info.rank, ref);
      for (int tile = 0; tile < period_; ++tile) {
        edges_.push_back({.from = finish(node(earlier, tile)),
                          .to = node(static_cast<int>(s), tile),
                          .kind = EdgeKind::kAfter});
      }
    }
  }
}

void Graph::add_scratch() {
  const int count = static_cast<int>(program_->schedule().scratch.size());
  for (int scratch = 0; scratch < count; ++scratch) {
    std::vector<std::vector<int>> users(program_->schedule().ranks.size());
    for (std::size_t s = 0; s < program_->steps().size(); ++s) {
      if (touches(*program_->steps()[s].step, scratch)) {
        users[static_cast<std::size_t>(program_->steps()[s].rank)].push_back(static_cast<int>(s));
      }
    }
    for (const std::vector<int>& of_rank : users) {
      add_scratch_uses(scratch, of_rank);
    }
  }
}

void Graph::add_scratch_uses(int scratch, std::span<const int> users) {
  if (users.empty()) {
    return;
  }
  const int depth = program_->schedule().scratch[static_cast<std::size_t>(scratch)].depth;
  const int first_free = size();
  for (int tile = 0; tile < period_; ++tile) {
    step_of_.push_back(-1);
    finish_.push_back(first_free + tile);
  }
  for (const int step : users) {
    for (int tile = 0; tile < period_; ++tile) {
      const Split reused = split(tile - depth, period_);
      edges_.push_back({.from = finish(node(step, tile)),
                        .to = first_free + tile,
                        .kind = EdgeKind::kScratch,
                        .subject = scratch});
      edges_.push_back({.from = first_free + reused.tile,
                        .to = node(step, tile),
                        .delay = -reused.period,
                        .kind = EdgeKind::kScratch,
                        .subject = scratch});
    }
  }
}

// The step that sends `message` (reader -1), or that takes it at `reader`.
int Graph::step_at(int message, int reader) const {
  const FlatStrand::Message& info = program_->messages()[static_cast<std::size_t>(message)];
  return reader < 0 ? info.sender : program_->recipients(info)[static_cast<std::size_t>(reader)];
}

// The messages of one period in the order in which `lane` comes to them, as
// tile * (messages a tile) + message.
std::vector<int> Graph::run_order(int channel, int lane, int reader) const {
  const int burst = program_->lanes()[static_cast<std::size_t>(lane)].burst;
  const int first = program_->first_message(channel);
  const int count = program_->message_count(channel);
  std::vector<int> order;
  order.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(period_));
  for (int tile = 0; tile < period_; tile += burst) {
    // One step may send or take several messages; it does so tile by tile of its burst.
    for (int m = 0, next = 0; m < count; m = next) {
      const int step = step_at(first + m, reader);
      for (next = m + 1; next < count && step_at(first + next, reader) == step;) {
        ++next;
      }
      for (int t = tile; t < tile + burst; ++t) {
        for (int i = m; i < next; ++i) {
          order.push_back(t * count + i);
        }
      }
    }
  }
  return order;
}

Status Graph::add_channel(int channel) {
  const auto c = static_cast<std::size_t>(channel);
  const Channel& ends = program_->schedule().channels[c];
  const ChannelBinding& binding = program_->strand().channels[c];
  const int first = program_->first_message(channel);
  const int count = program_->message_count(channel);
  const int total = count * period_;
  if (total == 0) {
    return {};
  }
  const bool tightest = coupling_ == Coupling::kTightest;
  const int slots = tightest ? binding.slots : capacity(binding);
  const bool releases = tightest ? may_hold(binding) : holds(binding);
  const int writer = program_->lane_index(ends.writer.rank, ends.writer.lane);
  const std::vector<int> sent = run_order(channel, writer, -1);
  const auto node_of = [&](int entry, int reader) {
    return node(step_at(first + entry % count, reader), entry / count);
  };
  for (int r = 0; r < static_cast<int>(ends.readers.size()); ++r) {
    const LaneId reader = ends.readers[static_cast<std::size_t>(r)];
    const int lane = program_->lane_index(reader.rank, reader.lane);
    if (run_order(channel, lane, r) != sent) {
      return fail(Code::kNotProved,
                  "bursts: channel {} carries {} messages a tile, which rank {} sends in bursts of "
                  "{} tiles and rank {} takes in bursts of {}, so they disagree on the order",
                  channel,
                  count,
                  ends.writer.rank,
                  program_->lanes()[static_cast<std::size_t>(writer)].burst,
                  reader.rank,
                  program_->lanes()[static_cast<std::size_t>(lane)].burst);
    }
    for (int g = 0; g < total; ++g) {
      const int sender = node_of(sent[static_cast<std::size_t>(g)], -1);
      const int taker = node_of(sent[static_cast<std::size_t>(g)], r);
      edges_.push_back(
          {.from = sender, .to = taker, .kind = EdgeKind::kMessage, .subject = channel});
      const Split freed = split(g - slots, total);
      edges_.push_back({.from = node_of(sent[static_cast<std::size_t>(freed.tile)], r),
                        .to = sender,
                        .delay = -freed.period,
                        .kind = EdgeKind::kCredit,
                        .subject = channel});
      if (releases) {
        edges_.push_back(
            {.from = taker, .to = finish(sender), .kind = EdgeKind::kRelease, .subject = channel});
      }
    }
  }
  return {};
}

void Graph::add_ready() {
  // Senders that wait for a node, by the node of their reader: both are steps of the same tile.
  std::multimap<int, std::pair<int, int>> senders;  // reader -> (sender, channel)
  for (const FlatStrand::Message& message : program_->messages()) {
    if (program_->binding(message).chooser != Chooser::kReader) {
      continue;
    }
    for (const int recipient : program_->recipients(message)) {
      for (int tile = 0; tile < period_; ++tile) {
        senders.emplace(node(recipient, tile),
                        std::pair(node(message.sender, tile), message.channel));
      }
    }
  }
  for (std::size_t e = 0, edges = edges_.size(); e < edges && !senders.empty(); ++e) {
    const Edge edge = edges_[e];
    const auto [first, last] = senders.equal_range(edge.to);
    for (auto waiting = first; waiting != last; ++waiting) {
      const auto [sender, channel] = waiting->second;
      if (edge.kind != EdgeKind::kMessage || edge.subject != channel) {
        edges_.push_back({.from = edge.from,
                          .to = sender,
                          .delay = edge.delay,
                          .kind = EdgeKind::kReady,
                          .subject = channel});
      }
    }
  }
}

void Graph::add_fetches() {
  for (std::size_t m = 0; m < program_->messages().size(); ++m) {
    const FlatStrand::Message& message = program_->messages()[m];
    if (!program_->may_be_exposed(message)) {
      continue;
    }
    for (const int recipient : program_->recipients(message)) {
      for (int tile = 0; tile < period_; ++tile) {
        add_fetch(static_cast<int>(m), recipient, tile);
      }
    }
  }
}

void Graph::add_fetch(int message, int recipient, int tile) {
  const int taker = node(recipient, tile);
  const int sender = program_->messages()[static_cast<std::size_t>(message)].sender;
  const Fetch fetch{.before = size(), .after = size() + 1};
  for (const int added : {fetch.before, fetch.after}) {
    step_of_.push_back(recipient);
    finish_.push_back(added);
  }
  edges_.push_back({.from = fetch.before, .to = taker, .kind = EdgeKind::kOrder});
  edges_.push_back(
      {.from = fetch.before, .to = finish(node(sender, tile)), .kind = EdgeKind::kRelease});
  edges_.push_back({.from = taker, .to = fetch.after, .kind = EdgeKind::kOrder});
  fetches_[{message, recipient, tile}] = fetch;
}

}  // namespace sennit
