// What GPU ranks refuse.
#include "comm/device/testing/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

TEST_F(FakeGpus, BuffersOnAnotherDeviceAreRefusedByName) {
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.cuda->use_device((rank.rank + 1) % kRanks).ok());
    rank.send = rank.allocate(1000);
    const Status status = rank.call(all_gather(rank, 1000));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(
        status.message().find(fmt::format("lies on device {}, but this rank works on device {}",
                                          (rank.rank + 1) % kRanks,
                                          rank.rank)),
        std::string::npos)
        << status.message();
    Bytes ordinary(1000);
    rank.send = ordinary.data();
    EXPECT_EQ(rank.call(all_gather(rank, 1000)).code(), Code::kInvalidArgument);
  });
}

TEST_F(FakeGpus, ArgumentsAreRefusedBeforeAnythingOfTheirGroupIsMade) {
  run([&](Rank& rank) {
    fill(rank);
    const auto refused = [&](const Operation& operation, const std::string& why) {
      const int before = rank.launches();
      const std::vector<DeviceComm::Call> calls = {{all_gather(rank), rank.stream},
                                                   {operation, rank.stream}};
      const Status status = rank.comm->enqueue(calls);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_EQ(status.message(), why);
      EXPECT_EQ(rank.launches(), before);
    };
    for (const int peer : {-1, kRanks, 1000}) {
      Operation send;
      send.collective = Collective::kSendRecv;
      send.is_send = true;
      send.send = rank.send;
      send.count = 10;
      send.peer = peer;
      refused(send, fmt::format("peer {} is not a rank; the ranks are 0 to 3", peer));
    }
    for (const int root : {-1, kRanks}) {
      Operation broadcast;
      broadcast.collective = Collective::kBroadcast;
      broadcast.send = rank.send;
      broadcast.recv = rank.recv;
      broadcast.count = 10;
      broadcast.root = root;
      refused(broadcast, fmt::format("root {} is not a rank; the ranks are 0 to 3", root));
    }
    // Of a rank that has no input the output alone is looked at, in place as well.
    std::array<std::byte, 16> pageable{};
    Operation in_place;
    in_place.collective = Collective::kBroadcast;
    in_place.send = pageable.data();
    in_place.recv = pageable.data();
    in_place.count = 16;
    in_place.root = (rank.rank + 1) % kRanks;
    refused(in_place,
            "broadcast: the recv buffer is ordinary host memory, which a GPU cannot reach; use "
            "device or pinned memory");
    Operation large = all_gather(rank);
    large.dtype = Dtype::kFloat64;
    large.count = INT64_MAX / 16;
    refused(large, fmt::format("a count of {} is out of range", large.count));
    Operation nowhere = all_gather(rank);
    nowhere.recv = nullptr;
    refused(nowhere, "the recv buffer of all_gather is NULL");
    meet();
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

// The others may have gone, and their memory with them.
TEST_F(FakeGpus, CallsAfterFinalizeAreRefused) {
  run([&](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    EXPECT_TRUE(rank.comm->finalize().ok());
    meet();
    const Status status = rank.call(all_gather(rank));
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_TRUE(status.message().ends_with("' after finalize")) << status.message();
    EXPECT_TRUE(rank.comm->finalize().ok()) << "a second time";
  });
}

}  // namespace
}  // namespace sennit::tests
