// DeviceLine: what a rank with a GPU says of itself in shared memory. Its calls, so that others can
// see when theirs differ, and, for calls and messages that copy engines run, where its buffers lie.
//
// Written by its owner alone. A zeroed line is a valid beginning.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "types/reduce.hpp"
#include "world/call_log.hpp"
#include "world/group_id.hpp"
#include "world/status_line.hpp"
#include "world/stream_words.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit {

// A buffer that others are to read or write.
struct BufferOffer {
  enum class State : std::uint32_t {
    kUnused,       // nobody reaches into it in this call
    kUnreachable,  // others cannot reach its memory
    kNew,          // in an allocation that some may not have mapped yet
    kKnown,        // in one that all have mapped
  };

  State state = State::kUnused;
  bool is_slow_to_copy = false;  // for copy engines of others (PeerBuffers)
  std::uint64_t id = 0;          // of the allocation, on its rank
  std::uint64_t offset = 0;      // in the allocation
  std::byte* base = nullptr;     // for ranks of the same process; null: they map it, too
  MemoryHandle handle{};         // for those who map it
};

// A place in memory that all ranks have registered together (memory/symmetric_memory.hpp).
struct WindowPlace {
  std::uint64_t window = 0;  // its number; 0: in none
  std::uint64_t offset = 0;
  std::uint64_t window_bytes = 0;

  bool operator==(const WindowPlace&) const = default;
};

// One rank's part in agreeing about one call (exec/stream/agreement.hpp). Plain fields are written
// before the number that announces them.
struct AgreementLine {
  static constexpr std::size_t kMaxRetired = 8;

  std::atomic<std::uint64_t> offered{0};  // number of the agreement, from 1
  std::atomic<std::uint64_t> judged{0};   // twice that number, plus 1 for yes
  bool takes_part = false;                // this rank could run the call with copy engines
  bool is_idle = false;                   // its stream has nothing to do before the call
  BufferOffer input;
  BufferOffer output;
  BufferOffer staging;
  WindowPlace place;                   // of the output
  decltype(Scaling::scalar) scalar{};  // what premul_sum multiplies this rank's input by
  std::array<std::uint64_t, kMaxRetired> retired{};  // allocations that are no more; 0: none
};

// What a rank announces to one other of the messages between them.
struct MessageLine {
  // A message for copy engines, from this rank to the other.
  struct Offer {
    static constexpr std::int32_t kByKernels = -1;

    std::atomic<std::uint64_t> number{0};  // of the message among those, from 1
    CallWords words;
    stream::GroupId group;
    BufferOffer buffer;
    std::array<std::uint64_t, AgreementLine::kMaxRetired> retired{};
    // What this rank has decided: percent of the message that go through host memory, or that
    // kernels run all of it.
    std::int32_t host_share = kByKernels;
    bool is_put = false;  // where the receiver's post says, by the copy engines of this rank
    std::int32_t first_slot = 0;  // in the ring of the two
    bool has_ring = false;        // which this rank has pinned
    // The share follows the load, and began with this; negative: it does not.
    std::int32_t dynamic_from = -1;
    // Nothing else goes from this rank to the other in its group, so that the other can measure it.
    // Its ends then meet in words, also where kernels have a part of it or this rank puts it.
    bool is_timed = false;
  };
  std::array<Offer, stream::kMaxMessages> offers;  // message m in offers[m mod kMaxMessages]
  // The same message, from the other to this rank, before it has been offered.
  struct Post {
    std::atomic<std::uint64_t> number{0};
    CallWords words;
    stream::GroupId group;
    std::byte* there = nullptr;  // its buffer, as the other sees it; null: the other does not
  };
  std::array<Post, stream::kMaxMessages> posts;
  // What a receiver says of an offer, in one word.
  struct Answer {
    std::uint64_t number = 0;     // of the offer
    bool reaches_ring = false;    // of the two
    bool reaches_buffer = false;  // which it has mapped

    [[nodiscard]] std::uint64_t word() const {
      return 4 * number + (reaches_ring ? 2 : 0) + (reaches_buffer ? 1 : 0);
    }
    static Answer of(std::uint64_t word) {
      return {
          .number = word / 4, .reaches_ring = (word & 2) != 0, .reaches_buffer = (word & 1) != 0};
    }
  };
  // To the other's offers.
  std::array<std::atomic<std::uint64_t>, stream::kMaxMessages> answers;

  // What this rank advises the other, of messages from there to here whose shares follow the load,
  // by the bit width of their bytes (exec/stream/message_shares.hpp). Zero: nothing.
  static constexpr std::size_t kSizeClasses = 64;
  std::array<std::atomic<std::uint64_t>, kSizeClasses> shares;

  // An allocation of this rank that the other is asked to map, since it sends messages there
  // (memory/message_puts.hpp).
  struct Announcement {
    std::atomic<std::uint64_t> number{0};  // from 1
    BufferOffer buffer;
    std::array<std::uint64_t, AgreementLine::kMaxRetired> retired{};
  };
  Announcement announcement;
  // To the other's announcement of this number: where this rank sees the allocation; null: it
  // cannot.
  struct Mapped {
    std::atomic<std::uint64_t> number{0};
    std::byte* base = nullptr;
  };
  Mapped mapped;

  // Both ends of each message, whatever its engine. Fewer than this rank or the other can be ahead,
  // since there is one of these for every two ranks: who is further ahead is not compared.
  CallLog<256> sent;
  CallLog<256> received;
};

struct alignas(4096) DeviceLine {
  // More than a rank can be ahead of the others: the driver's queues hold about as many launches.
  CallLog<1024> collectives;
  std::array<AgreementLine, 2> agreements;              // agreement a in agreements[a mod 2]
  std::array<MessageLine, stream::kMaxRanks> messages;  // by peer
};

}  // namespace sennit
