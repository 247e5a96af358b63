// Every algorithm of the tables as kernels of GPU ranks run it step by step, in the host form of
// the kernel, against the oracle of the host ranks' tests. Ranks are threads that keep their
// staging buffers from case to case. Sampled as tests/host_conformance_test.cpp is.
#include "base/env.hpp"
#include "base/testing/trials.hpp"
#include "conformance/conformance_case.hpp"
#include "conformance/oracle.hpp"
#include "conformance/rank_run.hpp"
#include "exec/sm/step_program.hpp"
#include "exec/sm/testing/fake_steps.hpp"
#include "select/device_choice.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace sennit::tests {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSeed = 20250817;
// Divided by the number of ranks.
constexpr std::size_t kSample = trials(6000, 1500);
// Small, so that short vectors are many tiles, and slots are used again and again.
constexpr sm::StagingShape kStaging{.blocks = 3, .slot_bytes = 8192};
constexpr sm::StepLimits kLimits{
    .blocks = 3, .scratch_bytes = 8192, .slot_bytes = {kStaging.slot_bytes, kStaging.slot_bytes}};

std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) {
    return c.ranks != ranks || c.direct || c.collective() == Collective::kBarrier ||
           c.collective() == Collective::kSendRecv || must_be_refused(c);
  });
  std::mt19937_64 random(kSeed);
  std::ranges::shuffle(cases, random);
  if (env_text("SENNIT_TEST_CASES") != "all") {
    cases.resize(std::min(cases.size(), kSample / static_cast<std::size_t>(ranks)));
  }
  return cases;
}

// What is made of a schedule, once.
struct Made {
  bool in_place = false;
  Problem problem;
  std::vector<std::unique_ptr<const sm::StepProgram>> programs;  // by rank
};

class Programs {
 public:
  const Made& of(const Case& c) {
    const ScaledParts scaled{
        .contributions = is_reduction(c.collective()) && scales_contributions(c.op),
        .sums = is_reduction(c.collective()) && finishes_sum(c.op)};
    Made& made = made_[{c.algorithm, c.root, scaled}];
    if (!made.programs.empty()) {
      return made;
    }
    const DeviceChoice choice{
        .algorithm = c.algorithm, .protocol = Protocol::kSlots, .by_steps = true, .scaled = scaled};
    const auto plan = make_device_plan(choice, {.ranks = c.ranks, .root = c.root}, {});
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    const auto proof = verify(**plan);
    EXPECT_TRUE(proof.ok()) << describe(c) << ": " << proof.status().message();
    EXPECT_EQ(proof->scaled, scaled) << describe(c);
    made.in_place = proof->in_place;
    made.problem = (*plan)->problem();
    for (int rank = 0; rank < c.ranks; ++rank) {
      auto program = sm::compile_steps((*plan)->strands.front(), rank);
      EXPECT_TRUE(program.ok()) << describe(c) << ": " << program.status().message();
      made.programs.push_back(std::move(program).value());
    }
    return made;
  }

 private:
  std::map<std::tuple<const Algorithm*, int, ScaledParts>, Made> made_;
};

// The memory of all ranks' staging buffers.
class Staging {
 public:
  explicit Staging(int ranks) : ranks_(ranks) {
    for (int i = 0; i < ranks * ranks; ++i) {
      staging_.push_back(std::make_unique<std::uint64_t[]>(kStaging.bytes() / 8));
    }
  }
  [[nodiscard]] std::byte* staging(int writer, int reader) const {
    return reinterpret_cast<std::byte*>(
        staging_[static_cast<std::size_t>(writer) * static_cast<std::size_t>(ranks_) +
                 static_cast<std::size_t>(reader)]
            .get());
  }

 private:
  int ranks_;
  std::vector<std::unique_ptr<std::uint64_t[]>> staging_;
};

// What a rank keeps from call to call.
struct StepRank {
  int rank;
  const Staging& staging;
  RankMemory memory;
  Bytes scratch = Bytes(static_cast<std::size_t>(kLimits.blocks) * kLimits.scratch_bytes);
  std::array<std::uint64_t, kStaging.blocks> calls{};
  sm::ErrorWord error_word{};

