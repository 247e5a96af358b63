#include "exec/stream/testing/recorded_calls.hpp"

#include "exec/stream/copies.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <utility>

namespace sennit::stream {

RecordedCalls::RecordedCalls(void* users_stream,
                             std::span<RankWords* const> words,
                             std::vector<SeenMemory> memories,
                             const void* copy_kernel)
    : words_(words), memories_(std::move(memories)), copy_kernel_(copy_kernel) {
  streams_[users_stream] = kUsersStream;
}

int RecordedCalls::number_of(std::map<const void*, int>& numbers, const void* handle) {
  return numbers.emplace(handle, static_cast<int>(numbers.size())).first->second;
}

Place RecordedCalls::place_of(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const SeenMemory& seen : memories_) {
    if (seen.base != nullptr && at >= seen.base && at < seen.base + seen.bytes) {
      return {.memory = seen.memory, .index = seen.index, .at = at - seen.base};
    }
  }
  ADD_FAILURE() << "an address of no memory";
  return {};
}

Flag RecordedCalls::flag_of(const std::uint64_t* word) const {
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    const auto* const first = reinterpret_cast<const std::uint64_t*>(words_[rank]);
    const auto* const end = reinterpret_cast<const std::uint64_t*>(words_[rank] + 1);
    if (word >= first && word < end) {
      return {.owner = static_cast<int>(rank), .place = static_cast<std::uint32_t>(word - first)};
    }
  }
  ADD_FAILURE() << "a word of no rank";
  return {};
}

void RecordedCalls::add_launch(int stream, const FakeCuda::Issued& issued) {
  if (issued.kernel == copy_kernel_) {
    const auto& copies = *static_cast<const CopiesCall*>(issued.parameters);
    for (std::int32_t i = 0; i < copies.count; ++i) {
      const CopiesCall::Copy& copy = copies.copies[static_cast<std::size_t>(i)];
      list_.operations.push_back({stream,
                                  CopyBytes{.to = place_of(copy.to),
                                            .from = place_of(copy.from),
                                            .bytes = copy.bytes,
                                            .is_by_kernel = true}});
    }
    return;
  }
  const auto& call = *static_cast<const ReductionCall*>(issued.parameters);
  list_.operations.push_back({stream,
                              ReduceBytes{.to = place_of(call.outputs[0]),
                                          .bytes = call.bytes,
                                          .first = static_cast<int>(list_.operands.size()),
                                          .count = call.operand_count,
                                          .copies = call.output_count - 1}});
  for (int i = 0; i < call.operand_count; ++i) {
    const ReductionCall::Operand& operand = call.operands[static_cast<std::size_t>(i)];
    int rank = 0;  // which is what its scalar holds
    std::memcpy(&rank, operand.scalar.data(), sizeof(rank));
    list_.operands.push_back({.place = place_of(operand.data), .rank = rank});
  }
}

void RecordedCalls::add(const FakeCuda::Issued& issued) {
  using What = FakeCuda::Issued::What;
  const int stream = number_of(streams_, issued.stream);
  switch (issued.what) {
    case What::kLaunch:
      add_launch(stream, issued);
      return;
    case What::kCopy:
      list_.operations.push_back({stream,
                                  CopyBytes{.to = place_of(issued.to),
                                            .from = place_of(issued.from),
                                            .bytes = static_cast<std::int64_t>(issued.bytes)}});
      return;
    case What::kRecord:
      list_.operations.push_back({stream, RecordEvent{number_of(events_, issued.event)}});
      return;
    case What::kWaitFor:
      list_.operations.push_back({stream, AwaitEvent{number_of(events_, issued.event)}});
      return;
    case What::kWalk:
      for (const WordStep& step : issued.steps) {
        const Flag flag = flag_of(step.word);
        if (step.kind == WordStep::Kind::kAwait) {
          list_.operations.push_back({stream, AwaitFlag{flag, step.value}});
        } else {
          list_.operations.push_back({stream, StoreFlag{flag, step.value}});
        }
      }
      return;
  }
}

namespace {

// The same with an event of its own for each recording.
OperationList with_single_events(OperationList list) {
  std::map<int, int> last;  // recording, by event
  int recordings = 0;
  for (Operation& operation : list.operations) {
    if (auto* const record = std::get_if<RecordEvent>(&operation.what)) {
      last[record->event] = recordings;
      record->event = recordings++;
    } else if (auto* const wait = std::get_if<AwaitEvent>(&operation.what)) {
      wait->event = last.at(wait->event);
    }
  }
  return list;
}

// The same with waits for events right before what follows them in their stream.
OperationList with_late_waits(const OperationList& list) {
  OperationList result{.operations = {}, .operands = list.operands};
  std::map<int, std::vector<Operation>> waiting;  // by stream
  for (const Operation& operation : list.operations) {
    std::vector<Operation>& waits = waiting[operation.stream];
    if (std::holds_alternative<AwaitEvent>(operation.what)) {
      waits.push_back(operation);
      continue;
    }
    result.operations.insert(result.operations.end(), waits.begin(), waits.end());
    waits.clear();
    result.operations.push_back(operation);
  }
  for (const auto& [stream, waits] : waiting) {
    result.operations.insert(result.operations.end(), waits.begin(), waits.end());
  }
  return result;
}

}  // namespace

OperationList in_normal_form(const OperationList& original) {
  const OperationList list = with_late_waits(with_single_events(original));
  std::map<int, int> streams{{kUsersStream, kUsersStream}};
  std::map<int, std::size_t> recorded;           // where each event was last recorded
  std::map<std::size_t, std::size_t> record_of;  // of a wait
  std::map<int, std::size_t> last_of;            // operation of each stream
  std::map<std::size_t, std::size_t> same_as;    // recordings
  for (std::size_t i = 0; i < list.operations.size(); ++i) {
    const Operation& operation = list.operations[i];
    if (const auto* const record = std::get_if<RecordEvent>(&operation.what)) {
      recorded[record->event] = i;
      if (const auto last = last_of.find(operation.stream);
          last != last_of.end() &&
          std::holds_alternative<RecordEvent>(list.operations[last->second].what)) {
        same_as[i] = same_as.contains(last->second) ? same_as[last->second] : last->second;
      }
    } else if (const auto* const wait = std::get_if<AwaitEvent>(&operation.what)) {
      const std::size_t at = recorded.at(wait->event);
      record_of[i] = same_as.contains(at) ? same_as[at] : at;
    }
    last_of[operation.stream] = i;
  }
  std::set<std::size_t> awaited;
  for (const auto& [wait, record] : record_of) {
    awaited.insert(record);
  }
  OperationList result{.operations = {}, .operands = list.operands};
  std::map<std::size_t, int> numbers;  // of recordings
  for (std::size_t i = 0; i < list.operations.size(); ++i) {
    Operation operation = list.operations[i];
    if (auto* const record = std::get_if<RecordEvent>(&operation.what)) {
      if (!awaited.contains(i)) {
        continue;
      }
      record->event = static_cast<int>(numbers.size());
      numbers[i] = record->event;
    } else if (auto* const wait = std::get_if<AwaitEvent>(&operation.what)) {
      wait->event = numbers.at(record_of.at(i));
    }
    operation.stream =
        streams.emplace(operation.stream, static_cast<int>(streams.size())).first->second;
    result.operations.push_back(operation);
  }
  return result;
}

}  // namespace sennit::stream
