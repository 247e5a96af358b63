// All_reduces that normalise rows, of ranks with fake GPUs: in the kernel of the call where that
// can, else by a kernel behind it.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_norming_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace sennit::tests {
namespace {

class NormalisingGpus : public FakeGpus {
 protected:
  static constexpr int kBlocks = 3;

  NormalisingGpus() { options_.blocks = kBlocks; }

  static std::function<void()> run_kernel(const void* kernel, const void* parameters) {
    if (std::function<void()> norming = fake_norming_kernel(kernel, parameters, kBlocks)) {
      return norming;
    }
    return fake_direct_kernel(kernel, parameters);
  }

  // The buffers of a call, and what it finds in them.
  struct Rows {
    std::int64_t bytes = 0;
    std::int64_t row_bytes = 0;
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::byte* residual = nullptr;
    std::byte* weight = nullptr;

    [[nodiscard]] Operation call() const {
      Operation op;
      op.collective = Collective::kAllReduce;
      op.op = ReduceOp::kSum;
      op.dtype = Dtype::kBfloat16;
      op.send = send;
      op.recv = recv;
      op.count = bytes / 2;
      op.rms_norm = RmsNorm{
          .row_elements = row_bytes / 2, .epsilon = 1, .residual = residual, .weight = weight};
      return op;
    }
  };

  static Rows rows_of(const Rank& rank, std::int64_t rows, std::int64_t row_bytes, bool in_place) {
    Rows made{.bytes = rows * row_bytes, .row_bytes = row_bytes};
    made.send = rank.allocate(made.bytes);
    made.recv = in_place ? made.send : rank.allocate(made.bytes);
    made.residual = rank.allocate(made.bytes);
    made.weight = rank.allocate(row_bytes);
    refill(made, rank.rank);
    return made;
  }
  static void refill(const Rows& rows, int rank) {
    std::ranges::copy(contents(rank, rows.bytes), rows.send);
    std::ranges::copy(contents(11, rows.bytes), rows.residual);
    std::ranges::copy(contents(12, rows.row_bytes), rows.weight);
  }

  static void check(const Rows& rows) {
    Bytes sums = sums_of(rows);
    Bytes residual = contents(11, rows.bytes);
    const Bytes weight = contents(12, rows.row_bytes);
    const RowNormCall norm{.rows = sums.data(),
                           .residual = residual.data(),
                           .weight = weight.data(),
                           .row_bytes = rows.row_bytes};
    for (std::int64_t row = 0; row < rows.bytes / rows.row_bytes; ++row) {
      fake_row_norm(norm, row);
    }
    EXPECT_TRUE(holds(rows.recv, sums));
    EXPECT_TRUE(holds(rows.residual, residual));
  }

  static Bytes sums_of(const Rows& rows) {
    Bytes sums(static_cast<std::size_t>(rows.bytes));
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ranges::transform(sums, contents(rank, rows.bytes), sums.begin(), sum_of);
    }
    return sums;
  }

  // The same call without norms, of buffers that are filled anew.
  static void check_plain_call(Rank& rank, const Rows& rows) {
    refill(rows, rank.rank);
    Operation op = rows.call();
    op.rms_norm.reset();
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    EXPECT_TRUE(holds(rows.recv, sums_of(rows)));
  }

  // So many kernels run the call, each time that it is made.
  static void expect_kernels(const Rank& rank, const Rows& rows, const Operation& op, int kernels) {
    for (int i = 0; i < 3; ++i) {
      const int before = rank.launches();
      const Status status = rank.call(op);
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
      check(rows);
      EXPECT_EQ(rank.launches() - before, kernels);
      refill(rows, rank.rank);
    }
  }
};

// Of one packet, of several rounds a row with a last one that not all warps have, and of more rows
// than thread blocks.
TEST_F(NormalisingGpus, DoSoInTheKernelOfASmallCall) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(run_kernel);
    for (const bool in_place : {false, true}) {
      for (const auto& [rows, row_bytes] : {std::pair(1, 16),
                                            std::pair(1, 512),
                                            std::pair(2, 8192),
                                            std::pair(7, 1040),
                                            std::pair(4, 8192 + 528),
                                            std::pair(1, 20'000)}) {
        const Rows made = rows_of(rank, rows, row_bytes, in_place);
        Operation op = made.call();
        op.request.algorithm = "one_shot";
        op.request.protocol = "ll";
        expect_kernels(rank, made, op, 1);
      }
    }
  });
}

TEST_F(NormalisingGpus, ChooseThatForAFewRows) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(run_kernel);
    const Rows rows = rows_of(rank, 1, 8192, /*in_place=*/false);
    expect_kernels(rank, rows, rows.call(), 1);
  });
}

TEST_F(NormalisingGpus, HaveAKernelBehindOtherCalls) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(run_kernel);
    for (const bool in_place : {false, true}) {
      const Rows rows = rows_of(rank, 9, 1040, in_place);
      for (const auto& [algorithm, protocol] : {std::pair("one_shot", "ll128"),
                                                std::pair("two_shot", "ll"),
                                                std::pair("two_shot", "slots")}) {
        Operation op = rows.call();
        op.request.algorithm = algorithm;
        op.request.protocol = protocol;
        expect_kernels(rank, rows, op, 2);
      }
    }
  });
}

