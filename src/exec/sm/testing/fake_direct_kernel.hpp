// FakeDirectKernel, for tests without a GPU: what the kernels of the direct family do with a call
// in packets of any kind (exec/sm/direct_kernel.cuh), by one thread of the host.
// Reductions add bytes.
//
//   rank.cuda->run_kernels(fake_direct_kernel);   // and small calls
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/testing/fake_small_kernel.hpp"
#include "exec/sm/testing/fake_wait.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <vector>

namespace sennit::tests {

template <class Call>
class FakeDirectKernel {
 public:
  FakeDirectKernel(const Call& call, int block)
      : call_(call),
        block_(block),
        is_plain_(call.packets == sm::Packets::kPlain),
        has_flags_apart_(call.packets == sm::Packets::kSlots || is_plain_),
        payload_(sm::payload_bytes(call.packets)) {}

  void run() {
    sm::BlockState& state = call_.states[block_];
    if (state.round == sm::kGivenUp) {
      return;
    }
    std::uint32_t unheard = state.unheard;
    for (int i = 0; i < call_.rounds && wait_.is_alive(); ++i) {
      enter(state.round + 1 + static_cast<std::uint64_t>(i), i);
      if (!call_.all_heard || unheard != 0) {
        tell_started();
        await_free(unheard);
      }
      for_each_packet([&] { push(); });
      publish(0);
      for_each_packet([&] { call_.arrival == sm::Arrival::kReduce ? reduce() : arrive(0); });
      publish(1);
      for_each_packet([&] { arrive(1); });
      if (call_.arrival != sm::Arrival::kReduce) {
        for_each_packet([&] { copy_own(); });
      }
      unheard = call_.all_heard ? 0 : unheard_of();
    }
    state = {.round = wait_.is_alive() ? round_ : sm::kGivenUp, .unheard = unheard};
  }

 private:
  using Payload = std::vector<std::byte>;

  static bool has(std::uint32_t set, int rank) { return ((set >> rank) & 1U) != 0; }

  void enter(std::uint64_t round, int index) {
    round_ = round;
    first_packet_ =
        (std::int64_t{index} * call_.blocks + block_) * call_.warps * std::int64_t{call_.depth};
  }

  template <typename Function>
  void for_each_packet(Function function) {
    for (step_ = 0; step_ < call_.depth; ++step_) {
      for (warp_ = 0; warp_ < call_.warps && wait_.is_alive(); ++warp_) {
        at_ = (first_packet_ + std::int64_t{step_} * call_.warps + warp_) * payload_;
        function();
      }
    }
  }

