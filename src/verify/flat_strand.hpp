// FlatStrand: a strand as flat arrays, the form in which the proof works. Lanes, steps and messages
// of all ranks are numbered through; a message knows the step that sends it and those that take it.
#pragma once

#include "schedule/plan.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sennit {

class FlatStrand {
 public:
  struct LaneInfo {
    int rank = 0;
    int lane = 0;
    int first_step = 0;  // its steps are numbered from here without a gap
    int steps = 0;
    int burst = 1;
  };

  struct StepInfo {
    const Step* step = nullptr;
    int lane = 0;  // index into lanes()
    int rank = 0;
  };

  struct Message {
    int channel = 0;
    int sender = 0;           // step
    int first_recipient = 0;  // into recipients_, one for each reader of the channel
    int recipients = 0;
  };

  // `strand` passed check_structure and outlives the program.
  explicit FlatStrand(const Strand& strand);

  [[nodiscard]] const Strand& strand() const { return *strand_; }
  [[nodiscard]] const Schedule& schedule() const { return *strand_->schedule; }
  [[nodiscard]] const std::vector<LaneInfo>& lanes() const { return lanes_; }
  [[nodiscard]] const std::vector<StepInfo>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }

  [[nodiscard]] int lane_index(int rank, int lane) const {
    return first_lane_[static_cast<std::size_t>(rank)] + lane;
  }
  [[nodiscard]] int step_index(int rank, StepRef ref) const {
    return lanes_[static_cast<std::size_t>(lane_index(rank, ref.lane))].first_step + ref.step;
  }

  // The messages that a step takes and sends, in the order of its `in` and `out`.
  [[nodiscard]] std::span<const int> taken_by(int step) const { return taken_.of(step); }
  [[nodiscard]] std::span<const int> sent_by(int step) const { return sent_.of(step); }

  // The steps that take a message, in the order of its channel's readers.
  [[nodiscard]] std::span<const int> recipients(const Message& message) const {
    return std::span(recipients_)
        .subspan(static_cast<std::size_t>(message.first_recipient),
                 static_cast<std::size_t>(message.recipients));
  }

  // The messages of one tile on `channel`, first to last.
  [[nodiscard]] int first_message(int channel) const {
    return first_message_[static_cast<std::size_t>(channel)];
  }
  [[nodiscard]] int message_count(int channel) const {
    return first_message(channel + 1) - first_message(channel);
  }

  [[nodiscard]] const ChannelBinding& binding(const Message& message) const {
    return strand_->channels[static_cast<std::size_t>(message.channel)];
  }

  // The sender's own blocks that hold the message. Empty when the message only passes through.
  [[nodiscard]] const std::vector<Block>& source_blocks(const Message& message) const;

  // Whether the recipient takes the message out of the sender's own blocks (direct_get): always, or
  // only if the sender of a bundle picks such a path.
  [[nodiscard]] bool is_exposed(const Message& message) const {
    return always_uses(binding(message), Protocol::kDirectGet) && !source_blocks(message).empty();
  }
  [[nodiscard]] bool may_be_exposed(const Message& message) const {
    return may_use(binding(message), Protocol::kDirectGet) && !is_exposed(message) &&
           !source_blocks(message).empty();
  }
  // Whether the sender may have to send the message again until its step ends.
  [[nodiscard]] bool is_kept(const Message& message) const {
    return binding(message).chooser == Chooser::kReader && !source_blocks(message).empty();
  }
  // Whether the sender puts the message into the `to` blocks of `recipient` (direct_put).
  [[nodiscard]] bool is_put(const Message& message, int recipient) const {
    const Step& step = *steps_[static_cast<std::size_t>(recipient)].step;
    return always_uses(binding(message), Protocol::kDirectPut) && step.kind == StepKind::kRecv &&
           !step.to.empty();
  }

  // By what the values of a message are changed, where its channel has a lossy codec.
  [[nodiscard]] std::optional<Codec> lossy_codec(const Message& message) const;
  // Whether some values are: a message's, or those that a rank keeps.
  [[nodiscard]] bool is_lossy() const;
  // Whether a step takes decode(encode(x)) for the x that it reads out of `block`.
  [[nodiscard]] bool codes_at_home(int step, const Block& block) const;

  // "rank 0 lane 1 step 2 (recv)"
  [[nodiscard]] std::string describe(int step) const;

 private:
  // A list of numbers for each step, laid end to end.
  struct Lists {
    std::vector<int> begin;
    std::vector<int> items;

    [[nodiscard]] std::span<const int> of(int index) const {
      const auto i = static_cast<std::size_t>(index);
      return std::span(items).subspan(static_cast<std::size_t>(begin[i]),
                                      static_cast<std::size_t>(begin[i + 1] - begin[i]));
    }
  };

  void number_steps();
  void number_messages();
  void join_messages();

  const Strand* strand_;
  std::vector<int> first_lane_;
  std::vector<LaneInfo> lanes_;
  std::vector<StepInfo> steps_;
  std::vector<int> first_message_;
  std::vector<Message> messages_;
  std::vector<int> recipients_;
  Lists taken_;
  Lists sent_;
};

}  // namespace sennit
