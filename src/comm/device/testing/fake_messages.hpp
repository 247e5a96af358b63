// FakeMessages, for tests: sends and recvs of ranks with fake GPUs.
#pragma once

#include "comm/device/testing/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {

using Calls = std::vector<DeviceComm::Call>;

// Just large enough for copy engines, and one that is not.
inline constexpr std::int64_t kLarge = (std::int64_t{1} << 20) + 5;
inline constexpr std::int64_t kSmall = 1000;

inline Operation message(int peer, bool is_send, std::byte* memory, std::int64_t count) {
  Operation op;
  op.collective = Collective::kSendRecv;
  op.peer = peer;
  op.is_send = is_send;
  op.send = is_send ? memory : nullptr;
  op.recv = is_send ? nullptr : memory;
  op.count = count;
  return op;
}

inline DeviceComm::Call send(const Rank& rank,
                             int peer,
                             std::byte* memory,
                             std::int64_t count = kLarge) {
  return {message(peer, true, memory, count), rank.stream};
}

inline DeviceComm::Call recv(const Rank& rank,
                             int peer,
                             std::byte* memory,
                             std::int64_t count = kLarge) {
  return {message(peer, false, memory, count), rank.stream};
}

inline Calls requested(Calls calls, const std::string& protocol) {
  for (DeviceComm::Call& call : calls) {
    call.operation.request.protocol = protocol;
  }
  return calls;
}

inline Calls over(Calls calls, const std::string& path, const std::string& protocol = {}) {
  for (DeviceComm::Call& call : calls) {
    call.operation.request.path = path;
    call.operation.request.protocol = protocol;
  }
  return calls;
}

inline Status post(const Rank& rank, const Calls& calls) { return rank.comm->enqueue(calls); }

// Memory of a rank for `messages` messages, and what it holds: bytes that name rank and place.
inline std::byte* outgoing(const Rank& rank, int messages = 1, std::int64_t count = kLarge) {
  std::byte* const memory = rank.allocate(count * messages);
  const Bytes bytes = contents(rank.rank, count * messages);
  std::memcpy(memory, bytes.data(), bytes.size());
  return memory;
}

inline std::byte* incoming(const Rank& rank, int messages = 1, std::int64_t count = kLarge) {
  std::byte* const memory = rank.allocate(count * messages);
  std::memset(memory, 0xa5, static_cast<std::size_t>(count * messages));
  return memory;
}

// Message `index` of `sender`, as outgoing() made it.
inline bool came_from(int sender, const std::byte* memory, int index = 0) {
  return holds(memory, contents(sender, kLarge, index * kLarge));
}

inline int next_of(const Rank& rank, int ranks) { return (rank.rank + 1) % ranks; }
inline int previous_of(const Rank& rank, int ranks) { return (rank.rank + ranks - 1) % ranks; }

