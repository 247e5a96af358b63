// For tests: what the kernel of put_call.hpp does, on the host and one block after the other.
#pragma once

#include "exec/sm/fake_wait.hpp"
#include "exec/sm/put_call.hpp"

#include <atomic>
#include <cstring>

namespace sennit::sm {

class FakePut {
 public:
  explicit FakePut(const PutCall& call) : call_(call) {}

  void run() {
    for (block_ = 0; block_ < call_.blocks && wait_.is_alive(); ++block_) {
      if (call_.calls[block_] == kGivenUp) {
        return;
      }
      number_ = call_.calls[block_] + 1;
      tell(PutWord::kReady, others(), meeting());
      await(PutWord::kReady, others(), [&](std::uint64_t word) { return word == meeting(); });
      std::int64_t done = 0;
      for (std::int64_t chunk = block_; chunk < call_.chunks && wait_.is_alive();
           chunk += call_.blocks) {
        run_chunk(chunk, ++done);
      }
      if (!wait_.is_alive()) {
        call_.calls[block_] = kGivenUp;
        return;
      }
      tell(PutWord::kDone, others(), meeting());
      await(PutWord::kDone, others(), [&](std::uint64_t word) { return word == meeting(); });
      call_.calls[block_] = wait_.is_alive() ? number_ : kGivenUp;
    }
  }

 private:
  static bool has(std::uint32_t set, int rank) { return ((set >> rank) & 1U) != 0; }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  std::uint32_t others() const { return ((1U << call_.ranks) - 1) & ~(1U << call_.rank); }
  std::uint64_t meeting() const { return meeting_word(call_, number_); }

  std::uint64_t& word(int owner, PutWord kind, int source) const {
    return call_.words[at(owner)][put_word_at(call_, kind, source, block_)];
  }
  void tell(PutWord kind, std::uint32_t ranks, std::uint64_t value) const {
    for (int rank = 0; rank < call_.ranks; ++rank) {
      if (has(ranks, rank)) {
        std::atomic_ref(word(rank, kind, call_.rank)).store(value, std::memory_order_release);
      }
    }
  }
  template <typename Predicate>
  void await(PutWord kind, std::uint32_t ranks, Predicate is_there) {
    for (int rank = 0; rank < call_.ranks; ++rank) {
      if (has(ranks, rank)) {
        wait_.await(word(call_.rank, kind, rank), is_there);
      }
    }
  }

  // The parts of a range that belong to a chunk.
  template <typename Visit>
  static void visit(const void* range, std::int64_t bytes, std::int64_t chunk, Visit visit) {
    const auto shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(range) % 16);
    for (std::int64_t unit = chunk * kChunkUnits; unit < (chunk + 1) * kChunkUnits; ++unit) {
      const UnitPart part = unit_part(unit, shift, bytes);
      if (part.length > 0) {
        visit(part);
      }
    }
  }
  static void copy(const std::byte* from, std::byte* to, UnitPart part) {
    std::memcpy(to + part.at, from + part.at, static_cast<std::size_t>(part.length));
  }

  void run_chunk(std::int64_t chunk, std::int64_t done) {
    const Transfer& any = call_.puts[at((call_.rank + 1) % call_.ranks)];
    for (const Transfer& put : call_.puts) {
      const std::byte* const from = call_.same_for_all ? any.from : put.from;
      visit(from, put.bytes, chunk, [&](UnitPart part) { copy(from, put.to, part); });
    }
    if (chunk < call_.passed_chunks) {
      tell(PutWord::kPassed, call_.passed_on_by, progress_word(number_, done));
    }
    if (call_.passed_by >= 0) {
      await(PutWord::kPassed, 1U << call_.passed_by, [&](std::uint64_t word) {
        return word >= progress_word(number_, done);
      });
      if (!wait_.is_alive()) {
        return;
      }
      visit(call_.arrived, call_.arrived_bytes, chunk, [&](UnitPart part) {
        for (int rank = 0; rank < call_.ranks; ++rank) {
          if (has(call_.passes_to, rank)) {
            copy(call_.arrived, call_.pass_to[at(rank)], part);
          }
        }
      });
    }
  }

  const PutCall call_;
  FakeWait wait_{call_.board, call_.deadline_ns};
  int block_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sennit::sm