  Status run(const Case& c, const RankRun& buffers, const Made& made) {
    sm::StepCall call;
    call.program = *made.programs[static_cast<std::size_t>(rank)];
    call.input = buffers.send();
    call.output = buffers.recv();
    call.scratch = scratch.data();
    call.calls = calls.data();
    call.error_word = &error_word;
    for (int peer = 0; peer < c.ranks; ++peer) {
      call.inbox[static_cast<std::size_t>(peer)] = staging.staging(peer, rank);
      call.outbox[static_cast<std::size_t>(peer)] = staging.staging(rank, peer);
    }
    call.staging.fill(kStaging);
    call.fingerprint = 7;
    call.deadline_ns = 60'000'000'000;
    make_scalar(c, rank, call.scalar.data());
    const sm::Elements elements{c.count, static_cast<std::int64_t>(size_bytes(c.dtype))};
    SENNIT_RETURN_IF_ERROR(sm::bind(made.problem, elements, kLimits, call));
    sm::FakeSteps(call, {.dtype = c.dtype, .op = c.op}).run();
    return error_word.trouble == sm::Trouble::kNone
               ? Status()
               : fail(Code::kDeadlineExceeded, "it stands still");
  }
};

std::size_t largest_buffer(const std::vector<Case>& cases) {
  std::size_t largest = 0;
  for (const Case& c : cases) {
    const auto elements = static_cast<std::size_t>(c.count) * static_cast<std::size_t>(c.ranks);
    largest = std::max(largest, elements * size_bytes(c.dtype));
  }
  return largest;
}

class StepConformance : public testing::TestWithParam<int> {};

TEST_P(StepConformance, KernelsComputeEveryFormulaStepByStep) {
  const int ranks = GetParam();
  std::vector<Case> cases = cases_of(ranks);
  Programs programs;
  std::erase_if(cases, [&](const Case& c) {
    return c.placement != Placement::kNone && !programs.of(c).in_place;
  });
  ASSERT_GT(cases.size(), 100U);
  for (Case& c : cases) {
    (void)programs.of(c);
    c.count *= c.count % 3 == 1 ? 40 : 1;  // several tiles of each block of the kernel
  }
  std::vector<Oracle> oracles(cases.begin(), cases.end());
  const Staging staging(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      StepRank self{.rank = rank, .staging = staging, .memory = RankMemory(largest_buffer(cases))};
      std::mt19937_64 places(kSeed + static_cast<std::uint64_t>(rank));
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case& c = cases[i];
        const RankRun run(c, rank, nullptr, self.memory, places());
        const Status status = self.run(c, run, programs.of(c));
        ASSERT_TRUE(status.ok()) << describe(c) << ": " << status.message();
        ASSERT_EQ(run.defect(oracles[i]), "") << describe(c) << ", rank " << rank;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StepConformance, testing::ValuesIn({2, 3, 4, 8}));

// Whatever the row and its shape: the program has room, and is proved with its lanes joined.
TEST(StepPrograms, ThereIsOneOfEveryRow) {
  int programs = 0;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : {1, 2, 5, 16}) {
        const Shape shape{.ranks = ranks, .root = is_rooted(collective) ? ranks - 1 : 0};
        if (collective == Collective::kSendRecv || !algorithm.refuses(shape).empty()) {
          continue;
        }
        const DeviceChoice choice{
            .algorithm = &algorithm, .protocol = Protocol::kSlots, .by_steps = true};
        const auto plan = make_device_plan(choice, shape, {});
        ASSERT_TRUE(plan.ok()) << algorithm.name << ": " << plan.status().message();
        const auto proof = verify(**plan);
        EXPECT_TRUE(proof.ok()) << algorithm.name << ": " << proof.status().message();
        EXPECT_TRUE(!algorithm.in_place || proof->in_place) << algorithm.name;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto program = sm::compile_steps((*plan)->strands.front(), rank);
          EXPECT_TRUE(program.ok()) << program.status().message();
          ++programs;
        }
      }
    }
  }
  EXPECT_GT(programs, 500);
}

}  // namespace
}  // namespace sennit::tests