class FakeMessages : public FakeGpus {
 protected:
  // To and from all others, whose messages lie so far from each other.
  static Calls every_pair(const Rank& rank,
                          std::byte* out,
                          std::byte* in,
                          std::int64_t stride = kLarge) {
    Calls calls;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank.rank) {
        calls.push_back(send(rank, peer, out + peer * stride));
        calls.push_back(recv(rank, peer, in + peer * stride));
      }
    }
    return calls;
  }

  // After this each rank reaches what its peers send out of the memory.
  void introduce(const Rank& rank, std::byte* out, std::byte* in, const char* protocol = "") {
    EXPECT_TRUE(post(rank, requested(every_pair(rank, out, in, 0), protocol)).ok());
    rank.finish();
    meet();  // all have answered
  }

  static void ring(const Rank& rank, std::byte* out, std::byte* in) {
    const Calls calls = {send(rank, next_of(rank, kRanks), out),
                         recv(rank, previous_of(rank, kRanks), in)};
    EXPECT_TRUE(post(rank, calls).ok());
  }

  // Also waits until the sender can know whether its receiver reaches the memory.
  void ring_and_meet(const Rank& rank, std::byte* out, std::byte* in) {
    ring(rank, out, in);
    rank.finish();
    meet();
  }

  // The same, where it matters who moves a message.
  static Calls fetched(const Rank& rank, std::byte* out, std::byte* in) {
    return requested(
        {send(rank, next_of(rank, kRanks), out), recv(rank, previous_of(rank, kRanks), in)},
        "direct_get");
  }
  void fetch_and_meet(const Rank& rank, std::byte* out, std::byte* in) {
    EXPECT_TRUE(post(rank, fetched(rank, out, in)).ok());
    rank.finish();
    meet();
  }

  // After this copy engines put what a rank sends there, if it finds out in time where to.
  void introduce_well(const Rank& rank, std::byte* out, std::byte* in) {
    introduce(rank, out, in);  // who receives announces the memory
    introduce(rank, out, in);  // who sends maps it
  }
  // Until `receiver` has posted what it expects next from this rank.
  static void await_post(const Rank& rank, int receiver) {
    const World& world = rank.joined->world();
    const auto line = [&](int of, int peer) -> MessageLine& {
      return world.device_line(of).messages[static_cast<std::size_t>(peer)];
    };
    std::uint64_t offered = 0;
    for (const MessageLine::Offer& offer : line(rank.rank, receiver).offers) {
      offered = std::max(offered, offer.number.load());
    }
    const auto& post = line(receiver, rank.rank).posts[(offered + 1) % stream::kMaxMessages];
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (post.number.load() != offered + 1 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    EXPECT_EQ(post.number.load(), offered + 1) << "rank " << receiver << " has posted nothing";
  }
  // Posts a message from one rank to another that copy engines put.
  static void put(const Rank& rank, int sender, int receiver, std::byte* memory) {
    if (rank.rank == sender) {
      await_post(rank, receiver);
      EXPECT_TRUE(post(rank, {send(rank, receiver, memory)}).ok());
    }
    if (rank.rank == receiver) {
      EXPECT_TRUE(post(rank, {recv(rank, sender, memory)}).ok());
    }
  }

  static void check_no_launches(const Rank& rank, int before) {
    EXPECT_EQ(rank.launches(), before) << "rank " << rank.rank;
  }
};

// With rings in host memory of a few small slots.
class FakeMessagesWithRings : public FakeMessages {
 protected:
  FakeMessagesWithRings() {
    comm_config_.device = "cuda";
    comm_config_.host_slot_bytes = kSlot;
    comm_config_.host_ring_bytes = 4 * *comm_config_.host_slot_bytes;
  }

  static Calls around(const Rank& rank, std::byte* out, std::byte* in) {
    return {send(rank, next_of(rank, kRanks), out), recv(rank, previous_of(rank, kRanks), in)};
  }

  // Of each rank to each other; its share goes around the ring.
  static constexpr std::int64_t kCrossing = 700'001;

  // Every rank with every other, in both directions, messages of several sizes.
  static Calls crossing(const Rank& rank, std::byte* out, std::byte* in) {
    Calls calls;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank.rank) {
        for (const std::int64_t part : {kCrossing - kSmall, kSmall}) {
          const std::int64_t at = peer * kLarge + (part == kSmall ? kCrossing - kSmall : 0);
          calls.push_back(recv(rank, peer, in + at, part));
          calls.push_back(send(rank, peer, out + at, part));
        }
      }
    }
    return calls;
  }

  static void check_crossed(const Rank& rank, const std::byte* in) {
    for (int peer = 0; peer < kRanks; ++peer) {
      const Bytes expected = contents(peer, kCrossing, rank.rank * kLarge);
      ASSERT_TRUE(peer == rank.rank || holds(in + peer * kLarge, expected))
          << "from " << peer << " to " << rank.rank;
    }
  }

  // After this each rank reaches the buffers and rings of its peers.
  void introduce_paths(const Rank& rank, std::byte* out, std::byte* in) {
    introduce(rank, out, in, "copy_engines");
    ASSERT_TRUE(post(rank, over(crossing(rank, out, in), "host")).ok());
    rank.finish();
    meet();
  }

  // Copies and launches that `calls` take.
  struct Work {
    int copies = 0;
    int launches = 0;
  };
  static Work work_of(const Rank& rank, const Calls& calls) {
    const Work before{rank.cuda->calls("copy_async"), rank.launches()};
    EXPECT_TRUE(post(rank, calls).ok());
    rank.finish();
    return {rank.cuda->calls("copy_async") - before.copies, rank.launches() - before.launches};
  }
};

}  // namespace sennit::tests
