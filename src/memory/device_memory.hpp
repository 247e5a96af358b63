// DeviceMemory: the arenas of all ranks of a communicator, as one device sees them, and this rank's
// own words beside them. Made and taken down by all ranks together.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "memory/arena.hpp"
#include "memory/arenas.hpp"
#include "memory/device_meeting.hpp"
#include "memory/mailbox.hpp"
#include "memory/near_mail.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sennit {

class DeviceMemory {
 public:
  // What Arenas::open says.
  static Result<std::unique_ptr<DeviceMemory>> create(CudaDriver& driver,
                                                      const DeviceIdentity& identity,
                                                      const Arenas::Options& options,
                                                      const Exchange& exchange);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] int device() const { return identity_.device; }
  [[nodiscard]] int rank() const { return identity_.rank; }
  [[nodiscard]] int ranks() const { return identity_.ranks; }
  // A thread of this process, whose addresses are ours.
  [[nodiscard]] bool is_of_this_process(int rank) const {
    return processes_[static_cast<std::size_t>(rank)] ==
           processes_[static_cast<std::size_t>(identity_.rank)];
  }
  // No two ranks are threads of one process; the same answer on all ranks.
  [[nodiscard]] bool has_a_process_each() const;
  // Nor share two a device.
  [[nodiscard]] bool has_a_device_each() const { return has_a_device_each_; }

  // Of the collectives: the arena of each rank.
  [[nodiscard]] const Arenas& arenas() const { return *arenas_; }
  [[nodiscard]] const sm::ArenaShape& shape() const { return arenas_->plan().shape; }
  [[nodiscard]] std::byte* arena(int rank) const { return arenas_->of(rank); }
  // They lie in host memory, as no GPU reaches another.
  [[nodiscard]] bool is_on_host() const { return arenas_->plan().place == ArenaPlace::kHost; }
  [[nodiscard]] sm::BlockState* states() const { return states_; }

  // Of calls that run step by step (exec/sm/step_call.hpp): the mailbox that `writer` writes for
  // `reader`, one of which this rank is, and its shape; and what blocks have beside.
  struct Mailbox {
    std::byte* memory = nullptr;
    sm::MailboxShape shape;
  };
  [[nodiscard]] Mailbox mailbox(int writer, int reader) const;
  // Of a block, for the slots of one that lies there.
  [[nodiscard]] std::size_t slot_bytes(sm::MailPlace place) const;
  [[nodiscard]] int step_blocks() const { return arenas_->plan().mailbox.blocks; }
  // Ranks between which mailboxes lie in device memory although arenas do not; empty: there is no
  // such difference.
  [[nodiscard]] std::vector<std::vector<int>> near_groups() const {
    return near_ == nullptr ? std::vector<std::vector<int>>() : near_->groups();
  }
  static constexpr std::size_t kStepScratchBytes = std::size_t{256} << 10;  // of a block
  [[nodiscard]] std::byte* step_scratch() const { return step_scratch_; }
  [[nodiscard]] std::uint64_t* step_calls() const {
    return reinterpret_cast<std::uint64_t*>(step_scratch_ + step_scratch_bytes());
  }

  // Of what this rank sends to `peer`, or receives from there: the arenas of both. A rank that
  // sends to itself has two ends.
  struct Pair {
    std::byte* sender = nullptr;
    std::byte* receiver = nullptr;
    sm::BlockState* states = nullptr;
    sm::MessagePut put;  // its words
  };
  [[nodiscard]] const sm::ArenaShape& pair_shape() const { return arenas_->plan().pair_shape; }
  [[nodiscard]] const Pair& pair(int peer, bool sends) const {
    return pairs_[2 * static_cast<std::size_t>(peer) + (sends ? 1 : 0)];
  }

  [[nodiscard]] sm::Board& board() const { return *static_cast<sm::Board*>(board_.host); }
  [[nodiscard]] sm::Board* board_on_device() const {
    return static_cast<sm::Board*>(board_.device);
  }

  // Blocks that a kernel of this rank may have, so that those of all ranks on the device run at
  // once.
  [[nodiscard]] int block_limit() const { return block_limit_; }

 private:
  DeviceMemory(CudaDriver& driver, const DeviceIdentity& identity);
  // Beside the arenas.
  Status allocate();
  Status limit_blocks(const DeviceMeeting& meeting);
  [[nodiscard]] Pair make_pair(int peer, bool sends) const;
  [[nodiscard]] sm::MessagePut message_put(int peer, bool sends) const;
  [[nodiscard]] std::size_t step_scratch_bytes() const {
    return static_cast<std::size_t>(step_blocks()) * kStepScratchBytes;
  }

  CudaDriver& driver_;
  DeviceIdentity identity_;
  std::vector<std::uint64_t> processes_;  // by rank
  bool has_a_device_each_ = true;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<NearMail> near_;  // null: all mailboxes lie in the arenas
  std::vector<Pair> pairs_;         // by peer, what is received first
  sm::BlockState* states_ = nullptr;
  std::byte* step_scratch_ = nullptr;
  MappedMemory board_;
  int block_limit_ = 1;
};

}  // namespace sennit
