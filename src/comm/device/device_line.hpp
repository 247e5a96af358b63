// DeviceLine: what a rank with a GPU says of itself in shared memory. Its calls, so that others can
// see when theirs differ, and, for calls that copy engines run, where its buffers lie.
//
// Written by its owner alone. A zeroed line is a valid beginning.
#pragma once

#include "comm/status_line.hpp"
#include "drivers/cuda/cuda.hpp"
#include "exec/stream/words.hpp"
#include "types/reduce.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit {

// A buffer that others are to read.
struct BufferOffer {
  enum class State : std::uint32_t {
    kUnused,       // nobody reads it in this call
    kUnreachable,  // others cannot reach its memory
    kNew,          // in an allocation that some may not have mapped yet
    kKnown,        // in one that all have mapped
  };

  State state = State::kUnused;
  std::uint64_t id = 0;       // of the allocation, on its rank
  std::uint64_t offset = 0;   // in the allocation
  std::byte* base = nullptr;  // for ranks of the same process
  CudaIpcHandle handle{};     // for the others
};

// One rank's part in agreeing about one call (comm/device/agreement.hpp). Plain fields are written
// before the number that announces them.
struct AgreementLine {
  static constexpr std::size_t kMaxRetired = 8;

  std::atomic<std::uint64_t> offered{0};  // number of the agreement, from 1
  std::atomic<std::uint64_t> judged{0};   // twice that number, plus 1 for yes
  bool takes_part = false;                // this rank could run the call with copy engines
  BufferOffer input;
  BufferOffer output;
  decltype(Scaling::scalar) scalar{};  // what premul_sum multiplies this rank's input by
  std::array<std::uint64_t, kMaxRetired> retired{};  // allocations that are no more; 0: none
};

struct alignas(4096) DeviceLine {
  // More than a rank can be ahead of the others: the driver's queues hold about as many launches.
  static constexpr std::size_t kKept = 1024;

  std::atomic<std::uint64_t> entered{0};  // number of the last collective on this GPU, from 1
  std::array<StatusLine::Words, kKept> calls;
  std::array<AgreementLine, 2> agreements;  // agreement a in agreements[a mod 2]

  void enter(std::uint64_t call, const CallWords& words) {
    calls[call % kKept].put(words);
    entered.store(call, std::memory_order_release);
  }

  // True, and the words, when the call was made and not too long ago.
  bool read(std::uint64_t call, CallWords& words) const {
    const auto is_there = [&] {
      const std::uint64_t last = entered.load(std::memory_order_acquire);
      return last >= call && last < call + kKept - 1;
    };
    if (!is_there()) {
      return false;
    }
    words = calls[call % kKept].get();
    return is_there();
  }
};

}  // namespace sennit
