// What a MessageEngine asks of the driver is what the emitter says.
#include "exec/stream/message_operations.hpp"

#include "base/testing/trials.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/message_engine.hpp"
#include "exec/stream/testing/message_traffic.hpp"
#include "exec/stream/testing/recorded_calls.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sennit::stream {
namespace {

constexpr host::RingShape kRing{.slots = 3, .slot_bytes = 4096};

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// Nothing is read or written there: what captures runs nothing.
std::byte* nowhere(Memory memory, std::size_t index) {
  const std::uintptr_t number = static_cast<std::uintptr_t>(memory) * kMaxMessages + index + 1;
  return reinterpret_cast<std::byte*>(number << 32U);
}
constexpr std::int64_t kApart = std::int64_t{1} << 32;

class Recorder {
 public:
  Recorder(int rank, int ranks) : rank_(rank), ranks_(ranks) {
    for (int peer = 0; peer < ranks; ++peer) {
      words_.push_back(&memory_[static_cast<std::size_t>(peer)]);
    }
    engine_ = std::make_unique<MessageEngine>(cuda_, words_, rank);
    EXPECT_TRUE(engine_->open().ok());
    EXPECT_TRUE(engine_->use_slots(kRing).ok());
    stream_ = take(cuda_.create_stream());
  }

  // The emitted list and the recorded one, both in normal form.
  std::pair<OperationList, OperationList> lists(PostedGroup posted) {
    std::vector<SeenMemory> memories;
    for (std::size_t i = 0; i < posted.messages.size(); ++i) {
      Message& message = posted.messages[i];
      message.input = nowhere(Memory::kInput, i);
      message.output = nowhere(Memory::kOutput, i);
      message.ring = nowhere(Memory::kRing, i);
      for (const Memory memory : {Memory::kInput, Memory::kOutput, Memory::kRing}) {
        memories.push_back({memory, static_cast<int>(i), nowhere(memory, i), kApart});
      }
      if (message.watch != nullptr) {
        watches_.push_back(std::make_unique<Stopwatch>(cuda_));
        EXPECT_TRUE(watches_.back()->open().ok());
        message.watch = watches_.back().get();
      }
    }
    const MessageGroup group = posted.group(rank_, ranks_, kRing);
    RecordedCalls recorded(stream_, words_, memories, nullptr);
    cuda_.watch([&](const FakeCuda::Issued& issued) { recorded.add(issued); });
    cuda_.begin_capture(stream_);
    const auto launch = [&]() -> Status {
      recorded.add_kernels();
      return {};
    };
    EXPECT_TRUE(engine_
                    ->run({.messages = posted.messages,
                           .partners = posted.partners,
                           .launch = group.has_kernels ? std::function<Status()>(launch) : nullptr,
                           .stream = stream_})
                    .ok());
    EXPECT_TRUE(cuda_.end_capture(stream_).ok()) << "a stream was not led back";
    OperationList emitted;
    append_group(group, emitted);
    return {in_normal_form(with_events_of_watches(emitted)), in_normal_form(recorded.list())};
  }

 private:
  // Times are events that nobody waits for.
  static OperationList with_events_of_watches(OperationList list) {
    int next = 1000;  // as no other event has
    for (Operation& operation : list.operations) {
      if (std::holds_alternative<ReadTime>(operation.what)) {
        operation.what = RecordEvent{next++};
      }
    }
    return list;
  }

  int rank_;
  int ranks_;
  FakeCuda cuda_{FakeCuda::Options{.one_queue = true}};
  std::unique_ptr<RankWords[]> memory_ = std::make_unique<RankWords[]>(kMaxRanks);
  std::vector<RankWords*> words_;
  std::unique_ptr<MessageEngine> engine_;
  std::vector<std::unique_ptr<Stopwatch>> watches_;
  void* stream_ = nullptr;
};

TEST(MessageOperations, AreWhatTheDriverIsAskedFor) {
  std::mt19937 random(5);
  int groups = 0;
  for (int ranks = 2; ranks <= 5; ++ranks) {
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (int rank = 0; rank < ranks; ++rank) {
      recorders.push_back(std::make_unique<Recorder>(rank, ranks));
    }
    for (int i = 0; i < trials(60, 10); ++i) {
      MessageTraffic traffic(ranks, kRing);
      for (int round = 0; round < 2; ++round) {
        const int count = 4 + static_cast<int>(random() % 30);
        traffic.post(random_sendings(random, ranks, count), random_cuts(random, ranks, count));
        traffic.post(random_exchange(random, ranks), no_cuts(ranks));
      }
      for (int rank = 0; rank < ranks; ++rank) {
        for (const PostedGroup& posted : traffic.groups(rank)) {
          if (posted.messages.empty()) {
            continue;
          }
          const auto [emitted, recorded] = recorders[static_cast<std::size_t>(rank)]->lists(posted);
          ASSERT_TRUE(emitted == recorded)
              << "program " << i << " of " << ranks << ", rank " << rank << ". Emitted:\n"
              << print(emitted) << "Recorded:\n"
              << print(recorded);
          ++groups;
        }
      }
    }
  }
  EXPECT_GT(groups, 200);
}

}  // namespace
}  // namespace sennit::stream
