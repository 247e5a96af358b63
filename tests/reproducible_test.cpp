// `reproducible`: the bits of a reduction depend on nothing but the inputs.
#include "algo/algorithm.hpp"
#include "sennit/sennit.h"
#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sennit {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::int64_t kElements = 3001;
constexpr std::array kDtypes = {
    Dtype::kFloat32, Dtype::kFloat64, Dtype::kBfloat16, Dtype::kFloat16};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg};

// Random bits are floats of all exponents, NaN now and then, so that any other order of a sum gives
// other bits somewhere.
Bytes wild_input(Dtype dtype, int rank) {
  Bytes bytes(static_cast<std::size_t>(kElements) * size_bytes(dtype));
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

std::vector<Bytes> wild_inputs(Dtype dtype, int ranks) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(wild_input(dtype, rank));
  }
  return inputs;
}

// One reduction of all inputs in the order of ranks.
Bytes in_rank_order(Dtype dtype, ReduceOp op, const std::vector<Bytes>& inputs) {
  std::vector<Operand> operands;
  for (const Bytes& input : inputs) {
    operands.push_back({.data = input.data()});
  }
  Bytes out(inputs.front().size());
  reduce(dtype,
         op,
         {.scalar = {}, .ranks = static_cast<int>(inputs.size())},
         {.out = out.data(),
          .operands = operands,
          .elements = kElements,
          .is_finished = finishes_sum(op)});
  return out;
}

