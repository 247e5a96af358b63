// FakePairsKernel, for tests without a GPU: what the kernel of sends and recvs does
// (exec/sm/pairs_kernel.cuh), by a thread of the host for each lane.
//
//   rank.cuda->run_kernels(fake_pairs_kernel);   // and small messages
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_wait.hpp"
#include "memory/message_put.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace sennit::tests {

// One end of a message, one block after the other.
class FakeMessage {
 public:
  explicit FakeMessage(const sm::PairMessage& message)
      : message_(message), call_(message.call), put_(message.put) {}

  // False when it had to leave.
  bool run() {
    if (!put_.takes_part) {
      return run_packets();
    }
    if (message_.is_send()) {
      return store() && tell_done();
    }
    return make_offers() && receive();
  }

  // The two halves of a message in a braid; what was not stored in turn goes with the second.
  bool begin() { return message_.is_send() ? store() : make_offers(); }
  bool end() { return message_.is_send() ? tell_done() : receive(); }

  // It has to leave, or its turn did not come.
  void give_up() {
    for (int block = 0; block < call_.blocks; ++block) {
      call_.states[block].round = sm::kGivenUp;
      if (put_.takes_part && message_.is_send()) {
        put_.messages[block] = sm::kGivenUp;
      }
    }
    if (put_.takes_part) {
      withdraw();
    }
  }

 private:
  // What was offered and has not been read will not be.
  void withdraw() {
    for (int block = 0; block < put_.most_blocks && !message_.is_send(); ++block) {
      put_.messages[block] = sm::kGivenUp;
      address_word(block, 0).store(0, std::memory_order_release);
    }
  }

  static std::uint64_t address_of(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory);
  }

  [[nodiscard]] std::atomic_ref<std::uint64_t> address_word(int block, int index) const {
    return std::atomic_ref(put_.addresses[std::int64_t{block} * sm::kAddressWords + index]);
  }

  bool run_packets(int block) {
    tests::FakeDirectKernel(call_, block).run();
    return call_.states[block].round != sm::kGivenUp;
  }
  bool run_packets() {
    for (int block = 0; block < call_.blocks; ++block) {
      if (!run_packets(block)) {
        return false;
      }
    }
    return true;
  }

  template <typename Predicate>
  bool await(Predicate is_there) {
    wait_.await(is_there, call_.peer);
    return wait_.is_alive();
  }

  // All blocks that have been offered a place.
  bool store() {
    for (int block = 0; block < message_.blocks(); ++block) {
      const std::uint64_t number = put_.messages[block] + 1;
      if (put_.messages[block] == sm::kGivenUp || !await_offer(block, number)) {
        return false;
      }
      if (const std::uint64_t offered = offers_.back(); offered != 0) {
        store(offered, block);
      }
    }
    return true;
  }

  // Those that have not, by packets; and all parts are over.
  bool tell_done() {
    for (int block = 0; block < call_.blocks; ++block) {
      const std::uint64_t number = put_.messages[block] + 1;
      const auto sender = static_cast<std::size_t>(block % message_.step());
      const bool alive = offers_[sender] != 0 || run_packets(block);
      put_.messages[block] = alive ? number : sm::kGivenUp;
      if (!alive) {
        return false;
      }
      std::atomic_ref(put_.done[block])
          .store(sm::done_word(number, call_.fingerprint), std::memory_order_release);
    }
    return true;
  }

  bool await_offer(int block, std::uint64_t number) {
    const sm::LlFlags flags = sm::address_flags(number, call_.fingerprint);
    std::array<std::uint64_t, sm::kAddressWords> words{};
    for (int i = 0; i < sm::kAddressWords; ++i) {
      auto& word = words[static_cast<std::size_t>(i)];
      const bool found = await([&] {
        word = address_word(block, i).load(std::memory_order_acquire);
        return sm::is_address(word, i, flags);
      });
      if (!found) {
        put_.messages[block] = sm::kGivenUp;
        return false;
      }
    }
    offers_.push_back(sm::address_from(words[0], words[1]));
    return true;
  }

  void store(std::uint64_t offered, int block) const {
    const std::byte* const from = call_.input + call_.push[1].begin;
    auto* const to = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(offered));
    const std::uint64_t apart = address_of(from) ^ offered;
    if (apart % 16 == 0) {
      store<std::array<std::uint64_t, 2>>(from, to, block);
    } else if (apart % 4 == 0) {
      store<std::uint32_t>(from, to, block);
    } else {
      store<std::byte>(from, to, block);
    }
  }

  // Byte by byte, since what a wrong share would store twice would be a race.
  template <class T>
  void store(const std::byte* from, std::byte* to, int block) const {
    const sm::Cut<T> cut(address_of(from), call_.push[1].length);
    const auto copy = [&](std::int64_t at, std::int64_t bytes) {
      std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes));
    };
    if (block == 0) {
      copy(0, cut.head);
      copy(cut.tail_at(), cut.tail);
    }
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t slice = block; slice * sm::kThreads < cut.elements;
         slice += message_.step()) {
      const std::int64_t first = slice * sm::kThreads;
      const std::int64_t last = std::min<std::int64_t>(first + sm::kThreads, cut.elements);
      copy(cut.head + first * kSize, (last - first) * kSize);
    }
  }

  bool make_offers() {
    for (int block = 0; block < put_.most_blocks; ++block) {
      if (put_.messages[block] == sm::kGivenUp) {
        return false;
      }
    }
    for (int block = 0; block < call_.blocks; ++block) {
      offer(block, put_.messages[block] + 1);
    }
    return true;
  }

  bool receive() {
    bool alive = message_.only_waits() || run_packets();
    for (int block = 0; block < call_.blocks && alive; ++block) {
      const std::uint64_t done = sm::done_word(put_.messages[block] + 1, call_.fingerprint);
      alive = await([&] {
        return std::atomic_ref(put_.done[block]).load(std::memory_order_acquire) == done;
      });
    }
    for (int block = 0; block < call_.blocks && alive; ++block) {
      ++put_.messages[block];
    }
    if (!alive) {
      withdraw();
    }
    return alive;
  }

  void offer(int block, std::uint64_t number) const {
    const sm::LlFlags flags = sm::address_flags(number, call_.fingerprint);
    for (int i = 0; i < sm::kAddressWords; ++i) {
      address_word(block, i).store(sm::address_word(address_of(put_.there), i, flags),
                                   std::memory_order_release);
    }
  }

  const sm::PairMessage& message_;
  const sm::PairCall& call_;
  const sm::MessagePut& put_;
  std::vector<std::uint64_t> offers_{};  // by block of a sender, as they were found
  sm::FakeWait wait_{call_.error_word, call_.deadline_ns};
};