  std::byte* packet(int owner, int source, int phase) const {
    const sm::FifoLayout& l = call_.layout;
    return call_.fifos[static_cast<std::size_t>(owner)] + l.area +
           static_cast<std::size_t>(round_ & 1) * l.generation +
           static_cast<std::size_t>(block_) * l.block +
           static_cast<std::size_t>(warp_) * sm::kPacketBytes +
           static_cast<std::size_t>(phase) * l.phase + static_cast<std::size_t>(source) * l.source +
           static_cast<std::size_t>(step_) * l.step;
  }
  std::atomic_ref<std::uint64_t> started(int owner, int source) const {
    std::byte* const line = call_.fifos[static_cast<std::size_t>(owner)] + call_.layout.started +
                            static_cast<std::size_t>(block_) * sm::kWordLineBytes;
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(line)[source]);
  }
  // 8 bytes are 4 of data and a flag, stored as one. Who has a flag of a round knows that the reads
  // of the round before are over: on a GPU since loads return before later stores leave, here by
  // release and acquire.
  [[nodiscard]] std::uint32_t flag(std::size_t word) const {
    const sm::LlFlags flags = sm::ll_flags(round_, call_.fingerprint);
    return word % 2 == 0 ? flags.even : flags.odd;
  }
  // Of all packets of a warp's or block's round, where they carry none.
  [[nodiscard]] std::uint64_t line_flag() const {
    return sm::round_flag(round_, call_.fingerprint);
  }
  // As Warp::is_written_once and Warp::word have it.
  [[nodiscard]] bool is_written_once(int phase) const {
    return is_plain_ && (phase == 1 || call_.pushes_once);
  }
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(int owner, int source, int phase) const {
    const sm::FifoLayout& l = call_.layout;
    std::byte* const line = call_.fifos[static_cast<std::size_t>(owner)] + l.words +
                            static_cast<std::size_t>(round_ & 1) * l.words_generation +
                            static_cast<std::size_t>(phase) * l.words_phase +
                            static_cast<std::size_t>(block_) * sm::kWordLineBytes;
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(line)[source]);
  }
  std::atomic_ref<std::uint64_t> flag_word(int owner, int source, int phase, int warp) const {
    if (is_plain_) {
      return word(owner, source, phase);  // one for all warps
    }
    const sm::FifoLayout& l = call_.layout;
    std::byte* const words = call_.fifos[static_cast<std::size_t>(owner)] + l.flags +
                             static_cast<std::size_t>(round_ & 1) * l.flags_generation +
                             static_cast<std::size_t>(phase) * l.flags_phase +
                             static_cast<std::size_t>(source) * l.flags_source;
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(words)[block_ * sm::kWarps + warp]);
  }
  void publish(int phase) const {
    for (int warp = 0; warp < call_.warps && has_flags_apart_ && wait_.is_alive(); ++warp) {
      for (int peer = 0; peer < call_.ranks; ++peer) {
        const std::int64_t length =
            phase == 0 ? call_.push[static_cast<std::size_t>(peer)].length : call_.own_to.length;
        if (has(phase == 0 ? call_.push_to : call_.forward_to, peer) &&
            first_packet_ * payload_ < length) {
          flag_word(peer, call_.rank, phase, warp).store(line_flag(), std::memory_order_release);
        }
      }
    }
  }
  // Lines of Ll128: data, and a flag that comes last.
  static constexpr std::size_t kLineBytes = 128;
  static constexpr std::size_t kLineData = 120;
  static constexpr std::size_t kLines = sm::kPacketBytes / kLineBytes;
  static std::atomic_ref<std::uint64_t> line_word(std::byte* packet, std::size_t line) {
    return std::atomic_ref(
        *reinterpret_cast<std::uint64_t*>(packet + line * kLineBytes + kLineData));
  }
  void store(std::byte* to, const Payload& payload) const {
    if (has_flags_apart_) {
      std::memcpy(to, payload.data(), payload.size());
      return;
    }
    if (call_.packets == sm::Packets::kLl128) {
      for (std::size_t line = 0; line < kLines; ++line) {
        std::memcpy(to + line * kLineBytes, payload.data() + line * kLineData, kLineData);
        line_word(to, line).store(line_flag(), std::memory_order_release);
      }
      return;
    }
    for (std::size_t word = 0; word < payload.size() / 4; ++word) {
      std::uint32_t data = 0;
      std::memcpy(&data, payload.data() + word * 4, 4);
      std::atomic_ref(reinterpret_cast<std::uint64_t*>(to)[word])
          .store(std::uint64_t{flag(word)} << 32 | data, std::memory_order_release);
    }
  }
  Payload await(int source, int phase) {
    std::byte* const from = packet(is_written_once(phase) ? source : call_.rank, source, phase);
    Payload payload(static_cast<std::size_t>(payload_));
    if (has_flags_apart_) {
      const auto word = flag_word(call_.rank, source, phase, warp_);
      wait_.await([&] { return word.load(std::memory_order_acquire) == line_flag(); });
      if (wait_.is_alive()) {
        std::memcpy(payload.data(), from, payload.size());
      }
      return payload;
    }
    if (call_.packets == sm::Packets::kLl128) {
      for (std::size_t line = 0; line < kLines; ++line) {
        wait_.await(
            [&] { return line_word(from, line).load(std::memory_order_acquire) == line_flag(); });
        if (wait_.is_alive()) {
          std::memcpy(payload.data() + line * kLineData, from + line * kLineBytes, kLineData);
        }
      }
      return payload;
    }
    for (std::size_t word = 0; word < payload.size() / 4; ++word) {
      const std::atomic_ref there(reinterpret_cast<std::uint64_t*>(from)[word]);
      std::uint64_t found = 0;
      wait_.await([&] {
        found = there.load(std::memory_order_acquire);
        return found >> 32 == flag(word);
      });
      const auto data = static_cast<std::uint32_t>(found);
      std::memcpy(payload.data() + word * 4, &data, 4);
    }
    return payload;
  }
  [[nodiscard]] std::size_t bytes(std::int64_t left) const {
    return static_cast<std::size_t>(std::min(left, payload_));
  }
  Payload read(sm::ByteRange range) const {
    Payload payload(static_cast<std::size_t>(payload_));
    std::memcpy(payload.data(), call_.input + range.begin + at_, bytes(range.length - at_));
    return payload;
  }
  void write(sm::ByteRange range, const Payload& payload) const {
    if (wait_.is_alive()) {
      std::memcpy(call_.output + range.begin + at_, payload.data(), bytes(range.length - at_));
    }
  }

  void tell_started() const {
    for (int peer = 0; peer < call_.ranks; ++peer) {
      const std::int64_t first = first_packet_ * payload_;
      const bool has_started =
          (has(call_.push_to, peer) && first < call_.push[static_cast<std::size_t>(peer)].length) ||
          (has(call_.forward_to, peer) && first < call_.own_to.length);
      if (peer != call_.rank && !has_started) {
        started(peer, call_.rank).store(round_, std::memory_order_release);
      }
    }
  }
  void await_free(std::uint32_t unheard) {
    for (int peer = 0; peer < call_.ranks && round_ >= 2; ++peer) {
      wait_.await([&] {
        return !has(unheard & (call_.push_to | call_.forward_to), peer) ||
               started(call_.rank, peer).load(std::memory_order_acquire) >= round_ - 1;
      });
    }
  }
  [[nodiscard]] std::uint32_t unheard_of() const {
    const std::int64_t first = first_packet_ * payload_;
    std::uint32_t unheard = 0;
    for (int r = 0; r < call_.ranks; ++r) {
      const auto source = static_cast<std::size_t>(r);
      const std::int64_t length = call_.arrival == sm::Arrival::kReduce
                                      ? call_.own_to.length
                                      : call_.arrive[0][source].length;
      const bool has_flag =
          (has(call_.arrive_from[0], r) && first < length) ||
          (has(call_.arrive_from[1], r) && first < call_.arrive[1][source].length);
      unheard |= has_flag || r == call_.rank ? 0U : 1U << r;
    }
    return unheard;
  }

  void push() const {
    for (int peer = 0; peer < call_.ranks; ++peer) {
      const sm::ByteRange range = call_.push[static_cast<std::size_t>(peer)];
      if (has(call_.push_to, peer) && at_ < range.length) {
        store(packet(is_written_once(0) ? call_.rank : peer, call_.rank, 0), read(range));
        if (is_written_once(0)) {
          return;  // its other readers find it there
        }
      }
    }
  }
  void forward(const Payload& payload) const {
    for (int peer = 0; peer < call_.ranks && wait_.is_alive(); ++peer) {
      if (has(call_.forward_to, peer)) {
        store(packet(is_written_once(1) ? call_.rank : peer, call_.rank, 1), payload);
        if (is_written_once(1)) {
          return;
        }
      }
    }
  }
  void arrive(int phase) {
    for (int source = 0; source < call_.ranks; ++source) {
      const sm::ByteRange range =
          call_.arrive[static_cast<std::size_t>(phase)][static_cast<std::size_t>(source)];
      if (!has(call_.arrive_from[static_cast<std::size_t>(phase)], source) || at_ >= range.length) {
        continue;
      }
      const Payload payload = await(source, phase);
      write(range, payload);
      if (phase == 0) {
        forward(payload);
      }
    }
  }
  void reduce() {
    if (at_ >= call_.own_to.length) {
      return;
    }
    Payload sum(static_cast<std::size_t>(payload_));
    const auto add = [&](const Payload& operand) {
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] =
            static_cast<std::byte>(std::to_integer<int>(sum[i]) + std::to_integer<int>(operand[i]));
      }
    };
    if (call_.own) {
      add(read(call_.own_from));
    }
    for (int source = 0; source < call_.ranks; ++source) {
      if (has(call_.arrive_from[0], source)) {
        add(await(source, 0));
      }
    }
    if (call_.stores_sum) {
      write(call_.own_to, sum);
    }
    forward(sum);
  }
  // A root's own range may be longer than what it exchanges with any one rank.
  void copy_own() {
    const std::int64_t begin = at_;
    const std::int64_t span =
        std::int64_t{call_.rounds} * call_.blocks * call_.warps * call_.depth * payload_;
    for (; call_.own && at_ < call_.own_from.length; at_ += span) {
      write(call_.own_to, read(call_.own_from));
    }
    at_ = begin;
  }

  const Call& call_;
  int block_;
  bool is_plain_;
  bool has_flags_apart_;
  std::int64_t payload_;  // bytes of a packet
  int step_ = 0;
  int warp_ = 0;
  std::uint64_t round_ = 0;
  std::int64_t first_packet_ = 0;
  std::int64_t at_ = 0;  // byte of its range at which the packet at hand begins
  sm::FakeWait wait_{call_.error_word, call_.deadline_ns};
};

// For FakeCuda::run_kernels, of collectives.
inline std::function<void()> fake_direct_kernel(const void* kernel, const void* parameters) {
  if (is_small_kernel(kernel)) {
    return fake_small_kernel(parameters);
  }
  return [call = *static_cast<const sm::DirectCall*>(parameters)] {
    for (int block = 0; block < call.blocks; ++block) {
      FakeDirectKernel(call, block).run();
    }
  };
}

}  // namespace sennit::tests