void on_ranks(int ranks,
              const sennit_config_t& config,
              const std::function<void(int, sennit_comm_t)>& work) {
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      sennit_comm_t comm = nullptr;
      ASSERT_EQ(sennit_comm_init_rank(&comm, ranks, &id, rank, &config), SENNIT_OK);
      work(rank, comm);
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

struct Reduction {
  Collective collective;
  Dtype dtype;
  ReduceOp op;
  std::int64_t count;
};

// The first `count` elements; reduce_scatter makes blocks of them, count a multiple of the ranks.
sennit_status_t call(const Reduction& r,
                     const Bytes& input,
                     Bytes& out,
                     sennit_comm_t comm,
                     const sennit_call_options_t& options) {
  const auto count = static_cast<std::size_t>(r.count);
  const auto dtype = static_cast<sennit_dtype_t>(r.dtype);
  const auto op = static_cast<sennit_redop_t>(r.op);
  if (r.collective == Collective::kReduce) {
    return sennit_reduce(input.data(), out.data(), count, dtype, op, 0, comm, nullptr, &options);
  }
  if (r.collective == Collective::kAllReduce) {
    return sennit_all_reduce(input.data(), out.data(), count, dtype, op, comm, nullptr, &options);
  }
  int size = 0;
  sennit_comm_size(comm, &size);
  const std::size_t part = count / static_cast<std::size_t>(size);
  return sennit_reduce_scatter(input.data(), out.data(), part, dtype, op, comm, nullptr, &options);
}

// Where the output of `rank` stands in the reduced vector, in elements.
std::pair<std::int64_t, std::int64_t> part_of(const Reduction& r, int rank, int ranks) {
  if (r.collective == Collective::kReduceScatter) {
    return {rank * (r.count / ranks), r.count / ranks};
  }
  return {0, r.collective == Collective::kReduce && rank != 0 ? 0 : r.count};
}

struct Attempt {
  Reduction reduction;
  std::string algorithm;  // empty: the library's choice
  std::string protocol;
  std::int64_t tile_bytes;
};

// 1 when the algorithm was admitted and gave the bits of the canonical order, 0 when it was
// refused.
int run_one(
    const Attempt& attempt, int rank, int ranks, sennit_comm_t comm, const Bytes& canonical) {
  const Bytes input = wild_input(attempt.reduction.dtype, rank);
  Bytes out(input.size());
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.algorithm = attempt.algorithm.empty() ? nullptr : attempt.algorithm.c_str();
  options.protocol = attempt.protocol.empty() ? nullptr : attempt.protocol.c_str();
  options.tile_bytes = attempt.tile_bytes;
  options.reproducible = 1;
  const sennit_status_t status = call(attempt.reduction, input, out, comm, options);
  if (status == SENNIT_UNSUPPORTED && !attempt.algorithm.empty()) {
    EXPECT_NE(std::string(sennit_last_error_message()).find(attempt.algorithm), std::string::npos);
    return 0;
  }
  EXPECT_EQ(status, SENNIT_OK) << sennit_last_error_message();
  const auto [begin, length] = part_of(attempt.reduction, rank, ranks);
  const std::size_t element = size_bytes(attempt.reduction.dtype);
  EXPECT_EQ(std::memcmp(out.data(),
                        canonical.data() + static_cast<std::size_t>(begin) * element,
                        static_cast<std::size_t>(length) * element),
            0)
      << name(attempt.reduction.collective) << " " << attempt.algorithm << " of "
      << attempt.reduction.count << " " << name(attempt.reduction.dtype) << ", "
      << name(attempt.reduction.op) << ", tiles of " << attempt.tile_bytes;
  return 1;
}

std::vector<Attempt> runs_of(Collective collective, Dtype dtype, ReduceOp op, int ranks) {
  std::vector<std::string> names = {""};
  for (const Algorithm& algorithm : algorithms(collective)) {
    names.emplace_back(algorithm.name);
  }
  std::vector<Attempt> runs;
  for (const std::string& algorithm : names) {
    for (const std::int64_t count :
         {std::int64_t{ranks}, std::int64_t{ranks} * 11, kElements / ranks * ranks}) {
      for (const std::int64_t tile_bytes : {0, 64, 4096}) {
        runs.push_back({{collective, dtype, op, count}, algorithm, "", tile_bytes});
      }
    }
  }
  return runs;
}

class Reproducible : public testing::TestWithParam<int> {};

TEST_P(Reproducible, EveryAdmittedAlgorithmSizeAndTileGivesTheBitsOfRankOrder) {
  const int ranks = GetParam();
  std::vector<int> admitted(static_cast<std::size_t>(ranks), 0);
  std::vector<int> refused(admitted);
  const sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  on_ranks(ranks, config, [&](int rank, sennit_comm_t comm) {
    for (const Dtype dtype : kDtypes) {
      const std::vector<Bytes> inputs = wild_inputs(dtype, ranks);
      for (const ReduceOp op : kOps) {
        const Bytes canonical = in_rank_order(dtype, op, inputs);
        for (const Collective collective :
             {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
          for (const Attempt& attempt : runs_of(collective, dtype, op, ranks)) {
            const int was_admitted = run_one(attempt, rank, ranks, comm, canonical);
            (was_admitted == 1 ? admitted : refused)[static_cast<std::size_t>(rank)] += 1;
          }
        }
      }
    }
  });
  for (std::size_t rank = 0; rank < admitted.size(); ++rank) {
    EXPECT_EQ(admitted[rank], admitted[0]);
    EXPECT_EQ(refused[rank], refused[0]);
  }
  EXPECT_GT(admitted[0], 0);
  // With more than two ranks a ring reduces each block in another order.
  EXPECT_EQ(refused[0] > 0, ranks > 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Reproducible, testing::Values(2, 3, 5, 8));

TEST(ReproducibleComm, RefusesByNameWhatSumsInAnotherOrder) {
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.reproducible = 1;
  on_ranks(3, config, [](int /*rank*/, sennit_comm_t comm) {
    std::array<float, 4> x{};
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.algorithm = "ring";
    EXPECT_EQ(
        sennit_all_reduce(
            x.data(), x.data(), x.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options),
        SENNIT_UNSUPPORTED);
    EXPECT_EQ(std::string(sennit_last_error_message()),
              "all_reduce ring on 3 ranks does not reduce all contributions in one step in the "
              "order of ranks, which `reproducible` needs");
    EXPECT_EQ(sennit_all_reduce(
                  x.data(), x.data(), x.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr),
              SENNIT_OK);
    // Data that only moves has no order.
    EXPECT_EQ(
        sennit_broadcast(x.data(), x.data(), x.size(), SENNIT_FLOAT32, 0, comm, nullptr, nullptr),
        SENNIT_OK);
  });
}

}  // namespace
}  // namespace sennit
