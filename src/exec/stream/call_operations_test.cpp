// What a StreamEngine asks of the driver is what the emitter says, for every program of every
// algorithm that copy engines run.
#include "exec/stream/call_operations.hpp"

#include "base/testing/trials.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/stream_engine.hpp"
#include "exec/stream/testing/recorded_calls.hpp"
#include "exec/stream/testing/stream_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sennit::stream {
namespace {

constexpr host::RingShape kRing{.slots = 3, .slot_bytes = 4096};
constexpr std::int64_t kStagingBytes = std::int64_t{1} << 20;
constexpr std::int64_t kElementBytes = 4;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// Nothing is read or written there: what captures runs nothing.
std::byte* nowhere(Memory memory, int index) {
  const auto number =
      static_cast<std::uintptr_t>(memory) * kMaxRanks + static_cast<std::uintptr_t>(index) + 1;
  return reinterpret_cast<std::byte*>(number << 40U);
}
constexpr std::int64_t kApart = std::int64_t{1} << 40;

// Stand for the addresses of kernels.
constexpr char kReduction = 0;
constexpr char kCopy = 0;

struct Setting {
  std::int64_t count = 1;
  bool is_in_place = false;
  bool has_copy_kernel = false;
  std::uint64_t number = 0;
};

// One rank's engine, whose calls are captured and recorded.
class Recorder {
 public:
  Recorder() {
    for (int rank = 0; rank < kMaxRanks; ++rank) {
      words_.push_back(&memory_[static_cast<std::size_t>(rank)]);
    }
    engine_ = take(StreamEngine::create(cuda_, words_, kStagingBytes));
    EXPECT_TRUE(engine_->reserve_staging(kStagingBytes).ok());
    host::Rings rings{.shape = kRing, .bases = {}};
    for (int rank = 0; rank < kMaxRanks; ++rank) {
      rings.bases.push_back(nowhere(Memory::kRing, rank));
    }
    EXPECT_TRUE(engine_->use_rings(std::move(rings)).ok());
    stream_ = take(cuda_.create_stream());
  }

