// MessageGroups: the sends and recvs of a communicator of GPU ranks. Those of one group go
// together, since they may need each other: kernels carry some in one launch, copy engines the
// others, as both ends of each message decide alike.
#pragma once

#include "comm/device/message_choices.hpp"
#include "exec/executables.hpp"
#include "exec/gpu_context.hpp"
#include "exec/sm/kernel_message.hpp"
#include "exec/stream/message_copies.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sennit {

class MessageGroups {
 public:
  // All outlive the result.
  MessageGroups(CudaDriver& driver, GpuContext& context, Executables& executables, int rank)
      : driver_(driver), context_(context), executables_(executables), rank_(rank) {}

  // A send or recv on its way.
  struct Message {
    GpuCall call;
    MessageChoice choice{};
    std::optional<stream::Message> copies{};  // as both ends have decided; none: kernels run it

    [[nodiscard]] const Operation& operation() const { return call.operation; }
    [[nodiscard]] bool is_for_kernels() const { return choice.plan_hash == 0; }
    [[nodiscard]] std::uint64_t word_of_kernels() const;
    [[nodiscard]] CallWords words() const;
    [[nodiscard]] sm::ByteRange range_of_kernels() const;
  };

  // A message of the rank to itself that takes part in nothing.
  struct OwnCopy {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
  };

  struct Group {
    std::vector<Message> messages;
    std::vector<OwnCopy> copies;
  };

  // Chooses for each message. What this refuses nobody has heard of.
  Result<Group> plan(std::span<const GpuCall> calls);
  // Reports the messages and decides with the other ends how each goes; waits on the host for
  // senders whose messages copy engines may run.
  Status agree(std::vector<Message>& messages);
  // Into the stream, after all that it holds.
  Status enqueue(const Group& group, void* stream);

 private:
  Result<MessageChoice> choose(const Operation& operation) const;
  Result<const MessageChoice*> known_choice(const Operation& operation);
  Result<bool> goes_with_others(const Operation& own);
  Status enqueue_messages(const std::vector<Message>& messages, void* stream);
  Result<MessageCopies::End> end_of(const Message& message,
                                    const stream::GroupId& group,
                                    bool is_alone);
  void agree_to_a_put(const Message& message, MessageCopies::End& end);
  [[nodiscard]] std::uint32_t partners(const std::vector<Message>& messages) const;

  CudaDriver& driver_;
  GpuContext& context_;
  Executables& executables_;
  int rank_;
  MessageChoices choices_;
};

}  // namespace sennit
