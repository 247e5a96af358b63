// For tests: what a trace of a plan may look like. It must respect the graph that the proof is
// about, and where something is chosen at run time, exactly the consequences of what was chosen.
#pragma once

#include "threaded_run.hpp"

#include "verify/graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sennit {

// The graph between steps alone: nodes that stand for the end of a send, or for a free instance of
// scratch, are replaced by the edges through them.
inline std::vector<Edge> edges_between_steps(const Graph& graph) {
  std::vector<bool> is_step(static_cast<std::size_t>(graph.size()), false);
  for (std::size_t s = 0; s < graph.program().steps().size(); ++s) {
    for (int tile = 0; tile < graph.period(); ++tile) {
      is_step[static_cast<std::size_t>(graph.node(static_cast<int>(s), tile))] = true;
    }
  }
  std::vector<Edge> edges = graph.edges();
  for (int node = 0; node < graph.size(); ++node) {
    if (is_step[static_cast<std::size_t>(node)]) {
      continue;
    }
    std::vector<Edge> kept;
    std::vector<Edge> in;
    std::vector<Edge> out;
    for (const Edge& edge : edges) {
      (edge.to == node ? in : edge.from == node ? out : kept).push_back(edge);
    }
    for (const Edge& first : in) {
      for (const Edge& second : out) {
        kept.push_back({.from = first.from,
                        .to = second.to,
                        .delay = first.delay + second.delay,
                        .kind = first.kind == EdgeKind::kOrder ? second.kind : first.kind});
      }
    }
    edges = std::move(kept);
  }
  return edges;
}

// When each node of one copy of a strand ran, as the trace has it.
class Replay {
 public:
  struct Span {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  Replay(const Graph& graph, const std::vector<TraceEvent>& events, int strand, int copy)
      : graph_(graph) {
    for (const TraceEvent& event : events) {
      if (event.strand == strand && event.copy == copy) {
        const int step = graph.program().step_index(event.rank, {event.lane, event.step});
        const int tile = static_cast<int>(event.tile) % graph.period();
        spans_[{graph.node(step, tile), static_cast<int>(event.tile) / graph.period()}] = {
            event.begin, event.end};
        tiles_ = std::max(tiles_, static_cast<int>(event.tile) + 1);
        ++events_;
      }
    }
  }

  [[nodiscard]] int tiles() const { return tiles_; }
  [[nodiscard]] bool every_step_ran_once_a_tile() const {
    return events_ == graph_.program().steps().size() * static_cast<std::size_t>(tiles_);
  }
  Span* find(int node, int period) {
    const auto span = spans_.find({node, period});
    return span == spans_.end() ? nullptr : &span->second;
  }

  // An edge whose later end began before its earlier one had finished; null when there is none.
  const Edge* find_violation(const std::vector<Edge>& edges) {
    for (const Edge& edge : edges) {
      for (int period = 0; period * graph_.period() < tiles_; ++period) {
        // A burst that the end of the data cuts short needs fewer free slots than a whole one.
        const bool is_cut_short = (period + edge.delay + 1) * graph_.period() > tiles_;
        if (edge.kind == EdgeKind::kCredit && is_cut_short) {
          continue;
        }
        const Span* before = find(edge.from, period);
        const Span* after = find(edge.to, period + edge.delay);
        if (before != nullptr && after != nullptr && before->end >= after->begin) {
          return &edge;
        }
      }
    }
    return nullptr;
  }

 private:
  const Graph& graph_;
  std::map<std::pair<int, int>, Span> spans_;
  std::size_t events_ = 0;
  int tiles_ = 0;
};

inline std::string describe(const FlatStrand& flat, const Graph& graph, const Edge& edge) {
  return fmt::format("{} before {}, kind {}, delay {}",
                     flat.describe(graph.step_of(edge.from)),
                     flat.describe(graph.step_of(edge.to)),
                     static_cast<int>(edge.kind),
                     edge.delay);
}

// The messages of one bundle in one call, as both ends recorded them, against what follows from the
// paths that were picked: order, credit of each path, and how long a sending step lasts.
class BundleReplay {
 public:
  using Event = TraceMessage::Event;
  struct Ends {
    int strand = 0;
    int copy = 0;
    int channel = 0;
    int writer = 0;
    int reader = 0;
  };