  // The emitted list and the recorded one, both in normal form.
  std::pair<OperationList, OperationList> lists(const StreamCase& c,
                                                int rank,
                                                const Setting& setting) {
    const StreamCall call = call_of(c, rank, setting);
    RecordedCalls recorded(stream_, words_, memories(rank), &kCopy);
    cuda_.watch([&](const FakeCuda::Issued& issued) { recorded.add(issued); });
    cuda_.begin_capture(stream_);
    const PlanProgram& program = c.programs[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(engine_->run(program, call, stream_).ok());
    EXPECT_TRUE(cuda_.end_capture(stream_).ok()) << "a stream was not led back";
    OperationList emitted;
    if (const StreamProgram* const alone = program.alone()) {
      const std::int64_t rounds = rounds_of(*alone, call.extent(), kStagingBytes, kRing);
      for (std::int64_t i = 0; i < rounds; ++i) {
        append_round(*alone, call, {.index = i, .count = rounds}, emitted);
      }
    } else {
      append_call(program, call, kRing, emitted);
    }
    return {in_normal_form(as_seen(emitted, rank, recorded)), in_normal_form(recorded.list())};
  }

  // In place, an output and an input are one memory.
  StreamCall call_of(const StreamCase& c, int rank, const Setting& setting) {
    Problem whole = c.plan.problem();
    whole.cut = 1;
    input_ = nowhere(Memory::kInput, rank);
    output_ = nowhere(Memory::kOutput, rank);
    const std::int64_t block_bytes = setting.count * kElementBytes;
    for (int b = 0; b < whole.output_blocks(rank) && setting.is_in_place; ++b) {
      if (const auto alias = whole.aliased_input(rank, b)) {
        output_ = input_ + (*alias - b) * block_bytes;
        break;
      }
    }
    peers_.clear();
    for (int peer = 0; peer < c.ranks(); ++peer) {
      Buffers& buffers = peers_.emplace_back(Buffers{.input = nowhere(Memory::kInput, peer),
                                                     .output = nowhere(Memory::kOutput, peer),
                                                     .staging = nowhere(Memory::kStaging, peer)});
      std::memcpy(buffers.scalar.data(), &peer, sizeof(peer));
    }
    return {.input = input_,
            .output = output_,
            .peers = peers_,
            .count = setting.count,
            .element_bytes = kElementBytes,
            .part_bytes = 4096,
            .reduction = &kReduction,
            .copy = setting.has_copy_kernel ? &kCopy : nullptr,
            .number = setting.number,
            .deadline_ms = 7};
  }

 private:
  [[nodiscard]] std::vector<SeenMemory> memories(int rank) const {
    std::vector<SeenMemory> memories = {
        {Memory::kStaging, rank, engine_->staging().memory(), kStagingBytes},
        {Memory::kInput, rank, input_ - kApart / 2, kApart}};
    for (const Memory memory : {Memory::kInput, Memory::kOutput, Memory::kStaging, Memory::kRing}) {
      for (int peer = 0; peer < kMaxRanks; ++peer) {
        memories.push_back({memory, peer, nowhere(memory, peer), kApart});
      }
    }
    return memories;
  }

  // Its places as the recorder sees their addresses.
  OperationList as_seen(OperationList list, int rank, const RecordedCalls& recorder) const {
    const auto see = [&](Place& place) {
      const std::byte* base = nowhere(place.memory, place.index);
      if (place.index == rank) {
        base = place.memory == Memory::kInput     ? input_
               : place.memory == Memory::kOutput  ? output_
               : place.memory == Memory::kStaging ? engine_->staging().memory()
                                                  : base;
      }
      place = recorder.place_of(base + place.at);
    };
    for (Operation& operation : list.operations) {
      if (auto* const copy = std::get_if<CopyBytes>(&operation.what)) {
        see(copy->from);
        see(copy->to);
      } else if (auto* const reduce = std::get_if<ReduceBytes>(&operation.what)) {
        see(reduce->to);
      }
    }
    for (ReduceOperand& operand : list.operands) {
      see(operand.place);
    }
    return list;
  }

  FakeCuda cuda_{FakeCuda::Options{.one_queue = true}};
  std::unique_ptr<RankWords[]> memory_ = std::make_unique<RankWords[]>(kMaxRanks);
  std::vector<RankWords*> words_;
  std::unique_ptr<StreamEngine> engine_;
  void* stream_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<Buffers> peers_;
};

TEST(CallOperations, AreWhatTheDriverIsAskedFor) {
  constexpr std::array kSettings = {
      Setting{.count = 1},
      Setting{.count = 1003, .has_copy_kernel = true, .number = 5},
      Setting{.count = 1024, .is_in_place = true, .has_copy_kernel = true},
      Setting{.count = 40'001, .number = 6},
      Setting{.count = 600'000, .is_in_place = true}};  // some rounds of reductions
  Recorder recorder;
  int cases = 0;
  for (int ranks = 1; ranks <= trials(8, 4); ++ranks) {
    for (const StreamCase& c : stream_cases(ranks, kRing, 2)) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const Setting& setting : kSettings) {
          if (c.has_slots() && setting.count > 100'000) {
            continue;
          }
          const auto [emitted, recorded] = recorder.lists(c, rank, setting);
          ASSERT_TRUE(emitted == recorded)
              << c.name << ", rank " << rank << ", " << setting.count << " elements. Emitted:\n"
              << print(emitted) << "Recorded:\n"
              << print(recorded);
          ++cases;
        }
      }
    }
  }
  EXPECT_GT(cases, 100);
}

// The values that a list stores in the word of the running call, in order.
std::vector<std::uint64_t> running_words(const OperationList& list) {
  std::vector<std::uint64_t> values;
  for (const Operation& operation : list.operations) {
    const auto* const store = std::get_if<StoreFlag>(&operation.what);
    if (store != nullptr && store->flag == running_flag(0)) {
      values.push_back(store->value);
    }
  }
  return values;
}

// A call that is late is found by how long its word stands: each round has only its part of that.
TEST(CallOperations, HaveOneDeadlineForAllRounds) {
  int programs = 0;
  for (const StreamCase& c : stream_cases(4, kRing, 2)) {
    const StreamProgram* const alone = c.programs[0].alone();
    if (alone == nullptr || !is_reduction(alone->problem.collective)) {
      continue;
    }
    Recorder recorder;
    std::vector<std::uint64_t> words;
    for (int round = 0; round < 3; ++round) {
      OperationList list;
      append_round(*alone,
                   recorder.call_of(c, 0, {.count = 3000, .number = 5}),
                   {.index = round, .count = 3},
                   list);
      std::ranges::copy(running_words(list), std::back_inserter(words));
    }
    EXPECT_EQ(words, (std::vector{running_word(0, 7), kIdle})) << c.name;
    ++programs;
  }
  EXPECT_GT(programs, 0);
}

}  // namespace
}  // namespace sennit::stream
