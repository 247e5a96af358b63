// FakeReadingKernel, for tests without a GPU: what the kernel of reductions by reads does
// (exec/sm/reading_kernel.cuh), one block after the other. Reductions add bytes.
//
//   rank.cuda->run_kernels(fake_reading_kernel);
#pragma once

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/reading_call.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_wait.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

namespace sennit::tests {

class FakeReadingKernel {
 public:
  explicit FakeReadingKernel(const sm::ReadingCall& call) : call_(call), direct_(call.direct) {}

  void run() {
    bool alive = announce_buffers();
    bool is_whole = call_.is_reached;
    for (int block = 0; block < call_.readers; ++block) {
      alive = alive && await_buffers(block, is_whole);
    }
    for (int block = 0; alive && is_whole && block < call_.readers; ++block) {
      reduce_part(block);
    }
    for (int part = 0; alive && !is_whole && part < direct_.blocks; ++part) {
      FakeDirectKernel(direct_, part).run();
      alive = direct_.states[part].round != sm::kGivenUp;
    }
    for (int block = 0; block < call_.readers; ++block) {
      report_done(block, alive);
    }
    if (!alive || !await_all_done()) {
      for_each_peer([](const sm::ReadingCall::Peer& peer) { withdraw(peer.as_receiver); });
    }
  }

 private:
  template <typename Function>
  void for_each_peer(Function function) const {
    for (int rank = 0; rank < direct_.ranks; ++rank) {
      if (rank != direct_.rank) {
        function(call_.peers[static_cast<std::size_t>(rank)]);
      }
    }
  }
  static std::uint64_t address_of(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory);
  }
  static std::atomic_ref<std::uint64_t> address_word(const sm::MessagePut& put, int at, int index) {
    return std::atomic_ref(put.addresses[std::int64_t{at} * sm::kAddressWords + index]);
  }
  static void withdraw(const sm::MessagePut& put) {
    for (int at = 0; at < put.most_blocks; ++at) {
      put.messages[at] = sm::kGivenUp;
      address_word(put, at, 0).store(0, std::memory_order_release);
    }
  }

  bool announce_buffers() const {
    bool alive = true;
    for_each_peer([&](const sm::ReadingCall::Peer& peer) {
      const sm::MessagePut& put = peer.as_receiver;
      alive = alive && std::none_of(put.messages,
                                    put.messages + put.most_blocks,
                                    [](std::uint64_t counted) { return counted == sm::kGivenUp; });
    });
    if (!alive) {
      return false;
    }
    for_each_peer([&](const sm::ReadingCall::Peer& peer) {
      for (int at = 0; at < sm::kAddressesOfBlock * call_.readers; ++at) {
        const sm::MessagePut& put = peer.as_receiver;
        const sm::LlFlags flags = sm::address_flags(put.messages[at] + 1, direct_.fingerprint);
        const std::byte* const buffer = at % sm::kAddressesOfBlock == 0 ? peer.input : peer.output;
        const std::uint64_t address = call_.is_reached ? address_of(buffer) : 0;
        for (int i = 0; i < sm::kAddressWords; ++i) {
          address_word(put, at, i)
              .store(sm::address_word(address, i, flags), std::memory_order_release);
        }
      }
    });
    return true;
  }

  // What `peer` has written in its words `at`.
  std::byte* await_address(int peer, int at) {
    const sm::MessagePut& put = call_.peers[static_cast<std::size_t>(peer)].as_sender;
    const sm::LlFlags flags = sm::address_flags(put.messages[at] + 1, direct_.fingerprint);
    std::array<std::uint64_t, sm::kAddressWords> words{};
    for (int i = 0; i < sm::kAddressWords; ++i) {
      std::uint64_t& word = words[static_cast<std::size_t>(i)];
      wait_.await(
          [&] {
            word = address_word(put, at, i).load(std::memory_order_acquire);
            return sm::is_address(word, i, flags);
          },
          peer);
    }
    return reinterpret_cast<std::byte*>(
        static_cast<std::uintptr_t>(sm::address_from(words[0], words[1])));
  }

