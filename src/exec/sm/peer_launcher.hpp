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
  // Thread blocks that one message of such a collective may have. The same at both ends, since
  // packets need that.
  [[nodiscard]] int blocks_of_message(const Operation& operation, Order order) const;

 private:
  [[nodiscard]] Result<bool> may_map(std::span<const KernelMessage> messages, void* stream) const;
  std::span<PairMessage> describe_all(std::span<const KernelMessage> messages,
                                      bool may_map,
                                      PairCalls& pairs);
  void describe(const KernelMessage& message, bool may_map, PairMessage& described);
  std::byte* offer_of(const KernelMessage& message, bool may_map);
  // How many thread blocks store each message that this rank sends, if its own buffers are reached
  // (are_reached), whatever its peers choose. 0: no limit.
  [[nodiscard]] int few_blocks_for(std::span<const KernelMessage> messages) const;
  [[nodiscard]] bool are_reached(std::span<const PairMessage> messages) const;
  [[nodiscard]] GroupRoom room(const Operation& operation) const;
  [[nodiscard]] GroupRoom room(std::span<const KernelMessage> messages) const;
  void deal_lanes(const GroupRoom& room, PairCalls& pairs) const;

  Context& context_;
  std::unique_ptr<PairCalls> pairs_ = std::make_unique<PairCalls>();  // 30 KB, used again
};

}  // namespace sennit::sm
