// Operation: a call as the user makes it, what can be said of its buffers by this rank alone, and
// the words by which ranks recognise that they make the same call.
#pragma once

#include "base/status.hpp"
#include "select/select.hpp"
#include "types/reduce.hpp"
#include "types/types.hpp"
#include "world/rms_norm.hpp"
#include "world/status_line.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

// In place of the peer of a recv: whoever sends first.
inline constexpr int kAnyRank = -2;

// A call as the user makes it.
struct Operation {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::int64_t count = 0;  // where lengths vary: elements in the larger of the two buffers
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  Scaling scaling{};
  const void* scalar_on_device = nullptr;  // read when a kernel runs, in place of that of `scaling`
  int root = 0;
  int peer = -1;  // of a send or recv
  bool is_send = false;
  bool varying = false;  // the v-form: each block of this rank has a place and a length of its own
  std::vector<ElementRange> inputs{};
  std::vector<ElementRange> outputs{};
  CallRequest request;
  double deadline_s = 0;  // 0: the communicator's; negative: none
  std::int32_t tag = 0;   // of a send or recv
  // avg: contributions in the sum, where earlier calls have added some; 0: as many as ranks.
  int averaged_over = 0;
  std::optional<RmsNorm> rms_norm{};  // of an all_reduce of GPU ranks: what becomes of its sum
  // What other ranks compare with their calls in place of this one: it moves bytes of that call.
  std::optional<CallWords> stands_for{};

  // Of `count` elements.
  [[nodiscard]] std::int64_t bytes() const {
    return count * static_cast<std::int64_t>(size_bytes(dtype));
  }
};

// "all_reduce", "all_to_all_v", "send"
std::string name_of(const Operation& operation);

// Whether rank's buffers are in place as sennit.h defines it for the collective.
bool is_in_place(const Operation& operation, int rank, int ranks);

// What all ranks know of the size of a call, in bytes: lengths that vary only where every rank has
// all of them, so that they choose the same.
std::int64_t known_bytes(const Operation& operation);

// The blocks that `rank` reads, at their places behind `send`; gaps between them are not copied.
std::unique_ptr<std::byte[]> copy_of_input(const Operation& operation, int rank, int ranks);

// Counts that are out of range, contradict each other or make output blocks overlap are
// kInvalidArgument.
Status check_lengths(const Operation& operation, int rank, int ranks);

// The buffers of `rank` in an operation whose lengths do not vary.
struct BufferNeeds {
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  std::optional<std::int64_t> in_place_offset{};  // in place, send lies so many bytes behind recv
};
BufferNeeds buffer_needs(const Operation& operation, int rank, int ranks);

// Whether `rank` reads anything behind `send`, and writes anything behind `recv`.
struct BufferUse {
  bool send = false;
  bool recv = false;
};
BufferUse buffer_use(const Operation& operation, int rank, int ranks);

// An operator that the type does not have, a root or peer that is no rank, a count beyond what can
// be addressed, lengths as above, NULL where memory is needed, and overlaps that are not in place
// are kInvalidArgument.
Status check_arguments(const Operation& operation, int rank, int ranks);

// Where lengths vary: elements that `rank` sends to `peer`, and those that it expects from there.
std::int64_t sent_to(const Operation& operation, int rank, int peer);
std::int64_t expected_from(const Operation& operation, int rank, int peer);

// Both ends of a send_recv come to the same words.
CallWords words_of(const Operation& operation,
                   std::uint64_t plan_hash,
                   std::optional<Codec> codec = {});

// 32 bits for the full words of the call's messages: equal words, equal fingerprint.
std::uint32_t fingerprint_of(const CallWords& words);

}  // namespace sennit