// For FakeCuda::run_kernels; lanes run side by side.
inline std::function<void()> fake_pairs_kernel(const void* kernel, const void* parameters) {
  if (is_small_pairs_kernel(kernel)) {
    return fake_small_pairs_kernel(parameters);
  }
  return [pairs = *static_cast<const sm::PairCalls*>(parameters)] {
    const auto run_lane = [&pairs](const sm::PairLanes& way, int lane) {
      std::vector<FakeMessage> messages;
      for (int chain = way.first + lane; chain < way.first + way.chains; chain += way.lanes) {
        const auto at = static_cast<std::size_t>(chain);
        for (int i = pairs.begin[at]; i < pairs.begin[at + 1]; ++i) {
          messages.emplace_back(pairs.messages[static_cast<std::size_t>(i)]);
        }
      }
      auto failed = messages.begin();
      if (!pairs.is_braid) {
        failed = std::ranges::find_if_not(messages, &FakeMessage::run);
      } else if (std::ranges::all_of(messages, &FakeMessage::begin)) {
        failed = std::ranges::find_if_not(messages, &FakeMessage::end);
      }
      std::for_each(failed, messages.end(), std::mem_fn(&FakeMessage::give_up));
    };
    std::vector<std::jthread> lanes;
    for (const sm::PairLanes* const way : {&pairs.sends, &pairs.recvs}) {
      for (int lane = 0; lane < way->lanes; ++lane) {
        lanes.emplace_back([&run_lane, way, lane] { run_lane(*way, lane); });
      }
    }
  };
}

// By which receivers offer their buffers in a launch.
inline std::vector<sm::MessagePut> offers_in(const void* kernel, const void* parameters) {
  std::vector<sm::MessagePut> offers;
  if (is_small_pairs_kernel(kernel)) {
    return offers;
  }
  const auto& pairs = *static_cast<const sm::PairCalls*>(parameters);
  for (int i = 0; i < pairs.begin[static_cast<std::size_t>(pairs.chains())]; ++i) {
    const sm::PairMessage& message = pairs.messages[static_cast<std::size_t>(i)];
    if (message.only_waits()) {
      offers.push_back(message.put);
    }
  }
  return offers;
}

}  // namespace sennit::tests
