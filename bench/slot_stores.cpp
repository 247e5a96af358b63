// How long messages between two threads take by plain and by streaming stores, and by what
// SlotStores makes of them (path/shm/slot_stores.hpp).
//
//   sennit-slot-stores SECONDS     a line of JSON for each message size and turn
//
// Both threads, each bound to a core, send 1 MB to each other through rings of slots. `ping_ns`,
// the time of one word to the other core before the turn, says what the cores share then: a
// host may move those of a virtual machine at any time.
#include "path/shm/slot_stores.hpp"

#include "base/copy_bytes.hpp"
#include "path/shm/ring_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace sennit {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr int kTransfers = 24;
enum class Way { kPlain, kStreaming, kChosen };

double now_us() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(time).count();
}

template <typename Function>
void on_both_cores(const Function& function) {
  std::array<std::thread, 2> threads;
  for (int me = 0; me < 2; ++me) {
    threads[static_cast<std::size_t>(me)] = std::thread([&function, me] {
      cpu_set_t core;
      CPU_ZERO(&core);
      CPU_SET(me, &core);
      if (pthread_setaffinity_np(pthread_self(), sizeof(core), &core) != 0) {
        std::fputs("needs cores 0 and 1\n", stderr);
        std::exit(EXIT_FAILURE);
      }
      function(me);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

double ping_ns() {
  constexpr int kWarmUp = 200;
  constexpr int kPings = 1800;
  struct alignas(256) Word {
    std::atomic<int> value{0};
  };
  std::array<Word, 2> words;
  double time = 0;
  on_both_cores([&](int me) {
    const auto pings = [&](int first, int last) {
      for (int ping = first; ping <= last; ++ping) {
        if (me == 0) {
          words[0].value.store(ping, std::memory_order_release);
        }
        while (words[static_cast<std::size_t>(1 - me)].value.load(std::memory_order_acquire) <
               ping) {
        }
        if (me == 1) {
          words[1].value.store(ping, std::memory_order_release);
        }
      }
    };
    pings(1, kWarmUp);
    const double begin = now_us();
    pings(kWarmUp + 1, kWarmUp + kPings);
    if (me == 0) {
      time = (now_us() - begin) * 1e3 / kPings / 2;
    }
  });
  return time;
}

struct Side {
  std::vector<std::byte> from = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> to = std::vector<std::byte>(kBytes);
  shm::SlotStores stores;
};

// The median time of 1 MB, each way, in messages of `message_bytes`.
double transfer_us(Way way, std::size_t message_bytes) {
  const shm::RingGeometry geometry{.ranks = 2, .slot_bytes = message_bytes};
  const std::size_t pool_bytes = shm::RingPool::bytes(geometry);
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(4096, (pool_bytes + 4095) / 4096 * 4096), &std::free);
  std::memset(memory.get(), 0, pool_bytes);
  const shm::RingPool pool(static_cast<std::byte*>(memory.get()), geometry);
  std::array<Side, 2> sides;
  std::vector<double> times;
  on_both_cores([&](int me) {
    Side& side = sides[static_cast<std::size_t>(me)];
    const shm::Ring out = pool.ring(me, 1 - me, 0);
    const shm::Ring in = pool.ring(1 - me, me, 0);
    const auto put = [&](std::uint64_t message, std::size_t at) {
      while (!channel::may_write(out.free(message), message, out.slots())) {
      }
      std::byte* const slot = out.payload(message, message_bytes);
      switch (way) {
        case Way::kPlain:
          copy_bytes(slot, &side.from[at], message_bytes);
          break;
        case Way::kStreaming:
          copy_around_caches(slot, &side.from[at], message_bytes);
          break;
        case Way::kChosen:
          side.stores.copy(slot, &side.from[at], message_bytes);
          break;
      }
      channel::publish(out.full(message), message, 1);
    };
    const auto get = [&](std::uint64_t message, std::size_t at) {
      while (!channel::is_full(in.full(message), message, 1)) {
      }
      copy_bytes(&side.to[at], in.payload(message, message_bytes), message_bytes);
      channel::release_slot(in.free(message), message);
    };
    std::uint64_t message = 0;
    for (int transfer = 0; transfer < kTransfers; ++transfer) {
      const double begin = now_us();
      for (std::size_t at = 0; at < kBytes; at += message_bytes, ++message) {
        put(message, at);
        get(message, at);
      }
      if (me == 0) {
        times.push_back(now_us() - begin);
      }
    }
  });
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void measure(double seconds) {
  const double end = now_us() + seconds * 1e6;
  while (now_us() < end) {
    for (const std::size_t bytes : {std::size_t{8192}, std::size_t{16384}, std::size_t{65536}}) {
      const double ping = ping_ns();
      const double plain = transfer_us(Way::kPlain, bytes);
      const double streaming = transfer_us(Way::kStreaming, bytes);
      const double chosen = transfer_us(Way::kChosen, bytes);
      std::printf(
          "{\"message_bytes\": %zu, \"ping_ns\": %.0f, \"ping_ns_after\": %.0f, "
          "\"plain_us\": %.1f, \"streaming_us\": %.1f, \"chosen_us\": %.1f}\n",
          bytes,
          ping,
          ping_ns(),
          plain,
          streaming,
          chosen);
    }
  }
}

}  // namespace
}  // namespace sennit

int main(int argc, char** argv) {
  sennit::measure(argc > 1 ? std::strtod(argv[1], nullptr) : 10);
  return EXIT_SUCCESS;
}
