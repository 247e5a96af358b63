// Operation: a call as the user makes it, what can be said of its buffers by this rank alone, and
// the words by which ranks recognise that they make the same call.
#pragma once

#include "base/status.hpp"
#include "comm/status_line.hpp"
#include "select/select.hpp"
#include "types/reduce.hpp"
#include "types/types.hpp"

#include <cstdint>

namespace sennit {

// A call as the user makes it.
struct Operation {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::int64_t count = 0;
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  Scaling scaling{};
  int root = 0;
  int peer = -1;  // of a send or recv
  bool is_send = false;
  Wishes wishes;
  double deadline_s = 0;  // 0: the communicator's; negative: none
};

// Whether rank's buffers are in place as sennit.h defines it for the collective.
bool is_in_place(const Operation& operation, int rank, int ranks);

// Bytes that `rank` reads.
std::int64_t input_bytes(const Operation& operation, int rank, int ranks);

// NULL where memory is needed, and overlaps that are not in place, are kInvalidArgument.
Status check_buffers(const Operation& operation, int rank, int ranks);

// Both ends of a send_recv come to the same words.
CallWords words_of(const Operation& operation, std::uint64_t plan_hash);

// 32 bits for the full words of the call's messages: equal words, equal fingerprint.
std::uint32_t fingerprint_of(const CallWords& words);

}  // namespace sennit
