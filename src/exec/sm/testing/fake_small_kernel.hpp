// FakeSmallKernel, for tests without a GPU: what the kernel of small calls does
// (exec/sm/small_kernel.cuh), by one thread of the host. Reductions add bytes.
#pragma once

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/small_call.hpp"
#include "exec/sm/testing/fake_wait.hpp"
#include "types/types.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace sennit::tests {

template <class Call>
class FakeSmallKernel {
 public:
  FakeSmallKernel(const Call& call, int block) : call_(call), block_(block), end_(call.length) {}

  void run() {
    sm::BlockState& state = call_.states[block_];
    if (state.round == sm::kGivenUp) {
      return;
    }
    round_ = state.round + 1;
    for (int i = 0; i < call_.tells; ++i) {
      std::atomic_ref(call_.tell[static_cast<std::size_t>(i)][block_ * sm::kWordsOfLine])
          .store(round_, std::memory_order_release);
    }
    await_free(state.unheard & call_.push_to);
    for (warp_ = 0; warp_ < call_.warps; ++warp_) {
      at_ = (std::int64_t{block_} * call_.warps + warp_) * kPayload;
      if (at_ < call_.length) {
        exchange();
      }
    }
    state = {.round = wait_.is_alive() ? round_ : sm::kGivenUp, .unheard = call_.unheard};
  }

 protected:
  static constexpr std::int64_t kPayload = sm::payload_bytes(sm::Packets::kLl);
  static constexpr std::size_t kWords = kPayload / 4;
  using Payload = std::array<std::byte, kPayload>;

  // The warp's part of a block.
  [[nodiscard]] std::size_t length() const {
    return static_cast<std::size_t>(std::min(end_ - at_, kPayload));
  }
  [[nodiscard]] Payload read(const std::byte* block) const {
    Payload payload{};
    std::memcpy(payload.data(), block + at_, length());
    return payload;
  }
  void write(std::byte* block, const Payload& payload) const {
    if (wait_.is_alive()) {
      std::memcpy(block + at_, payload.data(), length());
    }
  }

  [[nodiscard]] std::size_t slot() const {
    return (round_ & 1) * call_.generation_bytes +
           static_cast<std::size_t>(block_) * call_.block_bytes +
           static_cast<std::size_t>(warp_) * sm::kPacketBytes;
  }
  [[nodiscard]] std::uint32_t flag(std::size_t word) const {
    const sm::LlFlags flags = sm::ll_flags(round_, call_.fingerprint);
    return word % 2 == 0 ? flags.even : flags.odd;
  }
  static std::atomic_ref<std::uint64_t> word(std::byte* packet, std::size_t index) {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(packet)[index]);
  }
  void store(std::byte* packet, const Payload& payload) const {
    for (std::size_t i = 0; i < kWords; ++i) {
      std::uint32_t data = 0;
      std::memcpy(&data, payload.data() + i * 4, 4);
      word(packet, i).store(std::uint64_t{flag(i)} << 32 | data, std::memory_order_release);
    }
  }
  Payload await(const std::byte* from) {
    auto* const packet = const_cast<std::byte*>(from);
    Payload payload{};
    for (std::size_t i = 0; i < kWords; ++i) {
      std::uint64_t found = 0;
      wait_.await([&] {
        found = word(packet, i).load(std::memory_order_acquire);
        return found >> 32 == flag(i);
      });
      const auto data = static_cast<std::uint32_t>(found);
      std::memcpy(payload.data() + i * 4, &data, 4);
    }
    return payload;
  }

  void await_free(std::uint32_t needed) {
    for (int rank = 0; rank < call_.ranks && round_ >= 2; ++rank) {
      if (((needed >> rank) & 1U) == 0) {
        continue;
      }
      auto* const told =
          const_cast<std::uint64_t*>(call_.told) + std::ptrdiff_t{block_} * sm::kWordsOfLine + rank;
      wait_.await(*told, [&](std::uint64_t found) { return found >= round_ - 1; });
    }
  }

  void exchange() {
    const Payload own = call_.own_from != nullptr ? read(call_.own_from) : Payload{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(call_.pushes) && wait_.is_alive(); ++i) {
      store(call_.push[i].slot + slot(), read(call_.push[i].from));
    }
    const bool reduces = call_.arrivals > 0 && call_.arrival.front().to == nullptr;
    if (call_.own_from != nullptr && !reduces) {
      write(call_.own_to, own);
    }
    Payload sum{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(call_.arrivals); ++i) {
      const auto& arrival = call_.arrival[i];
      const Payload payload = arrival.slot == nullptr ? own : await(arrival.slot + slot());
      if (!reduces) {
        write(arrival.to, payload);
        continue;
      }
      std::ranges::transform(sum, payload, sum.begin(), [](std::byte a, std::byte b) {
        return static_cast<std::byte>(std::to_integer<int>(a) + std::to_integer<int>(b));
      });
    }
    if (reduces) {
      write(call_.own_to, sum);
    }
  }

  const Call& call_;
  int block_;
  int warp_ = 0;
  std::int64_t at_ = 0;
  std::int64_t end_;
  std::uint64_t round_ = 0;
  sm::FakeWait wait_{call_.error_word, call_.deadline_ns};
};

inline bool is_small_kernel(const void* kernel) {
  if (kernel == sm::moving_kernel(sm::KernelKind::kSmall)) {
    return true;
  }
  return std::ranges::any_of(kDtypes, [kernel](Dtype dtype) {
    return std::ranges::any_of(kReduceOps, [kernel, dtype](ReduceOp op) {
      return kernel == sm::reducing_kernel(sm::KernelKind::kSmall, dtype, op);
    });
  });
}

inline bool is_small_pairs_kernel(const void* kernel) {
  return kernel == sm::small_pairs_kernel(sm::kFewSmallPairs, 1) ||
         kernel == sm::small_pairs_kernel(sm::kMaxSmallPairs, 1) ||
         kernel == sm::small_pairs_kernel(sm::kMaxSmallPairs, 2);
}

template <class Call>
void run_small_call(const Call& call) {
  const std::int64_t of_block = call.warps * sm::payload_bytes(sm::Packets::kLl);
  for (int block = 0; block * of_block < call.length; ++block) {
    FakeSmallKernel(call, block).run();
  }
}

inline std::function<void()> fake_small_kernel(const void* parameters) {
  return [call = *static_cast<const sm::SmallCall*>(parameters)] { run_small_call(call); };
}

// Messages run side by side; those that there are not have no length.
inline std::function<void()> fake_small_pairs_kernel(const void* parameters) {
  return [pairs = *static_cast<const sm::SmallPairs*>(parameters)] {
    std::vector<std::jthread> messages;
    for (const sm::SmallPair& call : pairs.calls) {
      messages.emplace_back([&call] { run_small_call(call); });
    }
  };
}

}  // namespace sennit::tests