  BundleReplay(const Ends& ends, const Graph& graph, Replay& replay, const Execution& run)
      : ends_(ends),
        flat_(graph.program()),
        graph_(graph),
        replay_(replay),
        run_(run),
        binding_(flat_.strand().channels[static_cast<std::size_t>(ends.channel)]) {
    for (const TraceMessage& message : run.messages) {
      const bool sends = message.event == Event::kSent || message.event == Event::kSentAgain;
      const int rank = sends ? ends.writer : ends.reader;
      const int peer = sends ? ends.reader : ends.writer;
      if (message.strand == ends.strand && message.copy == ends.copy &&
          message.channel == ends.channel && message.rank == rank && message.peer == peer) {
        by_event_[message.event].push_back(&message);
      }
    }
    for (const Event event : {Event::kTaken, Event::kLate}) {
      for (const TraceMessage* message : by_event_[event]) {
        freed_[{message->path, message->position}] = message->tick;
      }
    }
  }

  std::string find_defect() {
    const auto& sent = by_event_[Event::kSent];
    const auto& taken = by_event_[Event::kTaken];
    const auto total = static_cast<std::size_t>(replay_.tiles()) *
                       static_cast<std::size_t>(flat_.message_count(ends_.channel));
    if (sent.size() != total || taken.size() != total) {
      return fmt::format(
          "{} messages were sent and {} taken, not {}", sent.size(), taken.size(), total);
    }
    for (std::size_t k = 0; k < total; ++k) {
      if (sent[k]->message != static_cast<std::int64_t>(k) ||
          taken[k]->message != sent[k]->message) {
        return fmt::format("message {} is not sent or not taken in its turn", k);
      }
      if (const std::string_view defect = find_defect_of(*sent[k], *taken[k]); !defect.empty()) {
        return fmt::format("message {}: {}", k, defect);
      }
    }
    const std::size_t again = by_event_[Event::kSentAgain].size();
    if (by_event_[Event::kLate].size() != again) {
      return "late copies and second sends are not equally many";
    }
    return find_gap();
  }

 private:
  static bool same_place(const TraceMessage& a, const TraceMessage& b) {
    return a.path == b.path && a.position == b.position;
  }
  const TraceMessage* of_message(Event event, std::int64_t message) {
    const auto& list = by_event_[event];
    const auto found = std::ranges::find(list, message, &TraceMessage::message);
    return found == list.end() ? nullptr : *found;
  }

  std::string_view find_defect_of(const TraceMessage& sent, const TraceMessage& taken) {
    const TraceMessage* again = of_message(Event::kSentAgain, sent.message);
    const TraceMessage* late = of_message(Event::kLate, sent.message);
    if (again != nullptr && binding_.chooser != Chooser::kReader) {
      return "was sent again, though nobody could ask for it";
    }
    if ((again == nullptr) != (late == nullptr)) {
      return "was sent again and no late copy came, or the other way round";
    }
    const bool second_won = again != nullptr && same_place(*again, taken);
    const TraceMessage& first = second_won ? *again : sent;
    const TraceMessage& second = second_won || again == nullptr ? sent : *again;
    if (!same_place(first, taken) || first.tick >= taken.tick) {
      return "was not taken where it was sent, or too early";
    }
    if (late != nullptr &&
        (!same_place(second, *late) || second.tick >= late->tick || late->tick <= taken.tick)) {
      return "its late copy did not come where it was sent, or too early";
    }
    const Replay::Span* step = replay_.find(sender_node(sent.message), tile_of(sent.message));
    if (!has_credit(sent, step->begin) || (again != nullptr && !has_credit(*again, again->tick))) {
      return "was sent into a slot that was not free";
    }
    const PathKind path = binding_.paths[static_cast<std::size_t>(sent.path)].kind;
    const bool is_held =
        binding_.chooser == Chooser::kReader || protocol_on(binding_, path) == Protocol::kDirectGet;
    const std::uint64_t last = late != nullptr ? late->tick : taken.tick;
    return is_held && last >= next_begin(sent.message) ? "the sender went on while it was needed"
                                                       : "";
  }

