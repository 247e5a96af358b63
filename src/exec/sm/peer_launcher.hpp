// PeerLauncher: one kernel for several messages between this rank and others: the sends and recvs
// of a group, or the blocks of a collective that are messages.
#pragma once

#include "exec/sm/context.hpp"
#include "exec/sm/direct_call.hpp"
#include "exec/sm/group_order.hpp"
#include "exec/sm/kernel_message.hpp"

#include <memory>
#include <span>

namespace sennit::sm {

class PeerLauncher {
 public:
  // How the thread blocks of a launch have its sends: each lane has messages of its own, or all
  // share one lane and store a piece of each message in turn. Equal on all ranks of a collective.
  enum class Order : std::uint8_t { kLanes, kInterleaved };

  // `context` outlives the result.
  explicit PeerLauncher(Context& context) : context_(context) {}

  // At most kMaxPairCalls messages.
  Status launch(std::span<const KernelMessage> messages, void* stream, Order order);

  // Of a collective. With two ranks there is one link to fill, and a copy of the own block beside.
  [[nodiscard]] Order order_of_blocks() const {
    return context_.world.size() > 2 ? Order::kInterleaved : Order::kLanes;
  }
  // Thread blocks that one message of such a collective may have, whose length is `bytes`.
  [[nodiscard]] int blocks_of_message(Order order, std::int64_t bytes) const;
  // Of `blocks`, those that a message has which its sender may store in place. The same at both
  // ends. Packets have no more, if the receiver's buffer is not mapped: the sender cannot know.
  [[nodiscard]] int blocks_of_put(std::int64_t bytes, int blocks) const;

 private:
  void describe(const KernelMessage& message, bool may_map, PairMessage& described);
  std::byte* offer_of(const KernelMessage& message, bool may_map);
  [[nodiscard]] GroupRoom room() const;
  void deal_lanes(PairCalls& pairs) const;

  Context& context_;
  std::unique_ptr<PairCalls> pairs_ = std::make_unique<PairCalls>();  // 30 KB, used again
};

}  // namespace sennit::sm