  // The same addresses come to all blocks.
  bool await_buffers(int block, bool& is_whole) {
    for (int rank = 0; rank < direct_.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      inputs_[at] = direct_.input;
      outputs_[at] = direct_.output;
      if (rank != direct_.rank) {
        inputs_[at] = await_address(rank, sm::kAddressesOfBlock * block);
        outputs_[at] = await_address(rank, sm::kAddressesOfBlock * block + 1);
        is_whole = is_whole && inputs_[at] != nullptr;
      }
    }
    return wait_.is_alive();
  }

  void reduce_part(int block) {
    const std::byte* const part = direct_.input + direct_.own_from.begin;
    const sm::Cut<std::array<std::uint64_t, 2>> cut(address_of(part), direct_.own_to.length);
    const auto reduce = [&](std::int64_t begin, std::int64_t bytes) {
      for (std::int64_t at = begin; at < begin + bytes; ++at) {
        int sum = 0;
        for (int rank = 0; rank < direct_.ranks; ++rank) {
          sum += std::to_integer<int>(
              inputs_[static_cast<std::size_t>(rank)][direct_.own_from.begin + at]);
        }
        for (int rank = 0; rank < direct_.ranks; ++rank) {
          if (rank == direct_.rank || call_.stores_in_peers()) {
            outputs_[static_cast<std::size_t>(rank)][direct_.own_to.begin + at] =
                static_cast<std::byte>(sum);
          }
        }
      }
    };
    if (block == 0) {
      reduce(0, cut.head);
      reduce(cut.tail_at(), cut.tail);
    }
    for (std::int64_t first = std::int64_t{block} * sm::kThreads; first < cut.elements;
         first += std::int64_t{call_.readers} * sm::kThreads) {
      const std::int64_t units = std::min<std::int64_t>(sm::kThreads, cut.elements - first);
      reduce(cut.head + first * 16, units * 16);
    }
  }

  void report_done(int block, bool alive) const {
    for_each_peer([&](const sm::ReadingCall::Peer& peer) {
      const sm::MessagePut& put = peer.as_sender;
      const int first = sm::kAddressesOfBlock * block;
      for (int at = first; at < first + sm::kAddressesOfBlock; ++at) {
        put.messages[at] = alive ? put.messages[at] + 1 : sm::kGivenUp;
      }
      if (alive) {
        std::atomic_ref(put.done[first])
            .store(sm::done_word(put.messages[first], direct_.fingerprint),
                   std::memory_order_release);
      }
    });
  }

  bool await_all_done() {
    for (int rank = 0; rank < direct_.ranks; ++rank) {
      const sm::MessagePut& put = call_.peers[static_cast<std::size_t>(rank)].as_receiver;
      for (int at = 0; rank != direct_.rank && at < sm::kAddressesOfBlock * call_.readers; ++at) {
        const std::uint64_t done = sm::done_word(put.messages[at] + 1, direct_.fingerprint);
        if (at % sm::kAddressesOfBlock == 0) {
          wait_.await(
              [&] { return std::atomic_ref(put.done[at]).load(std::memory_order_acquire) == done; },
              rank);
        }
        if (!wait_.is_alive()) {
          return false;
        }
        ++put.messages[at];
      }
    }
    return true;
  }

  const sm::ReadingCall& call_;
  const sm::DirectCall& direct_;
  std::array<const std::byte*, sm::kMaxRanks> inputs_{};
  std::array<std::byte*, sm::kMaxRanks> outputs_{};
  sm::FakeWait wait_{direct_.error_word, direct_.deadline_ns};
};

inline bool is_reading_kernel(const void* kernel) {
  return kernel == sm::reducing_kernel(sm::KernelKind::kReads, Dtype::kUint8, ReduceOp::kSum);
}

// For FakeCuda::run_kernels, of collectives.
inline std::function<void()> fake_reading_kernel(const void* kernel, const void* parameters) {
  if (!is_reading_kernel(kernel)) {
    return fake_direct_kernel(kernel, parameters);
  }
  return
      [call = *static_cast<const sm::ReadingCall*>(parameters)] { FakeReadingKernel(call).run(); };
}

}  // namespace sennit::tests