  [[nodiscard]] int count() const { return flat_.message_count(ends_.channel); }
  [[nodiscard]] int tile_of(std::int64_t message) const {
    return static_cast<int>(message) / count();
  }
  [[nodiscard]] int sender_of(std::int64_t message) const {
    const int number = flat_.first_message(ends_.channel) + static_cast<int>(message) % count();
    return flat_.messages()[static_cast<std::size_t>(number)].sender;
  }
  [[nodiscard]] int sender_node(std::int64_t message) const {
    return graph_.node(sender_of(message), 0);
  }

  bool has_credit(const TraceMessage& sent, std::uint64_t begin) {
    const auto slots = static_cast<std::uint64_t>(binding_.slots);
    if (sent.position < first_position(sent.path) + slots) {
      return true;  // the slot was last used in an earlier call
    }
    const auto freed = freed_.find({sent.path, sent.position - slots});
    return freed != freed_.end() && freed->second < begin;
  }

  std::uint64_t first_position(int path) {
    std::uint64_t first = UINT64_MAX;
    for (const auto& [place, tick] : freed_) {
      first = place.first == path ? std::min(first, place.second) : first;
    }
    return first;
  }

  // When the writer's lane began what follows the step that sent the message; the end of its job
  // after the last.
  std::uint64_t next_begin(std::int64_t message) {
    const int step = sender_of(message);
    const FlatStrand::LaneInfo& lane =
        flat_.lanes()[static_cast<std::size_t>(flat_.steps()[static_cast<std::size_t>(step)].lane)];
    const bool is_last = step + 1 == lane.first_step + lane.steps;
    const Replay::Span* next = replay_.find(graph_.node(is_last ? lane.first_step : step + 1, 0),
                                            tile_of(message) + (is_last ? 1 : 0));
    return next != nullptr ? next->begin : run_.job_ends[static_cast<std::size_t>(ends_.writer)];
  }

  // Each path is used position after position.
  std::string find_gap() {
    for (int p = 0; p < static_cast<int>(binding_.paths.size()); ++p) {
      std::uint64_t next = first_position(p);
      for (const auto& [place, tick] : freed_) {
        if (place.first == p && place.second != next++) {
          return fmt::format("path {} has a gap before position {}", p, place.second);
        }
      }
    }
    return {};
  }

  Ends ends_;
  const FlatStrand& flat_;
  const Graph& graph_;
  Replay& replay_;
  const Execution& run_;
  const ChannelBinding& binding_;
  std::map<Event, std::vector<const TraceMessage*>> by_event_;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> freed_;  // path, position -> tick
};

inline std::string find_defect_of_bundles(
    int strand, int copy, const Graph& graph, Replay& replay, const Execution& run) {
  const Schedule& schedule = graph.program().schedule();
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    if (graph.program().strand().channels[c].paths.size() == 1) {
      continue;
    }
    for (const LaneId reader : schedule.channels[c].readers) {
      const BundleReplay::Ends ends{.strand = strand,
                                    .copy = copy,
                                    .channel = static_cast<int>(c),
                                    .writer = schedule.channels[c].writer.rank,
                                    .reader = reader.rank};
      if (std::string defect = BundleReplay(ends, graph, replay, run).find_defect();
          !defect.empty()) {
        return fmt::format("channel {} to rank {}: {}", c, reader.rank, defect);
      }
    }
  }
  return {};
}