// Kernels do not run here: what they would do with places beyond 32 bits is not seen.
TEST_F(NormalisingGpus, HaveAKernelBehindACallOf2GB) {
  run([](Rank& rank) {
    const Rows rows = rows_of(rank, 1, 1024, /*in_place=*/true);
    Operation op = rows.call();
    op.recv = rows.send;
    op.rms_norm->residual = nullptr;  // these would lie within the buffer of so many elements
    op.rms_norm->weight = nullptr;
    op.request.algorithm = "one_shot";
    op.request.protocol = "ll";
    for (const auto& [count, kernels] :
         {std::pair((std::int64_t{1} << 30) - 512, 1), std::pair(std::int64_t{1} << 30, 2)}) {
      op.count = count;
      const int before = rank.launches();
      const Status status = rank.call(op);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(rank.launches() - before, kernels);
    }
  });
}

// Whatever kernels a call has, the next one finds the rounds of its blocks as all ranks have them.
TEST_F(NormalisingGpus, MixTheirCallsWithOthers) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(run_kernel);
    for (int i = 0; i < 20; ++i) {
      const std::int64_t row_bytes = std::int64_t{16} * (1 + i * 97 % 1300);
      const Rows rows = rows_of(rank, 1 + i % 5, row_bytes, i % 2 == 0);
      ASSERT_TRUE(rank.call(rows.call()).ok());
      rank.finish();
      check(rows);
      check_plain_call(rank, rows);
    }
  });
}

TEST_F(NormalisingGpus, CanBeCaptured) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(run_kernel);
    const Rows rows = rows_of(rank, 4, 1024, /*in_place=*/false);
    ASSERT_TRUE(rank.call(rows.call()).ok());
    rank.finish();
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(rows.call()).ok());
    const auto graph = take(rank.cuda->end_capture(rank.stream));
    for (int i = 0; i < 3; ++i) {
      refill(rows, rank.rank);
      meet();
      graph.launch(rank.stream);
      rank.finish();
      check(rows);
    }
  });
}

class RefusedNorms : public NormalisingGpus {
 protected:
  static void expect_refusal(const Rank& rank,
                             const Rows& rows,
                             const std::function<void(Operation&)>& change,
                             const std::string& words) {
    Operation op = rows.call();
    change(op);
    const Status status = rank.call(op);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
};

TEST_F(RefusedNorms, SayWhatIsWrong) {
  run([](Rank& rank) {
    const Rows rows = rows_of(rank, 2, 1024, /*in_place=*/false);
    const auto expect = [&](const std::function<void(Operation&)>& change, const char* words) {
      expect_refusal(rank, rows, change, words);
    };
    expect([](Operation& op) { op.dtype = Dtype::kFloat32; }, "takes bfloat16 and float16");
    expect([](Operation& op) { op.op = ReduceOp::kMax; }, "all_reduce by max with rms_norm");
    expect([](Operation& op) { op.collective = Collective::kReduceScatter; },
           "reduce_scatter by sum with rms_norm");
    expect([](Operation& op) { op.rms_norm->row_elements = 12; }, "a multiple of 8 elements");
    expect([](Operation& op) { op.rms_norm->row_elements = 0; }, "rows of 0 elements");
    expect([](Operation& op) { op.rms_norm->row_elements = 96; }, "no whole number of rows of 96");
    expect([](Operation& op) { op.rms_norm->epsilon = -1; }, "epsilon is -1");
    expect([](Operation& op) { op.rms_norm->residual = op.recv; }, "recv and residual overlap");
    expect([](Operation& op) { op.rms_norm->residual = static_cast<std::byte*>(op.recv) + 1024; },
           "recv and residual overlap");
    expect([](Operation& op) { op.rms_norm->quantized = op.rms_norm->residual; },
           "residual and quantized overlap");
    expect([](Operation& op) { op.rms_norm->weight = op.recv; }, "recv and weight overlap");
    expect(
        [](Operation& op) {
          op.rms_norm->weight = static_cast<const std::byte*>(op.rms_norm->weight) + 2;
        },
        "does not begin on a boundary of 16 bytes");
    const std::array<float, 2> scale = {1, 1};
    expect([&](Operation& op) { op.rms_norm->scale = scale.data(); },
           "no buffer for quantized values");
    std::byte* const quantized = rank.allocate(2048);
    const auto expect_of_scale = [&](const void* place, const char* words) {
      expect(
          [&](Operation& op) {
            op.rms_norm->quantized = quantized;
            op.rms_norm->scale = static_cast<const float*>(place);
          },
          words);
    };
    expect_of_scale(scale.data(), "the scale buffer is ordinary host memory");
    expect_of_scale(quantized + 1020, "quantized and scale overlap");
    expect_of_scale(quantized + 1, "boundary of 4 bytes");
  });
}

TEST_F(RefusedNorms, OfRowsThatDifferAreNamed) {
  run([](Rank& rank) {
    const Rows rows = rows_of(rank, 4, 1024, /*in_place=*/false);
    Operation op = rows.call();
    if (rank.rank == 2) {
      op.rms_norm->row_elements = 1024;
    }
    (void)rank.call(op);
    const Status failure = failure_of(rank);
    EXPECT_EQ(failure.code(), Code::kMismatch);
    EXPECT_NE(failure.message().find("with rms_norm of rows of 1024"), std::string::npos)
        << failure.message();
    EXPECT_EQ(failure.detail().blamed_ranks, std::vector{2});
  });
}

}  // namespace
}  // namespace sennit::tests
