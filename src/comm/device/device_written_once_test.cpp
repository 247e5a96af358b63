// What is written once for all readers, through memory of the host, is not written again before all
// have read it: whoever reads next.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace sennit::tests {
namespace {

// In one hop, and in two, of which the second is written once.
constexpr std::array kCounts = {std::int64_t{1000}, std::int64_t{50'001}};

class WrittenOnce : public FakeGpus {
 protected:
  WrittenOnce() {
    options_.nvlink = false;
    comm_config_.device = "cuda";
    comm_config_.paths = "host";
  }

  static Operation reduce_to(const Rank& rank,
                             std::int64_t count,
                             int root,
                             const std::string& protocol) {
    Operation op;
    op.collective = Collective::kReduce;
    op.op = ReduceOp::kSum;
    op.dtype = Dtype::kUint8;
    op.root = root;
    op.count = count;
    op.request.protocol = protocol;
    op.send = rank.allocate(count);
    op.recv = rank.allocate(count);
    const Bytes mine = contents(rank.rank, count, root);
    std::ranges::copy(mine, static_cast<std::byte*>(const_cast<void*>(op.send)));
    return op;
  }

  static Bytes sum_for(const Operation& op) {
    Bytes sum(static_cast<std::size_t>(op.count));
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ranges::transform(
          sum, contents(rank, op.count, op.root), sum.begin(), [](std::byte a, std::byte b) {
            return static_cast<std::byte>(std::to_integer<int>(a) + std::to_integer<int>(b));
          });
    }
    return sum;
  }
};

// Rank 0 sends to another one each time; the first of them comes late.
TEST_F(WrittenOnce, ReachesReadersThatAreOthersInEachCall) {
  constexpr std::array kRoots = {2, 3, 1};
  for (const std::string protocol : {"ll", "slots"}) {
    run([&](Rank& rank) {
      rank.cuda->run_kernels(fake_direct_kernel);
      std::vector<Operation> calls;
      for (const std::int64_t count : kCounts) {
        for (const int root : kRoots) {
          calls.push_back(reduce_to(rank, count, root, protocol));
        }
      }
      meet();
      if (rank.rank == kRoots.front()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
      }
      for (const Operation& op : calls) {
        ASSERT_TRUE(rank.call(op).ok());
      }
      rank.finish();
      for (const Operation& op : calls) {
        if (op.root == rank.rank) {
          EXPECT_TRUE(holds(static_cast<std::byte*>(op.recv), sum_for(op)))
              << protocol << ", " << op.count << " bytes to " << op.root;
        }
      }
      EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
      meet();
    });
  }
}

}  // namespace
}  // namespace sennit::tests