// The log of a claimed plan: the same on all ranks, known before a grain is begun, and written by a
// leader that is no more than a grain ahead of its first lane.
inline std::string find_defect_of_claims(const Plan& plan, const Execution& run) {
  std::map<int, std::vector<TraceClaim>> by_rank;
  for (const TraceClaim& claim : run.claims) {
    by_rank[claim.rank].push_back(claim);
  }
  const std::vector<TraceClaim>& log = by_rank[leader(plan)];
  std::map<std::tuple<int, int, std::int64_t>, std::uint64_t> known;  // rank, strand, tile -> tick
  for (const auto& [rank, claims] : by_rank) {
    std::map<int, std::int64_t> tiles;
    for (std::size_t g = 0; g < claims.size(); ++g) {
      const TraceClaim& claim = claims[g];
      if (claim.grain != static_cast<std::int64_t>(g) || g >= log.size() ||
          claim.strand != log[g].strand || claim.tick < log[g].tick) {
        return fmt::format("rank {} has another entry {} than the leader", rank, g);
      }
      const std::int64_t grain =
          grain_bytes(plan) / plan.strands[static_cast<std::size_t>(claim.strand)].tile_bytes;
      for (std::int64_t t = 0; t < grain; ++t) {
        known[{rank, claim.strand, tiles[claim.strand]++}] = claim.tick;
      }
    }
    if (claims.size() != log.size()) {
      return fmt::format("rank {} knows {} of {} grains", rank, claims.size(), log.size());
    }
  }
  for (const TraceEvent& event : run.events) {
    const int width = plan.strands[static_cast<std::size_t>(event.strand)].width;
    const std::int64_t tile = event.tile * width + event.copy;
    const auto claim = known.find({event.rank, event.strand, tile});
    if (claim == known.end() || claim->second >= event.begin) {
      return fmt::format(
          "rank {} ran tile {} of strand {} before it knew of it", event.rank, tile, event.strand);
    }
  }
  return {};
}

// A job ends only when its blocks have been read, the last ones too. Empty when that holds.
inline std::string find_early_end(const FlatStrand& flat,
                                  const Graph& graph,
                                  Replay& replay,
                                  const Execution& run) {
  for (const Edge& edge : graph.edges()) {
    if (edge.kind != EdgeKind::kRelease) {
      continue;
    }
    const auto owner = static_cast<std::size_t>(
        flat.steps()[static_cast<std::size_t>(std::max(0, graph.step_of(edge.to)))].rank);
    for (int p = 0; p * graph.period() < replay.tiles(); ++p) {
      const Replay::Span* reader = replay.find(edge.from, p);
      if (reader != nullptr && reader->end >= run.job_ends[owner]) {
        return fmt::format("the job of rank {} ended before its blocks were read", owner);
      }
    }
  }
  return {};
}

// What the trace of a whole plan does against the graph; empty when nothing.
inline std::string find_defect_of_trace(const Plan& plan, const Execution& run) {
  const bool claimed = plan.division == Division::kClaimed;
  if (std::string defect = claimed ? find_defect_of_claims(plan, run) : ""; !defect.empty()) {
    return defect;
  }
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const FlatStrand flat(plan.strands[s]);
    const Graph graph = Graph::build(flat, Coupling::kLoosest).value();
    const std::vector<Edge> edges = edges_between_steps(graph);
    for (int copy = 0; copy < plan.strands[s].width; ++copy) {
      Replay replay(graph, run.events, static_cast<int>(s), copy);
      if (std::string defect =
              find_defect_of_bundles(static_cast<int>(s), copy, graph, replay, run);
          !defect.empty()) {
        return defect;
      }
      if ((replay.tiles() == 0 && !claimed) || !replay.every_step_ran_once_a_tile()) {
        return fmt::format("strand {} copy {}: not every step ran once a tile", s, copy);
      }
      if (const Edge* edge = replay.find_violation(edges); edge != nullptr) {
        return describe(flat, graph, *edge);
      }
      if (std::string defect = find_early_end(flat, graph, replay, run); !defect.empty()) {
        return defect;
      }
    }
  }
  return {};
}

}  // namespace sennit
