// RecordedCalls, for tests: the calls of a driver as an OperationList. Addresses are translated
// back to flags and places, so that what a player did is compared with the list that it was given.
#pragma once

#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/operation_list.hpp"
#include "exec/stream/reduction.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace sennit::stream {

// Where memory of a rank, or of a message, is seen.
struct SeenMemory {
  Memory memory = Memory::kInput;
  int index = 0;
  const std::byte* base = nullptr;
  std::int64_t bytes = 0;
};

class RecordedCalls {
 public:
  // `copy_kernel`: copies a block that stays; any other kernel reduces.
  RecordedCalls(void* users_stream,
                std::span<RankWords* const> words,
                std::vector<SeenMemory> memories,
                const void* copy_kernel);

  void add(const FakeCuda::Issued& issued);
  // Those of the caller, in the user's stream.
  void add_kernels() { list_.operations.push_back({kUsersStream, LaunchKernels{}}); }
  [[nodiscard]] const OperationList& list() const { return list_; }
  [[nodiscard]] Place place_of(const void* address) const;

 private:
  [[nodiscard]] Flag flag_of(const std::uint64_t* word) const;
  int number_of(std::map<const void*, int>& numbers, const void* handle);
  void add_launch(int stream, const FakeCuda::Issued& issued);

  std::span<RankWords* const> words_;
  std::vector<SeenMemory> memories_;
  const void* copy_kernel_;
  std::map<const void*, int> streams_;
  std::map<const void*, int> events_;
  OperationList list_;
};

// The same list with streams and events numbered by their first use, and without records that
// nothing awaits, so that lists of different origin can be compared: each recording of an event has
// a number of its own, recordings of one stream with nothing between them are one, and waits for
// events stand right before what they hold up.
OperationList in_normal_form(const OperationList& list);

}  // namespace sennit::stream
