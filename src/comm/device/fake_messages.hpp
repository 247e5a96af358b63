// FakeMessages, for tests: sends and recvs of ranks with fake GPUs.
#pragma once

#include "comm/device/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace sennit::tests {

using Calls = std::vector<DeviceComm::Call>;

// Just large enough for copy engines, and one that is not.
inline constexpr std::int64_t kLarge = (std::int64_t{4} << 20) + 5;
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

inline Calls wished(Calls calls, const std::string& protocol) {
  for (DeviceComm::Call& call : calls) {
    call.operation.wishes.protocol = protocol;
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
  // After this each rank reaches what its peers send out of the memory.
  void introduce(const Rank& rank, std::byte* out, std::byte* in) {
    Calls calls;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank.rank) {
        calls.push_back(send(rank, peer, out));
        calls.push_back(recv(rank, peer, in));
      }
    }
    EXPECT_TRUE(post(rank, calls).ok());
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

  static void check_no_launches(const Rank& rank, int before) {
    EXPECT_EQ(rank.launches(), before) << "rank " << rank.rank;
  }
};

}  // namespace sennit::tests
