// The proved object is the executed object: jobs of the cpu engine run on threads, and every step
// they record must respect the graph that the proof is about.
#include "algo/algorithm.hpp"
#include "exec/cpu/job.hpp"
#include "verify/graph.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace sennit {
namespace {

constexpr std::chrono::seconds kLongestRun{60};

// ---- Plans ----

struct Made {
  std::string name;
  std::shared_ptr<const Plan> plan;
  std::uint32_t slots;
};

struct Binding {
  std::uint32_t slots = 2;
  int width = 1;
  int burst = 1;
  bool direct = false;
};

Strand strand_of(Collective collective, std::string_view algorithm, const Shape& shape, Binding b) {
  auto schedule = make_schedule(*find_algorithm(collective, algorithm).value(), shape);
  Strand strand = bind(std::make_shared<const Schedule>(std::move(schedule).value()),
                       b.direct ? PathKind::kCma : PathKind::kShm,
                       b.direct ? Protocol::kDirectGet : Protocol::kSlots,
                       static_cast<int>(b.slots),
                       Engine::kCpu);
  strand.tile_bytes = 128;
  strand.width = b.width;
  for (auto& lanes : strand.lanes) {
    for (LaneBinding& lane : lanes) {
      lane.burst = b.burst;
    }
  }
  return strand;
}

Made made(Collective collective, std::string_view algorithm, const Shape& shape, Binding b) {
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(strand_of(collective, algorithm, shape, b));
  return {.name = fmt::format("{} {}, {} ranks, {} slots, width {}, burst {}{}",
                              name(collective),
                              algorithm,
                              shape.ranks,
                              b.slots,
                              b.width,
                              b.burst,
                              b.direct ? ", direct" : ""),
          .plan = std::move(plan),
          .slots = b.slots};
}

// One third of every block over a ring, the rest over another algorithm.
Made two_strands() {
  auto plan = std::make_shared<Plan>();
  const Shape shape{.ranks = 4};
  plan->strands.push_back(strand_of(Collective::kAllReduce, "ring", shape, {.slots = 4}));
  plan->strands.push_back(
      strand_of(Collective::kAllReduce, "two_shot", shape, {.slots = 4, .width = 2}));
  plan->strands.back().share = 2;
  return {.name = "two strands", .plan = std::move(plan), .slots = 4};
}

// Neighbours on a chain that treat 1, 2 and 4 tiles as one unit, or 4, 2 and 1.
Made mixed_bursts(bool growing) {
  Strand strand =
      strand_of(Collective::kBroadcast, "chain", {.ranks = 3}, {.slots = 8, .width = 2});
  for (int rank = 0; rank < 3; ++rank) {
    for (LaneBinding& lane : strand.lanes[static_cast<std::size_t>(rank)]) {
      lane.burst = 1 << (growing ? rank : 2 - rank);
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(std::move(strand));
  return {.name = growing ? "bursts that grow" : "bursts that shrink",
          .plan = std::move(plan),
          .slots = 8};
}

std::vector<Made> plans() {
  return {
      made(Collective::kAllReduce, "ring", {.ranks = 4}, {.slots = 2}),
      made(Collective::kAllReduce, "ring", {.ranks = 3}, {.slots = 24, .burst = 2}),
      made(Collective::kAllReduce, "two_shot", {.ranks = 3}, {.slots = 4, .width = 2}),
      made(Collective::kAllReduce, "recursive_doubling", {.ranks = 5}, {.slots = 3}),
      made(Collective::kAllReduce, "one_shot", {.ranks = 4}, {.slots = 4, .burst = 4}),
      made(Collective::kReduce, "k_nomial", {.ranks = 8, .root = 3}, {.width = 3}),
      made(Collective::kBroadcast, "chain", {.ranks = 4, .root = 1}, {.width = 3}),
      made(Collective::kBroadcast, "chain", {.ranks = 4}, {.slots = 8, .burst = 4}),
      made(Collective::kBroadcast, "k_nomial", {.ranks = 8}, {.width = 2, .direct = true}),
      made(Collective::kAllToAll, "direct", {.ranks = 4}, {.slots = 3, .direct = true}),
      made(Collective::kAllToAll, "pairwise", {.ranks = 5}, {.slots = 2}),
      made(Collective::kGather, "binomial", {.ranks = 8, .root = 2}, {.slots = 3, .width = 2}),
      made(Collective::kScatter, "binomial", {.ranks = 8}, {.slots = 2}),
      made(Collective::kScatter, "binomial", {.ranks = 5}, {.slots = 2, .direct = true}),
      made(Collective::kBarrier, "dissemination", {.ranks = 5}, {.slots = 2}),
      two_strands(),
      mixed_bursts(/*growing=*/true),
      mixed_bursts(/*growing=*/false),
  };
}

// ---- Running a plan ----

std::int64_t value(int rank, std::int64_t index) { return rank * std::int64_t{100'000} + index; }

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Execution {
  std::vector<std::vector<std::int64_t>> outputs;  // by rank
  std::vector<TraceEvent> events;
  std::vector<std::uint64_t> job_ends;  // by rank, in ticks
  std::string defect;
};

class Runner {
 public:
  Runner(const Made& made, std::int64_t count)
      : made_(made),
        problem_(made.plan->problem()),
        geometry_{.ranks = problem_.ranks, .ports = 16, .slots = made.slots, .slot_bytes = 4096},
        count_(count),
        bells_(static_cast<std::size_t>(problem_.ranks)) {
    const std::size_t bytes = shm::RingPool::bytes(geometry_);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    std::memset(memory_.get(), 0, bytes);
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      ranks_.emplace_back(rank, shm::RingPool(memory_.get(), geometry_), bells_.data());
      for (cma::PeerMemory& peer : ranks_.back().peers) {
        peer = cma::PeerMemory(::getpid(), /*same_process=*/true);
      }
    }
  }

  // May be called again: calls follow each other on the same rings.
  Execution run(const Proof& proof) {
    Execution all;
    all.outputs.resize(ranks_.size());
    all.job_ends.resize(ranks_.size());
    std::vector<Trace> traces(ranks_.size(), Trace(clock_));
    std::vector<std::string> defects(ranks_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        threads.emplace_back([&, rank] {
          defects[rank] = run_rank(static_cast<int>(rank), proof, traces[rank], all.outputs[rank]);
          all.job_ends[rank] = traces[rank].tick();
        });
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      all.defect += defects[rank];
      all.events.insert(
          all.events.end(), traces[rank].events().begin(), traces[rank].events().end());
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t elements(int blocks) const {
    return is_cut(problem_.collective) ? (blocks > 0 ? count_ : 0) : blocks * count_;
  }

  std::string run_rank(int rank,
                       const Proof& proof,
                       Trace& trace,
                       std::vector<std::int64_t>& output) {
    auto program = compile(
        made_.plan,
        proof,
        rank,
        {.ports = geometry_.ports, .slots = geometry_.slots, .slot_bytes = geometry_.slot_bytes});
    if (!program.ok()) {
      return program.status().message();
    }
    std::vector<std::int64_t> input(
        static_cast<std::size_t>(elements(problem_.input_blocks(rank))));
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = value(rank, static_cast<std::int64_t>(i));
    }
    output.assign(static_cast<std::size_t>(elements(problem_.output_blocks(rank))), -1);
    const BoundProgram bound(
        std::move(program).value(), ranks_[static_cast<std::size_t>(rank)], {});
    Job job(bound,
            {.input = input.data(),
             .output = output.data(),
             .count = count_,
             .dtype = Dtype::kInt64,
             .fingerprint = 7},
            &trace);
    const auto limit = std::chrono::steady_clock::now() + kLongestRun;
    while (!job.finished() && std::chrono::steady_clock::now() < limit) {
      if (!job.advance()) {
        sleep_on(bells_[static_cast<std::size_t>(rank)], std::chrono::milliseconds(1), [&] {
          return job.advance();
        });
      }
    }
    return job.finished() ? std::string() : fmt::format("rank {} hangs. ", rank);
  }

  const Made& made_;
  const Problem& problem_;
  shm::RingGeometry geometry_;
  std::int64_t count_;
  std::atomic<std::uint64_t> clock_{1};
  std::vector<Doorbell> bells_;
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<HostRank> ranks_;
};

// The first wrong element, by the problem's own definition of what an output block holds.
std::string find_wrong_output(const Problem& problem, std::int64_t count, const Execution& run) {
  constexpr std::int64_t kBytes = sizeof(std::int64_t);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (int block = 0; block < problem.output_blocks(rank); ++block) {
      const ElementRange out = block_range(problem, count, kBytes, block);
      const Problem::Contributions sum = problem.expected(rank, block);
      const ElementRange in = block_range(problem, count, kBytes, sum.index);
      for (std::int64_t i = 0; i < out.length; ++i) {
        std::int64_t expected = 0;
        for (const int source : sum.ranks) {
          expected += value(source, in.begin + i);
        }
        const std::int64_t found =
            run.outputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(out.begin + i)];
        if (found != expected) {
          return fmt::format(
              "rank {} block {} element {}: {}, not {}", rank, block, i, found, expected);
        }
      }
    }
  }
  return {};
}

// ---- Replaying a trace ----

// The graph between steps alone: nodes that stand for the end of a send, or for a free instance of
// scratch, are replaced by the edges through them.
std::vector<Edge> edges_between_steps(const Graph& graph) {
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

std::string describe(const FlatStrand& flat, const Graph& graph, const Edge& edge) {
  return fmt::format("{} before {}, kind {}, delay {}",
                     flat.describe(graph.step_of(edge.from)),
                     flat.describe(graph.step_of(edge.to)),
                     static_cast<int>(edge.kind),
                     edge.delay);
}

// What the trace of a whole plan does against the graph; empty when nothing.
std::string find_defect_of_trace(const Plan& plan, const Execution& run) {
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const FlatStrand flat(plan.strands[s]);
    const Graph graph = Graph::build(flat).value();
    const std::vector<Edge> edges = edges_between_steps(graph);
    for (int copy = 0; copy < plan.strands[s].width; ++copy) {
      Replay replay(graph, run.events, static_cast<int>(s), copy);
      if (replay.tiles() == 0 || !replay.every_step_ran_once_a_tile()) {
        return fmt::format("strand {} copy {}: not every step ran once a tile", s, copy);
      }
      if (const Edge* edge = replay.find_violation(edges); edge != nullptr) {
        return describe(flat, graph, *edge);
      }
      // A job ends only when its blocks have been read, the last ones too.
      for (const Edge& edge : graph.edges()) {
        const auto owner = static_cast<std::size_t>(
            flat.steps()[static_cast<std::size_t>(std::max(0, graph.step_of(edge.to)))].rank);
        for (int p = 0; edge.kind == EdgeKind::kRelease && p * graph.period() < replay.tiles();
             ++p) {
          const Replay::Span* reader = replay.find(edge.from, p);
          if (reader != nullptr && reader->end >= run.job_ends[owner]) {
            return fmt::format("the job of rank {} ended before its blocks were read", owner);
          }
        }
      }
    }
  }
  return {};
}

// ---- The claims ----

constexpr std::int64_t kCount = 16 * 4 * 9 + 5;  // nine tiles in each of four blocks, and a rest

TEST(Trace, DataIsRightAndEveryStepRespectsTheProofsGraph) {
  for (const Made& made : plans()) {
    SCOPED_TRACE(made.name);
    const auto proof = verify(*made.plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Problem& problem = made.plan->problem();
    const std::int64_t count = problem.collective == Collective::kBarrier ? 0 : kCount;
    Runner runner(made, count);
    for (int call = 0; call < 3; ++call) {
      const Execution run = runner.run(*proof);
      ASSERT_EQ(run.defect, "");
      EXPECT_EQ(find_wrong_output(problem, count, run), "");
      EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
    }
  }
}

// Exchanges the times of both ends of one edge of each kind, and wants it to be seen.
TEST(Trace, ExchangedEventsAreFound) {
  std::map<EdgeKind, int> caught;
  for (const Made& made : plans()) {
    SCOPED_TRACE(made.name);
    const Plan& plan = *made.plan;
    const auto proof = verify(plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Execution run = Runner(made, plan.problem().cut == 0 ? 0 : kCount).run(*proof);
    const FlatStrand flat(plan.strands.front());
    const Graph graph = Graph::build(flat).value();
    const std::vector<Edge> edges = edges_between_steps(graph);
    std::map<EdgeKind, int> tried;
    for (const Edge& edge : edges) {
      Replay replay(graph, run.events, 0, 0);
      Replay::Span* before = replay.find(edge.from, 0);
      Replay::Span* after = replay.find(edge.to, edge.delay);
      if (before != nullptr && after != nullptr && before != after && ++tried[edge.kind] <= 3) {
        std::swap(*before, *after);
        EXPECT_NE(replay.find_violation(edges), nullptr) << describe(flat, graph, edge);
        ++caught[edge.kind];
      }
    }
  }
  for (const EdgeKind kind : {EdgeKind::kOrder,
                              EdgeKind::kAfter,
                              EdgeKind::kScratch,
                              EdgeKind::kMessage,
                              EdgeKind::kCredit,
                              EdgeKind::kRelease}) {
    EXPECT_GT(caught[kind], 0) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace sennit
