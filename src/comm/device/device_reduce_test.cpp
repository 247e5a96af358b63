// Reductions to one rank in two hops, of ranks with fake GPUs that reach each other's memory: all
// but the root sum a slice, and store nothing.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::byte kUntouched{0xee};

class ReducingGpus : public FakeGpus {
 protected:
  ReducingGpus() {
    options_.deadline_s = 20;
    options_.blocks = 3;  // so that large calls take several rounds of several steps
  }

  struct Case {
    std::int64_t count = 1000;
    int root = 0;
    bool in_place = false;
    std::string protocol{};
    std::string algorithm = "scatter_gather";
  };

  // Every rank has an output; it is the root's alone that the call may write. Off multiples of 16
  // bytes.
  static Operation prepare(const Rank& rank, const Case& c) {
    const auto bytes = static_cast<std::size_t>(c.count);
    Operation op;
    op.collective = Collective::kReduce;
    op.op = ReduceOp::kSum;
    op.dtype = Dtype::kUint8;
    op.root = c.root;
    op.count = c.count;
    op.request.protocol = c.protocol;
    op.request.algorithm = c.algorithm;
    auto* const recv = rank.allocate(c.count + 1) + 1;
    std::fill_n(recv, bytes, kUntouched);
    const bool is_in_place = c.in_place && rank.rank == c.root;
    auto* const send = is_in_place ? recv : rank.allocate(c.count + 1) + 1;
    std::ranges::copy(contents(rank.rank, c.count, c.root), send);
    op.send = send;
    op.recv = recv;
    return op;
  }

  static Bytes expected(const Rank& rank, const Operation& op) {
    Bytes bytes(static_cast<std::size_t>(op.count));
    if (rank.rank != op.root) {
      std::ranges::fill(bytes, kUntouched);
      return bytes;
    }
    for (int source = 0; source < kRanks; ++source) {
      std::ranges::transform(
          bytes, contents(source, op.count, op.root), bytes.begin(), [](std::byte a, std::byte b) {
            return static_cast<std::byte>(std::to_integer<int>(a) + std::to_integer<int>(b));
          });
    }
    return bytes;
  }

  static void call_all(const Rank& rank, const std::vector<Operation>& calls) {
    for (const Operation& op : calls) {
      const Status status = rank.call(op);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    rank.finish();
    for (const Operation& op : calls) {
      EXPECT_TRUE(holds(static_cast<const std::byte*>(op.recv), expected(rank, op)))
          << op.count << " bytes to " << op.root << " by " << op.request.protocol << " on rank "
          << rank.rank;
    }
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
  }
};

constexpr std::array kProtocols = {"ll", "ll128", "slots"};

// Ranks that share a process load no kernel while another may wait for one of theirs.
TEST_F(ReducingGpus, ThatShareAProcessLoadAllKernelsAtCreation) {
  cuda_options_.process = 1;
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  shared_cuda_->run_kernels(fake_direct_kernel);
  run([this](Rank& rank) {
    const Operation op = prepare(rank, {.protocol = "ll128"});
    meet();
    const int at_creation = rank.cuda->calls("preload");
    meet();
    call_all(rank, {op, op});
    EXPECT_EQ(rank.cuda->calls("preload"), at_creation);
  });
}

// One byte is one slice alone; 200 bytes are two of 128 at most.
TEST_F(ReducingGpus, BringTheSumToEveryRootAndNothingToOthers) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const std::int64_t count : {1, 200, 5003, 300'001}) {
      for (int root = 0; root < kRanks; ++root) {
        std::vector<Operation> calls;
        for (const char* const protocol : kProtocols) {
          for (const bool in_place : {false, true}) {
            calls.push_back(prepare(
                rank, {.count = count, .root = root, .in_place = in_place, .protocol = protocol}));
          }
        }
        call_all(rank, calls);
      }
    }
  });
}

// Slots are not written again before they are read: whoever is late, and whoever the root was.
TEST_F(ReducingGpus, WaitForWhoeverIsLate) {
  for (const std::string protocol : kProtocols) {
    run([&](Rank& rank) {
      rank.cuda->run_kernels(fake_direct_kernel);
      std::vector<Operation> calls;
      for (int i = 0; i < 4 * kRanks; ++i) {
        calls.push_back(prepare(rank,
                                {.count = i % 3 == 0 ? 200 : 40'001,
                                 .root = (i + i / kRanks) % kRanks,
                                 .protocol = protocol,
                                 .algorithm = i % 4 == 1 ? "direct" : "scatter_gather"}));
      }
      for (int late = 0; late < kRanks; ++late) {
        if (rank.rank == late) {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
        const std::vector<Operation> some(
            calls.begin() + static_cast<std::ptrdiff_t>(4) * late,
            calls.begin() + static_cast<std::ptrdiff_t>(4) * (late + 1));
        call_all(rank, some);
        meet();
      }
    });
  }
}

// By themselves, as the model has it.
TEST_F(ReducingGpus, TakeTwoHopsFromTheSizeOnAtWhichTheyPay) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    std::vector<Operation> calls;
    for (const std::int64_t count : {1000, 170'001, 180'001, 700'001}) {
      calls.push_back(prepare(rank, {.count = count, .root = 3, .algorithm = ""}));
    }
    call_all(rank, calls);
  });
}

// The sums of slices are stored nowhere, so there is nothing for copy engines to put.
TEST_F(ReducingGpus, RefuseCopyEnginesForItOnAllRanks) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    const Status status = rank.call(prepare(rank, {.count = 1 << 20, .protocol = "copy_engines"}));
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
    meet();
    call_all(rank, {prepare(rank, {.count = 1000, .protocol = "slots"})});
  });
}

}  // namespace
}  // namespace sennit::tests
