// OperationList: all that one rank's host puts into its streams for one call, as data, in the order
// in which the host issues it. Nothing in it knows a driver or an address: flags and memory are
// named by rank.
#pragma once

#include "exec/stream/flag.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace sennit::stream {

// Streams have numbers: this is the caller's, the others work in parallel.
inline constexpr int kUsersStream = 0;

enum class Memory : std::uint8_t { kInput, kOutput, kStaging, kRing };
inline constexpr std::size_t kMemories = 4;

// A place in the memory of a rank; of messages, in the memory of message `index` of the group.
struct Place {
  Memory memory = Memory::kInput;
  std::int32_t index = 0;
  std::int64_t at = 0;  // bytes

  bool operator==(const Place&) const = default;
};

// What follows in the stream begins when the flag has this value.
struct AwaitFlag {
  Flag flag;
  std::uint64_t value = kFull;

  bool operator==(const AwaitFlag&) const = default;
};

// After all that the stream did before is visible everywhere.
struct StoreFlag {
  Flag flag;
  std::uint64_t value = kFull;

  bool operator==(const StoreFlag&) const = default;
};

// Those by kernels that follow one another in a stream may run at once.
struct CopyBytes {
  Place to;
  Place from;
  std::int64_t bytes = 0;
  bool is_by_kernel = false;  // rather than by a copy engine: it stays on this device

  bool operator==(const CopyBytes&) const = default;
};

// A kernel combines `count` operands of the list, from `first` on, and stores the result; also
// where the `copies` operands behind them lie.
struct ReduceBytes {
  Place to;
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t copies = 0;

  bool operator==(const ReduceBytes&) const = default;
};

// The event stands for all that the stream holds now.
struct RecordEvent {
  std::int32_t event = 0;

  bool operator==(const RecordEvent&) const = default;
};

struct AwaitEvent {
  std::int32_t event = 0;

  bool operator==(const AwaitEvent&) const = default;
};

// The kernels of the caller (sends and recvs), which may wait for those of other ranks.
struct LaunchKernels {
  bool operator==(const LaunchKernels&) const = default;
};

// A stopwatch of the receiver of message `message` begins, or has its direct or its host strand
// end.
struct ReadTime {
  enum class What : std::uint8_t { kBegin, kDirectEnd, kHostEnd };
  std::int32_t message = 0;
  What what = What::kBegin;

  bool operator==(const ReadTime&) const = default;
};

struct Operation {
  using What = std::variant<AwaitFlag,
                            StoreFlag,
                            CopyBytes,
                            ReduceBytes,
                            RecordEvent,
                            AwaitEvent,
                            LaunchKernels,
                            ReadTime>;
  std::int32_t stream = kUsersStream;
  What what;

  bool operator==(const Operation&) const = default;
};

// Of a reduction: where it lies, and the rank whose scalar it is scaled with, or whose copy of the
// result it is.
struct ReduceOperand {
  Place place;
  std::int32_t rank = 0;

  bool operator==(const ReduceOperand&) const = default;
};

struct OperationList {
  std::vector<Operation> operations;
  std::vector<ReduceOperand> operands;  // of reductions

  // Keeps the memory for the next call.
  void clear() {
    operations.clear();
    operands.clear();
  }
  bool operator==(const OperationList&) const = default;
};

// One operation a line: "stream 0: wait for done[1][0] of rank 0".
std::string print(const Operation& operation);
std::string print(const OperationList& list);

}  // namespace sennit::stream
