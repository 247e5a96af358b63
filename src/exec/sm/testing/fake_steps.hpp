// For tests: what the kernel of step_call.hpp does, on the host and one block after the other.
#pragma once

#include "exec/sm/step_call.hpp"
#include "exec/sm/testing/fake_wait.hpp"
#include "types/reduce.hpp"

#include <atomic>
#include <cstring>
#include <vector>

namespace sennit::sm {

// What the arithmetic needs, which kernels are compiled for.
struct Arithmetic {
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
};

class FakeSteps {
 public:
  FakeSteps(const StepCall& call, Arithmetic arithmetic) : call_(call), arithmetic_(arithmetic) {}

  void run() {
    for (block_ = 0; block_ < call_.blocks && wait_.is_alive(); ++block_) {
      number_ = call_.calls[block_] + 1;
      begin();
      for (turn_ = 0; tile() < call_.tiles && wait_.is_alive(); ++turn_) {
        for (int i = 0; i < program_.step_count && wait_.is_alive(); ++i) {
          run_step(program_.steps[at(i)]);
        }
      }
      if (wait_.is_alive()) {
        call_.calls[block_] = number_;
      }
    }
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static bool has(std::uint32_t set, int rank) { return ((set >> rank) & 1U) != 0; }
  [[nodiscard]] std::int64_t tile() const { return block_ + turn_ * call_.blocks; }
  static std::uint64_t& word(std::byte* staging, std::size_t index) {
    return reinterpret_cast<std::uint64_t*>(staging)[index];
  }
  static void signal(std::byte* staging, std::size_t index, std::uint64_t value) {
    std::atomic_ref(word(staging, index)).store(value, std::memory_order_release);
  }

  void begin() {
    const std::size_t index = staging_word_at(StagingWord::kBegun, block_);
    const std::uint64_t value = begun_word(number_, call_.fingerprint);
    for (int peer = 0; peer < program_.ranks; ++peer) {
      if (has(program_.hears_from, peer)) {
        signal(call_.outbox[at(peer)], index, value);
      }
    }
    for (int peer = 0; peer < program_.ranks; ++peer) {
      if (has(program_.sends_to, peer)) {
        wait_.await(word(call_.inbox[at(peer)], index),
                    [&](std::uint64_t found) { return found == value; });
      }
    }
  }

  [[nodiscard]] const Port& port(const CodedStep& step, int index) const {
    return program_.ports[at(step.first_port + index)];
  }

  void await_ports(const CodedStep& step) {
    for (int i = 0; i < step.ins + step.outs; ++i) {
      const Port& p = port(step, i);
      const bool arrives = i < step.ins;
      const std::int64_t needed = count_of(p, turn_) - (arrives ? 0 : program_.slots);
      if (needed > 0) {
        wait_.await(
            word(call_.inbox[at(p.peer)],
                 staging_word_at(
                     arrives ? StagingWord::kFull : StagingWord::kFreed, block_, p.channel)),
            [&](std::uint64_t found) { return found >= count_word(number_, needed); });
      }
    }
  }

  void tell_ports(const CodedStep& step) const {
    for (int i = 0; i < step.ins + step.outs; ++i) {
      const Port& p = port(step, i);
      const StagingWord kind = i < step.ins ? StagingWord::kFreed : StagingWord::kFull;
      signal(call_.outbox[at(p.peer)],
             staging_word_at(kind, block_, p.channel),
             count_word(number_, count_of(p, turn_)));
    }
  }

  [[nodiscard]] std::byte* address_of(const CodedStep& step, const Place& place, int part) const {
    const std::int64_t in_buffer = block_begin(call_, place.index) + tile() * call_.tile_bytes;
    switch (place.kind) {
      case PlaceKind::kInput:
        return const_cast<std::byte*>(call_.input) + in_buffer;
      case PlaceKind::kOutput:
        return call_.output + in_buffer;
      case PlaceKind::kScratch:
        return call_.scratch + block_ * call_.scratch_stride + place.index * call_.tile_bytes;
      case PlaceKind::kMessage:
        break;
    }
    const Port& p = port(step, place.index);
    std::byte* const staging =
        place.index < step.ins ? call_.inbox[at(p.peer)] : call_.outbox[at(p.peer)];
    return staging + slot_at(call_, p, block_, count_of(p, turn_)) + part * call_.tile_bytes;
  }

  void run_step(const CodedStep& step) {
    await_ports(step);
    for (int part = 0; part < step.parts && wait_.is_alive(); ++part) {
      const std::int64_t bytes =
          tile_length(call_, program_.blocks[at(step.first_part + part)], tile());
      if (bytes > 0) {
        run_part(step, part, bytes);
      }
    }
    if (wait_.is_alive()) {
      tell_ports(step);
    }
  }

  void run_part(const CodedStep& step, int part, std::int64_t bytes) {
    const Place* const places =
        &program_.places[at(step.first_place + part * (step.operands + step.targets))];
    std::vector<Operand> operands;
    for (int o = 0; o < step.operands; ++o) {
      operands.push_back({.data = address_of(step, places[o], part),
                          .is_scaled = step.pre && places[o].kind == PlaceKind::kInput});
    }
    std::vector<std::byte> result(static_cast<std::size_t>(bytes));
    if (operands.size() == 1 && !step.pre && !step.post) {
      std::memcpy(result.data(), operands.front().data, result.size());
    } else {
      reduce(arithmetic_.dtype,
             arithmetic_.op,
             {.scalar = call_.scalar, .ranks = program_.ranks},
             {.out = result.data(),
              .operands = operands,
              .elements = bytes / static_cast<std::int64_t>(size_bytes(arithmetic_.dtype)),
              .is_finished = step.post});
    }
    for (int t = 0; t < step.targets; ++t) {
      std::memcpy(address_of(step, places[step.operands + t], part), result.data(), result.size());
    }
  }

  const StepCall call_;
  FakeWait wait_{call_.error_word, call_.deadline_ns};
  const StepProgram& program_ = call_.program;
  Arithmetic arithmetic_;
  int block_ = 0;
  std::int64_t turn_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sennit::sm
