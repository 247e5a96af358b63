#include "exec/stream/operation_writer.hpp"

#include "exec/stream/operation_line.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace sennit::stream {
namespace {

TEST(Flag, IsTheWordOfItsName) {
  const auto memory = std::make_unique<RankWords[]>(3);
  const std::vector<RankWords*> words = {&memory[0], &memory[1], &memory[2]};
  RankWords& two = memory[2];
  EXPECT_EQ(address_of(ready_flag(2, 5, 1, 2), words), &two.ready[5][1][2]);
  EXPECT_EQ(address_of(done_flag(2, 5, 1), words), &two.done[5][1]);
  EXPECT_EQ(address_of(filled_flag(2, 5, 7), words), &two.filled[5][7]);
  EXPECT_EQ(address_of(emptied_flag(2, 5, 7), words), &two.emptied[5][7]);
  EXPECT_EQ(address_of(running_flag(2), words), &two.running);
  EXPECT_EQ(address_of(ended_flag(2), words), &two.ended);
  EXPECT_EQ(address_of(message_ready_flag(2, 5, 63, 1), words), &two.message_ready[5][63][1]);
  EXPECT_EQ(address_of(message_done_flag(2, 5, 63, 1), words), &two.message_done[5][63][1]);
  EXPECT_EQ(address_of(message_admitted_flag(2, 5, 63, 1), words), &two.message_admitted[5][63][1]);
  EXPECT_EQ(address_of(message_arrived_flag(2, 5, 63, 1), words), &two.message_arrived[5][63][1]);
  EXPECT_EQ(address_of(message_filled_flag(2, 5, 7), words), &two.message_filled[5][7]);
  EXPECT_EQ(address_of(message_emptied_flag(2, 5, 7), words), &two.message_emptied[5][7]);
  EXPECT_EQ(name(ready_flag(2, 5, 1, 2)), "ready[5][1][2] of rank 2");
  EXPECT_EQ(name(running_flag(1)), "running of rank 1");
  EXPECT_TRUE(is_for_hosts(ended_flag(0)));
  EXPECT_FALSE(is_for_hosts(done_flag(0, 0, 0)));
}

TEST(OperationWriter, ForksStreamsWhenTheyAreUsedAndLeadsThemBack) {
  OperationList list;
  OperationWriter writer(list);
  writer.fork();
  writer.fill(kUsersStream, done_flag(1, 0, 0));
  writer.consume(2, ready_flag(0, 1, 0, 0));
  writer.order(2, 1);
  writer.put(1,
             CopyBytes{.to = {Memory::kOutput, 1, 8}, .from = {Memory::kInput, 0, 0}, .bytes = 4});
  writer.join();
  EXPECT_EQ(print(list),
            "stream 0: record event 0\n"
            "stream 0: store done[0][0] of rank 1 = 1\n"
            "stream 2: wait for event 0\n"
            "stream 2: wait for ready[1][0][0] of rank 0 = 1\n"
            "stream 2: store ready[1][0][0] of rank 0 = 0\n"
            "stream 1: wait for event 0\n"
            "stream 2: record event 5\n"
            "stream 1: wait for event 5\n"
            "stream 1: copy 4 bytes from input[0] + 0 to output[1] + 8\n"
            "stream 1: record event 4\n"
            "stream 0: wait for event 4\n"
            "stream 2: record event 5\n"
            "stream 0: wait for event 5\n");
}

TEST(OperationWriter, NeedsNoEventWhereNothingIsForked) {
  OperationList list;
  OperationWriter writer(list);
  writer.put(kUsersStream, LaunchKernels{});
  writer.fork();
  writer.fill(kUsersStream, done_flag(1, 0, 0));
  writer.join();
  EXPECT_EQ(print(list),
            "stream 0: launch the caller's kernels\n"
            "stream 0: store done[0][0] of rank 1 = 1\n");
}

TEST(OperationLine, HasAsManyStreamsAsItGets) {
  OperationList list;
  OperationWriter writer(list);
  for (int streams = 1; streams <= OperationLine::kMostStreams; ++streams) {
    const OperationLine line(writer, 4, streams);
    EXPECT_EQ(std::set({line.waits(), line.copies(), line.signals()}).size(), streams);
    EXPECT_EQ(line.waits(), 4);
    EXPECT_EQ(line.signals(), 3 + streams);
  }
}

}  // namespace
}  // namespace sennit::stream
