#include "flat_strand.hpp"

#include "codec/codec.hpp"

#include <algorithm>

namespace sennit {

FlatStrand::FlatStrand(const Strand& strand) : strand_(&strand) {
  number_steps();
  number_messages();
  join_messages();
}

void FlatStrand::number_steps() {
  const Schedule& plan = schedule();
  for (int rank = 0; rank < plan.problem.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    first_lane_.push_back(static_cast<int>(lanes_.size()));
    for (std::size_t lane = 0; lane < plan.ranks[r].size(); ++lane) {
      const std::vector<Step>& steps = plan.ranks[r][lane].steps;
      const int number = static_cast<int>(lanes_.size());
      lanes_.push_back({.rank = rank,
                        .lane = static_cast<int>(lane),
                        .first_step = static_cast<int>(steps_.size()),
                        .steps = static_cast<int>(steps.size()),
                        .burst = strand_->lanes[r][lane].burst});
      for (const Step& step : steps) {
        steps_.push_back({.step = &step, .lane = number, .rank = rank});
      }
    }
  }
}

void FlatStrand::number_messages() {
  const auto& channels = schedule().channels;
  first_message_.assign(channels.size() + 1, 0);
  for (const StepInfo& info : steps_) {
    for (const int channel : info.step->out) {
      ++first_message_[static_cast<std::size_t>(channel) + 1];
    }
  }
  int recipients = 0;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const int readers = static_cast<int>(channels[c].readers.size());
    for (int m = 0; m < first_message_[c + 1]; ++m) {
      messages_.push_back(
          {.channel = static_cast<int>(c), .first_recipient = recipients, .recipients = readers});
      recipients += readers;
    }
    first_message_[c + 1] += first_message_[c];
  }
  recipients_.resize(static_cast<std::size_t>(recipients));
}

void FlatStrand::join_messages() {
  const auto& channels = schedule().channels;
  std::vector<int> next_sent(first_message_.begin(), first_message_.end() - 1);
  // Readers take the messages of a channel at their own pace, so each has its own counter.
  std::vector<int> first_counter{0};
  for (const Channel& channel : channels) {
    first_counter.push_back(first_counter.back() + static_cast<int>(channel.readers.size()));
  }
  std::vector<int> next_taken(static_cast<std::size_t>(first_counter.back()), 0);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = *steps_[s].step;
    sent_.begin.push_back(static_cast<int>(sent_.items.size()));
    for (const int channel : step.out) {
      const int message = next_sent[static_cast<std::size_t>(channel)]++;
      messages_[static_cast<std::size_t>(message)].sender = static_cast<int>(s);
      sent_.items.push_back(message);
    }
    taken_.begin.push_back(static_cast<int>(taken_.items.size()));
    for (const int channel : step.in) {
      const auto c = static_cast<std::size_t>(channel);
      const auto reader = std::ranges::find(channels[c].readers, steps_[s].rank, &LaneId::rank) -
                          channels[c].readers.begin();
      const int message =
          first_message_[c] + next_taken[static_cast<std::size_t>(first_counter[c] + reader)]++;
      const int slot = messages_[static_cast<std::size_t>(message)].first_recipient;
      recipients_[static_cast<std::size_t>(slot + reader)] = static_cast<int>(s);
      taken_.items.push_back(message);
    }
  }
  sent_.begin.push_back(static_cast<int>(sent_.items.size()));
  taken_.begin.push_back(static_cast<int>(taken_.items.size()));
}

const std::vector<Block>& FlatStrand::source_blocks(const Message& message) const {
  const Step& step = *steps_[static_cast<std::size_t>(message.sender)].step;
  return step.kind == StepKind::kSend ? step.from : step.to;
}

std::optional<Codec> FlatStrand::lossy_codec(const Message& message) const {
  const std::optional<Codec> codec = binding(message).codec;
  return codec && !is_lossless(*codec) ? codec : std::nullopt;
}

bool FlatStrand::is_lossy() const {
  const auto changes = [](const std::optional<Codec>& codec) {
    return codec && !is_lossless(*codec);
  };
  return changes(strand_->home_codec) ||
         std::ranges::any_of(strand_->channels, changes, &ChannelBinding::codec);
}

bool FlatStrand::codes_at_home(int step, const Block& block) const {
  const StepKind kind = steps_[static_cast<std::size_t>(step)].step->kind;
  const bool keeps =
      kind == StepKind::kCopy || kind == StepKind::kReduce || kind == StepKind::kRecvReduce;
  return keeps && block.space == Space::kInput && strand_->home_codec &&
         !is_lossless(*strand_->home_codec);
}

std::string FlatStrand::describe(int step) const {
  const StepInfo& info = steps_[static_cast<std::size_t>(step)];
  const LaneInfo& lane = lanes_[static_cast<std::size_t>(info.lane)];
  return fmt::format("rank {} lane {} step {} ({})",
                     lane.rank,
                     lane.lane,
                     step - lane.first_step,
                     name(info.step->kind));
}

}  // namespace sennit
