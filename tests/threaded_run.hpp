// For tests: runs a plan on the cpu engine, one thread a rank, and keeps what the ranks did.
#pragma once

#include "exec/cpu/job.hpp"
#include "exec/cpu/single_tile.hpp"
#include "verify/verify.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sennit {

struct Made {
  std::string name;
  std::shared_ptr<const Plan> plan;
  std::uint32_t slots;
};

inline constexpr std::chrono::seconds kLongestRun{60};

inline std::int64_t value(int rank, std::int64_t index) {
  return rank * std::int64_t{100'000} + index;
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Execution {
  std::vector<std::vector<std::int64_t>> outputs;  // by rank
  std::vector<TraceEvent> events;
  std::vector<TraceMessage> messages;
  std::vector<TraceClaim> claims;
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

  void set_policy(const PathPolicy& policy) { policy_ = policy; }
  void set_slow_path(const SlowPath& slow) {
    for (HostRank& rank : ranks_) {
      rank.slow_path = slow;
    }
  }

  // Each call begins as a SingleTile, and goes on as a Job after so many rounds without progress.
  void begin_as_single_tile(int rounds) { single_tile_rounds_ = rounds; }

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
      const Trace& trace = traces[rank];
      all.events.insert(all.events.end(), trace.events().begin(), trace.events().end());
      all.messages.insert(all.messages.end(), trace.messages().begin(), trace.messages().end());
      all.claims.insert(all.claims.end(), trace.claims().begin(), trace.claims().end());
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
    const Call call{.input = input.data(),
                    .output = output.data(),
                    .count = count_,
                    .dtype = Dtype::kInt64,
                    .fingerprint = 7,
                    .path_policy = policy_};
    if (single_tile_rounds_ > 0) {
      return run_single_tile(bound, call, trace);
    }
    Job job(bound, call, &trace);
    return finish(job, rank);
  }

  std::string run_single_tile(const BoundProgram& bound, const Call& call, Trace& trace) {
    const auto tile = SingleTile::resolve(Job(bound, call));
    if (!tile) {
      return "not resolved. ";
    }
    SingleTile::Run run = tile->begin(call, &trace);
    for (int idle = 0; idle < single_tile_rounds_ && !run.has_ended();) {
      if (!tile->advance(run)) {
        ++idle;
        std::this_thread::yield();
      }
    }
    if (run.has_ended()) {
      return {};
    }
    Job job(bound, call, &trace);
    job.go_on(run.steps_done, nullptr);
    return finish(job, bound.program().rank);
  }

  std::string finish(Job& job, int rank) {
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
  int single_tile_rounds_ = 0;
  PathPolicy policy_;
  std::atomic<std::uint64_t> clock_{1};
  std::vector<Doorbell> bells_;
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<HostRank> ranks_;
};

// The first wrong element, by the problem's own definition of what an output block holds.
inline std::string find_wrong_output(const Problem& problem,
                                     std::int64_t count,
                                     const Execution& run) {
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

}  // namespace sennit
