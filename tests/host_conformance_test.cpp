// Every algorithm of the table, run through the C ABI by ranks that are threads, against a closed
// formula. The cases are the whole product of the tables, in an order that a seed decides:
// SENNIT_TEST_SEED repeats a failure or tries another order.
#include "guarded_buffer.hpp"

#include "algo/algorithm.hpp"
#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sennit {
namespace {

using tests::GuardedBuffer;
using tests::load;
using tests::store;

constexpr std::array kRankCounts = {1, 2, 3, 4, 5, 8};
constexpr std::int64_t kTileBytes = 256;
constexpr unsigned kDefaultSeed = 20250817;

// Which ranks work in place.
enum class Placement { kNone, kAll, kOddRanks };
constexpr std::array kPlacements = {Placement::kNone, Placement::kAll, Placement::kOddRanks};

struct Case {
  const Algorithm* algorithm;
  int ranks;
  int root;
  Dtype dtype;
  ReduceOp op;
  Placement placement;
  std::int64_t count;
  bool direct;

  [[nodiscard]] Collective collective() const { return algorithm->collective; }
};

std::string describe(const Case& c) {
  constexpr std::array kNames = {"out of place", "in place", "odd ranks in place"};
  return fmt::format("{} {}, {} ranks, root {}, {} x {}, {}, {}, {}",
                     name(c.collective()),
                     c.algorithm->name,
                     c.ranks,
                     c.root,
                     c.count,
                     name(c.dtype),
                     name(c.op),
                     kNames[static_cast<std::size_t>(c.placement)],
                     c.direct ? "direct" : "slots");
}

// ---- The cases ----

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!is_rooted(collective)) {
    return {0};
  }
  if (ranks > 3) {
    return {0, ranks - 1};
  }
  std::vector<int> roots(static_cast<std::size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

std::vector<Dtype> dtypes_of(Collective collective) {
  return collective == Collective::kBarrier ? std::vector{Dtype::kUint8}
                                            : std::vector(kDtypes.begin(), kDtypes.begin() + 5);
}

std::vector<ReduceOp> ops_of(Collective collective) {
  return is_reduction(collective) ? std::vector{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}
                                  : std::vector{ReduceOp::kSum};
}

std::vector<Placement> placements_of(Collective collective) {
  return collective == Collective::kBarrier || collective == Collective::kSendRecv
             ? std::vector{Placement::kNone}
             : std::vector(kPlacements.begin(), kPlacements.end());
}

// Of a vector that is cut, so many elements that every rank's block has about one tile, and nine.
std::vector<std::int64_t> counts_of(Collective collective, Dtype dtype, int ranks) {
  if (collective == Collective::kBarrier) {
    return {0};
  }
  const std::int64_t tile =
      kTileBytes / static_cast<std::int64_t>(size_bytes(dtype)) * (is_cut(collective) ? ranks : 1);
  return {0, 1, 37, tile - 1, tile + 1, 9 * tile + 5};
}

bool has_shape(Collective collective, int ranks) {
  return collective != Collective::kSendRecv || ranks > 1;
}

// One loop an axis is as plain as it gets.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : kRankCounts) {
        if (!has_shape(collective, ranks)) {
          continue;
        }
        for (const int root : roots_of(collective, ranks)) {
          for (const Dtype dtype : dtypes_of(collective)) {
            for (const ReduceOp op : ops_of(collective)) {
              for (const Placement placement : placements_of(collective)) {
                for (const std::int64_t count : counts_of(collective, dtype, ranks)) {
                  for (const bool direct : {false, true}) {
                    cases.push_back({&algorithm, ranks, root, dtype, op, placement, count, direct});
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

unsigned seed_of_this_run() {
  const char* text = std::getenv("SENNIT_TEST_SEED");
  return text == nullptr ? kDefaultSeed : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

// Neighbours in the order share slots, so the order is a part of the test.
std::vector<Case> in_random_order(std::vector<Case> cases, unsigned seed) {
  std::mt19937 random(seed);
  std::ranges::shuffle(cases, random);
  return cases;
}

// Whether `direct` can carry an algorithm by name. Some messages at least must be what their
// senders hold in blocks of their own and their receivers keep: reductions consume messages
// instead, and barriers carry no blocks. And since a send by direct ends only when it has been
// read, ranks that all send to a neighbour before they receive wait for each other in a circle.
bool carries_direct(const Case& c) {
  static const std::set<std::pair<Collective, std::string_view>> kRefused = {
      {Collective::kAllReduce, "halving_doubling"},
      {Collective::kAllReduce, "one_shot"},
      {Collective::kAllReduce, "ring"},
      {Collective::kReduce, "chain"},
      {Collective::kReduce, "direct"},
      {Collective::kReduce, "k_nomial"},
      {Collective::kAllGather, "bruck"},
      {Collective::kAllGather, "recursive_doubling"},
      {Collective::kAllGather, "ring"},
      {Collective::kReduceScatter, "direct"},
      {Collective::kReduceScatter, "ring"},
      {Collective::kAllToAll, "bruck"},
      {Collective::kAllToAll, "pairwise"},
      {Collective::kBarrier, "dissemination"},
      {Collective::kBarrier, "tree"},
  };
  if (is_reduction(c.collective()) && c.algorithm->name.starts_with("recursive_")) {
    // Only what is handed back to folded ranks is kept; a power of two folds none.
    return c.ranks == 1 || !std::has_single_bit(static_cast<unsigned>(c.ranks));
  }
  return c.ranks == 1 || !kRefused.contains({c.collective(), c.algorithm->name});
}

// ---- The oracle ----

// Names rank and index; 4133 = 37 mod 256, so that uint8 tells ranks apart too. Sums of 8 ranks are
// exact in float32.
std::int64_t value(Dtype dtype, int rank, std::int64_t index) {
  const std::int64_t full = rank * std::int64_t{4133} + index % 4093;
  return dtype == Dtype::kUint8 ? full & 0xff : full;
}

std::int64_t reduced(const Case& c, std::int64_t index) {
  std::int64_t result = value(c.dtype, 0, index);
  for (int rank = 1; rank < c.ranks; ++rank) {
    const std::int64_t next = value(c.dtype, rank, index);
    result = c.op == ReduceOp::kSum   ? result + next
             : c.op == ReduceOp::kMin ? std::min(result, next)
                                      : std::max(result, next);
  }
  return c.dtype == Dtype::kUint8 ? result & 0xff : result;
}

// Element `index` of the output of `rank`.
std::int64_t expected(const Case& c, int rank, std::int64_t index) {
  switch (c.collective()) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return reduced(c, index);
    case Collective::kReduceScatter:
      return reduced(c, rank * c.count + index);
    case Collective::kBroadcast:
      return value(c.dtype, c.root, index);
    case Collective::kScatter:
      return value(c.dtype, c.root, rank * c.count + index);
    case Collective::kAllGather:
    case Collective::kGather:
      return value(c.dtype, static_cast<int>(index / c.count), index % c.count);
    case Collective::kAllToAll:
      return value(c.dtype, static_cast<int>(index / c.count), rank * c.count + index % c.count);
    case Collective::kSendRecv:
      return value(c.dtype, (rank + c.ranks - 1) % c.ranks, index);
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

std::int64_t input_elements(const Case& c, int rank) {
  switch (c.collective()) {
    case Collective::kBroadcast:
      return rank == c.root ? c.count : 0;
    case Collective::kScatter:
      return rank == c.root ? c.count * c.ranks : 0;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

std::int64_t output_elements(const Case& c, int rank) {
  switch (c.collective()) {
    case Collective::kReduce:
      return rank == c.root ? c.count : 0;
    case Collective::kGather:
      return rank == c.root ? c.count * c.ranks : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

bool is_in_place(const Case& c, int rank) {
  const bool wanted =
      c.placement == Placement::kAll || (c.placement == Placement::kOddRanks && rank % 2 == 1);
  return wanted && input_elements(c, rank) > 0 && output_elements(c, rank) > 0;
}

// ---- One rank ----

class RankRun {
 public:
  RankRun(const Case& c, int rank, sennit_comm_t comm)
      : case_(c),
        rank_(rank),
        comm_(comm),
        in_place_(is_in_place(c, rank)),
        inputs_(input_elements(c, rank)),
        outputs_(output_elements(c, rank)),
        memory_(in_place_ ? std::max(inputs_, outputs_) : outputs_, c.dtype),
        input_(in_place_ ? 0 : inputs_, c.dtype) {
    // In place one of the two is a part of the other: the rank's own one.
    const std::int64_t own = rank * c.count;
    send_ = !in_place_ ? input_.at(0) : memory_.at(outputs_ > inputs_ ? own : 0);
    recv_ = memory_.at(in_place_ && inputs_ > outputs_ ? own : 0);
    for (std::int64_t i = 0; i < inputs_; ++i) {
      store(c.dtype, send_ + i * element_bytes(), value(c.dtype, rank, i));
    }
  }

  sennit_status_t run() {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    const std::string algorithm(case_.algorithm->name);
    options.algorithm = algorithm.c_str();
    options.protocol = case_.direct ? "direct" : "slots";
    options.tile_bytes = kTileBytes;
    return call(options);
  }

  // What is wrong with the memory after the call; empty when nothing is.
  std::string defect() {
    for (std::int64_t i = 0; i < outputs_; ++i) {
      const std::int64_t found = load(case_.dtype, recv_ + i * element_bytes());
      if (found != expected(case_, rank_, i)) {
        return fmt::format(
            "output {} of rank {} is {}, not {}", i, rank_, found, expected(case_, rank_, i));
      }
    }
    for (std::int64_t i = 0; i < inputs_ && !in_place_; ++i) {
      if (load(case_.dtype, send_ + i * element_bytes()) != value(case_.dtype, rank_, i)) {
        return fmt::format("input {} of rank {} was overwritten", i, rank_);
      }
    }
    return memory_.guards_are_whole() && input_.guards_are_whole()
               ? std::string()
               : fmt::format("rank {} wrote outside its buffers", rank_);
  }

 private:
  [[nodiscard]] std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(size_bytes(case_.dtype));
  }

  sennit_status_t call(const sennit_call_options_t& options) {
    const auto count = static_cast<std::size_t>(case_.count);
    const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
    const auto op = static_cast<sennit_redop_t>(case_.op);
    const int root = case_.root;
    switch (case_.collective()) {
      case Collective::kAllReduce:
        return sennit_all_reduce(send_, recv_, count, dtype, op, comm_, nullptr, &options);
      case Collective::kReduce:
        return sennit_reduce(send_, recv_, count, dtype, op, root, comm_, nullptr, &options);
      case Collective::kBroadcast:
        return sennit_broadcast(send_, recv_, count, dtype, root, comm_, nullptr, &options);
      case Collective::kAllGather:
        return sennit_all_gather(send_, recv_, count, dtype, comm_, nullptr, &options);
      case Collective::kReduceScatter:
        return sennit_reduce_scatter(send_, recv_, count, dtype, op, comm_, nullptr, &options);
      case Collective::kAllToAll:
        return sennit_all_to_all(send_, recv_, count, dtype, comm_, nullptr, &options);
      case Collective::kGather:
        return sennit_gather(send_, recv_, count, dtype, root, comm_, nullptr, &options);
      case Collective::kScatter:
        return sennit_scatter(send_, recv_, count, dtype, root, comm_, nullptr, &options);
      case Collective::kBarrier:
        return sennit_barrier(comm_, nullptr, &options);
      case Collective::kSendRecv:
        return shift(options);
    }
    return SENNIT_INTERNAL_ERROR;
  }

  // To the next rank, from the one before.
  sennit_status_t shift(const sennit_call_options_t& options) {
    const auto count = static_cast<std::size_t>(case_.count);
    const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
    const int ranks = case_.ranks;
    sennit_group_start();
    sennit_send(send_, count, dtype, (rank_ + 1) % ranks, comm_, nullptr, &options);
    sennit_recv(recv_, count, dtype, (rank_ + ranks - 1) % ranks, comm_, nullptr, &options);
    return sennit_group_end();
  }

  const Case& case_;
  int rank_;
  sennit_comm_t comm_;
  bool in_place_;
  std::int64_t inputs_;
  std::int64_t outputs_;
  GuardedBuffer memory_;  // of the output, and of the input in place
  GuardedBuffer input_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

struct Tally {
  std::size_t right = 0;
  std::size_t refused = 0;
  std::string defect;  // the first
};

bool was_carried_directly(sennit_comm_t comm) {
  char* answer = nullptr;
  const bool told = sennit_tool_last_plan(comm, &answer) == SENNIT_OK;
  const bool direct = told && std::string_view(answer).find("direct") != std::string_view::npos;
  sennit_tool_free(answer);
  return direct;
}

// Runs one case as one rank; the defect, if any.
std::string run_case(const Case& c, int rank, sennit_comm_t comm, Tally& tally) {
  RankRun run(c, rank, comm);
  const sennit_status_t status = run.run();
  if (c.direct && !carries_direct(c)) {
    ++tally.refused;
    return status == SENNIT_NOT_PROVED || status == SENNIT_UNSUPPORTED
               ? std::string()
               : fmt::format("not refused, but {}", sennit_status_name(status));
  }
  if (status != SENNIT_OK) {
    return fmt::format("rank {}: {}", rank, sennit_last_error_message());
  }
  ++tally.right;
  return run.defect();
}

Tally run_rank(const std::vector<Case>& cases, int ranks, int rank, const sennit_unique_id_t& id) {
  Tally tally;
  sennit_comm_t comm = nullptr;
  if (sennit_comm_init_rank(&comm, ranks, &id, rank, nullptr) != SENNIT_OK) {
    tally.defect = sennit_last_error_message();
    return tally;
  }
  for (const Case& c : cases) {
    if (c.ranks == ranks) {
      if (const std::string defect = run_case(c, rank, comm, tally); !defect.empty()) {
        tally.defect = describe(c) + ": " + defect;
        break;
      }
    }
  }
  sennit_comm_destroy(comm);
  return tally;
}

std::vector<Tally> run_ranks(const std::vector<Case>& cases, int ranks) {
  sennit_unique_id_t id;
  EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<Tally> tallies(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        tallies[static_cast<std::size_t>(rank)] = run_rank(cases, ranks, rank, id);
      });
    }
  }
  return tallies;
}

// ---- The claims ----

TEST(HostConformanceCases, AreTheProductOfTheTables) {
  std::size_t product = 0;
  for (const Collective collective : kCollectives) {
    const bool moves_data = collective != Collective::kBarrier;
    const bool is_pair = collective == Collective::kSendRecv;
    const std::size_t dtypes = moves_data ? 5 : 1;
    const std::size_t ops = is_reduction(collective) ? 3 : 1;
    const std::size_t placements = moves_data && !is_pair ? 3 : 1;
    const std::size_t counts = moves_data ? 6 : 1;
    // Roots of 1, 2, 3, 4, 5 and 8 ranks.
    const std::size_t shapes = is_rooted(collective) ? 1 + 2 + 3 + 2 + 2 + 2 : is_pair ? 5 : 6;
    product += algorithms(collective).size() * shapes * dtypes * ops * placements * counts * 2;
  }
  EXPECT_EQ(all_cases().size(), product);
}

class HostConformance : public testing::TestWithParam<int> {};

TEST_P(HostConformance, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  const int ranks = GetParam();
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(fmt::format("SENNIT_TEST_SEED={}", seed));
  RecordProperty("seed", std::to_string(seed));
  const std::vector<Case> cases = in_random_order(all_cases(), seed);
  const auto of_these = [&](const Case& c) { return c.ranks == ranks; };
  const auto refused = [&](const Case& c) { return of_these(c) && c.direct && !carries_direct(c); };
  const auto run_count = static_cast<std::size_t>(std::ranges::count_if(cases, of_these));
  const auto refused_count = static_cast<std::size_t>(std::ranges::count_if(cases, refused));
  for (const Tally& tally : run_ranks(cases, ranks)) {
    EXPECT_EQ(tally.defect, "");
    EXPECT_EQ(tally.refused, refused_count);
    EXPECT_EQ(tally.right, run_count - refused_count);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostConformance, testing::ValuesIn(kRankCounts));

TEST(HostConformanceCases, WhatIsAskedToBeDirectIsCarriedDirectly) {
  std::vector<Case> cases;
  std::set<const Algorithm*> seen;
  for (const Case& c : all_cases()) {
    if (c.ranks == 4 && c.direct && carries_direct(c) && c.count > 0 &&
        seen.insert(c.algorithm).second) {
      cases.push_back(c);
    }
  }
  ASSERT_EQ(cases.size(), 20U);
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      sennit_comm_t comm = nullptr;
      ASSERT_EQ(sennit_comm_init_rank(&comm, 4, &id, rank, nullptr), SENNIT_OK);
      for (const Case& c : cases) {
        Tally tally;
        EXPECT_EQ(run_case(c, rank, comm, tally), "");
        EXPECT_TRUE(was_carried_directly(comm)) << describe(c);
      }
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

}  // namespace
}  // namespace sennit
