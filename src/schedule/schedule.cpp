#include "schedule/schedule.hpp"

#include "schedule/tokens.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Walks one schedule and stops at the first thing that is out of place.
class StructureCheck {
 public:
  explicit StructureCheck(const Schedule& schedule) : schedule_(schedule) {}

  Status run() {
    SENNIT_RETURN_IF_ERROR(check_problem());
    SENNIT_RETURN_IF_ERROR(check_channels());
    sent_.assign(schedule_.channels.size(), 0);
    received_.resize(schedule_.channels.size());
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      received_[c].assign(schedule_.channels[c].readers.size(), 0);
    }
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      SENNIT_RETURN_IF_ERROR(check_rank(rank));
    }
    return check_message_counts();
  }

 private:
  template <typename... Args>
  Status wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return Status(Code::kInvalidArgument,
                  fmt::format("schedule {} {}: {}",
                              name(schedule_.problem.collective),
                              schedule_.algorithm,
                              fmt::format(format, std::forward<Args>(args)...)));
  }

  Status check_problem() const {
    const Problem& p = schedule_.problem;
    if (p.ranks < 1 || p.root < 0 || p.root >= p.ranks || p.cut < 1) {
      return wrong("ranks {}, root {}, cut {} make no problem", p.ranks, p.root, p.cut);
    }
    if (p.collective == Collective::kSendRecv && p.ranks != 2) {
      return wrong("send_recv has two roles, not {}", p.ranks);
    }
    if (p.varying && !has_varying_form(p.collective)) {
      return wrong("its blocks cannot vary in length");
    }
    if (schedule_.ranks.size() != static_cast<std::size_t>(p.ranks)) {
      return wrong("{} rank programs for {} ranks", schedule_.ranks.size(), p.ranks);
    }
    return check_names();
  }

  // Scratch is printed by name, so names must be words that identify it.
  Status check_names() const {
    if (!is_word(schedule_.algorithm)) {
      return wrong("the name of an algorithm is a word");
    }
    std::vector<std::string_view> names{name(Space::kInput), name(Space::kOutput)};
    for (const Scratch& scratch : schedule_.scratch) {
      if (scratch.blocks < 1 || scratch.depth < 1) {
        return wrong("scratch '{}' needs at least one block and depth 1", scratch.name);
      }
      if (!is_word(scratch.name) || std::ranges::count(names, scratch.name) > 0) {
        return wrong("scratch '{}' needs a word of its own for a name", scratch.name);
      }
      names.push_back(scratch.name);
    }
    return {};
  }

  [[nodiscard]] bool lane_exists(LaneId id) const {
    return id.rank >= 0 && id.rank < schedule_.problem.ranks && id.lane >= 0 &&
           static_cast<std::size_t>(id.lane) <
               schedule_.ranks[static_cast<std::size_t>(id.rank)].size();
  }

  Status check_channels() const {
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      const Channel& channel = schedule_.channels[c];
      if (!lane_exists(channel.writer) || channel.readers.empty()) {
        return wrong("channel {} lacks a writing lane or a reader", c);
      }
      std::vector<int> ranks{channel.writer.rank};
      for (const LaneId reader : channel.readers) {
        if (!lane_exists(reader)) {
          return wrong(
              "channel {} is read by lane {}.{}, which is not there", c, reader.rank, reader.lane);
        }
        ranks.push_back(reader.rank);
      }
      std::ranges::sort(ranks);
      if (std::ranges::adjacent_find(ranks) != ranks.end()) {
        return wrong("channel {} has two ends on one rank", c);
      }
    }
    return {};
  }

  Status check_rank(int rank) {
    const auto& lanes = schedule_.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (std::size_t index = 0; index < lanes[lane].steps.size(); ++index) {
        const Status status = check_step(rank, static_cast<int>(lane), lanes[lane].steps[index]);
        if (!status.ok()) {
          return wrong("rank {} lane {} step {}: {}", rank, lane, index, status.message());
        }
      }
    }
    return {};
  }

  Status check_step(int rank, int lane, const Step& step) {
    for (const auto* list : {&step.from, &step.to}) {
      for (const Block& block : *list) {
        SENNIT_RETURN_IF_ERROR(check_block(rank, block));
      }
    }
    for (const Block& block : step.to) {
      if (block.space == Space::kInput) {
        return fail(Code::kInvalidArgument, "writes input[{}]", block.index);
      }
    }
    SENNIT_RETURN_IF_ERROR(check_lists(step));
    SENNIT_RETURN_IF_ERROR(check_order(step));
    SENNIT_RETURN_IF_ERROR(count_messages({rank, lane}, step));
    const auto& lanes = schedule_.ranks[static_cast<std::size_t>(rank)];
    for (const StepRef ref : step.after) {
      if (ref.lane < 0 || static_cast<std::size_t>(ref.lane) >= lanes.size() || ref.step < 0 ||
          static_cast<std::size_t>(ref.step) >=
              lanes[static_cast<std::size_t>(ref.lane)].steps.size()) {
        return fail(Code::kInvalidArgument, "after {}.{} is not there", ref.lane, ref.step);
      }
    }
    return {};
  }

  [[nodiscard]] Status check_block(int rank, const Block& block) const {
    int limit = 0;
    switch (block.space) {
      case Space::kInput:
        limit = schedule_.problem.input_blocks(rank);
        break;
      case Space::kOutput:
        limit = schedule_.problem.output_blocks(rank);
        break;
      case Space::kScratch:
        if (block.scratch < 0 ||
            static_cast<std::size_t>(block.scratch) >= schedule_.scratch.size()) {
          return fail(Code::kInvalidArgument, "there is no scratch {}", block.scratch);
        }
        limit = schedule_.scratch[static_cast<std::size_t>(block.scratch)].blocks;
        break;
    }
    if (block.index < 0 || block.index >= limit) {
      return fail(Code::kInvalidArgument,
                  "{}[{}] is outside its {} blocks",
                  name(block.space),
                  block.index,
                  limit);
    }
    return {};
  }

  static Status check_lists(const Step& step) {
    const std::size_t from = step.from.size();
    const std::size_t to = step.to.size();
    bool good = false;
    switch (step.kind) {
      case StepKind::kSend:
        good = from > 0 && to == 0 && step.in.empty() && !step.out.empty();
        break;
      case StepKind::kRecv:
        good = from == 0 && step.in.size() == 1 && (to > 0 || !step.out.empty());
        break;
      case StepKind::kRecvReduce:
        good = !step.in.empty() && (to > 0 || !step.out.empty()) &&
               (from == 0 || to == 0 || from == to) && (from > 0 || step.in.size() > 1);
        break;
      case StepKind::kCopy:
        good = from > 0 && from == to && step.in.empty() && step.out.empty();
        break;
      case StepKind::kReduce:
        good = to > 0 && from >= 2 * to && from % to == 0 && step.in.empty();
        break;
      case StepKind::kToken:
        good = from == 0 && to == 0 && !(step.in.empty() && step.out.empty());
        break;
    }
    return good ? Status()
                : fail(Code::kInvalidArgument,
                       "a {} cannot have {} from, {} to, {} in and {} out",
                       name(step.kind),
                       from,
                       to,
                       step.in.size(),
                       step.out.size());
  }

  static Status check_order(const Step& step) {
    if (step.order.empty()) {
      return {};
    }
    std::size_t operands = 0;
    if (step.kind == StepKind::kRecvReduce) {
      operands = step.in.size() + (step.from.empty() ? 0 : 1);
    } else if (step.kind == StepKind::kReduce) {
      operands = step.from.size() / step.to.size();
    }
    std::vector<int> sorted = step.order;
    std::ranges::sort(sorted);
    bool permutation = sorted.size() == operands;
    for (std::size_t i = 0; permutation && i < sorted.size(); ++i) {
      permutation = sorted[i] == static_cast<int>(i);
    }
    return permutation ? Status()
                       : fail(Code::kInvalidArgument,
                              "`order` is not a permutation of its {} operands",
                              operands);
  }

  Status count_messages(LaneId lane, const Step& step) {
    for (const int c : step.out) {
      if (c < 0 || static_cast<std::size_t>(c) >= schedule_.channels.size() ||
          schedule_.channels[static_cast<std::size_t>(c)].writer != lane) {
        return fail(Code::kInvalidArgument, "it is not the writer of channel {}", c);
      }
      ++sent_[static_cast<std::size_t>(c)];
    }
    for (const int c : step.in) {
      if (c < 0 || static_cast<std::size_t>(c) >= schedule_.channels.size()) {
        return fail(Code::kInvalidArgument, "there is no channel {}", c);
      }
      const auto& readers = schedule_.channels[static_cast<std::size_t>(c)].readers;
      const auto reader = std::ranges::find(readers, lane);
      if (reader == readers.end()) {
        return fail(Code::kInvalidArgument, "it is not a reader of channel {}", c);
      }
      ++received_[static_cast<std::size_t>(c)][static_cast<std::size_t>(reader - readers.begin())];
    }
    return {};
  }

  Status check_message_counts() const {
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      for (std::size_t r = 0; r < received_[c].size(); ++r) {
        if (received_[c][r] != sent_[c]) {
          return wrong("channel {} carries {} messages a tile, but rank {} takes {}",
                       c,
                       sent_[c],
                       schedule_.channels[c].readers[r].rank,
                       received_[c][r]);
        }
      }
    }
    return {};
  }

  const Schedule& schedule_;
  std::vector<int> sent_;
  std::vector<std::vector<int>> received_;
};

}  // namespace

int messages_per_tile(const Schedule& schedule, int channel) {
  const LaneId writer = schedule.channels[static_cast<std::size_t>(channel)].writer;
  int count = 0;
  for (const Step& step :
       schedule.ranks[static_cast<std::size_t>(writer.rank)][static_cast<std::size_t>(writer.lane)]
           .steps) {
    count += static_cast<int>(std::ranges::count(step.out, channel));
  }
  return count;
}

int largest_message_blocks(const Schedule& schedule) {
  // A message is as long as the lists of the step that sends or stores it; one that only passes
  // through is as long as where it came from, so taking every step's lists covers all messages.
  std::size_t largest = 0;
  for (const auto& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) {
      for (const Step& step : lane.steps) {
        if (step.kind == StepKind::kSend || step.kind == StepKind::kRecvReduce) {
          largest = std::max(largest, step.from.size());
        }
        if (!step.in.empty() || !step.out.empty()) {
          largest = std::max(largest, step.to.size());
        }
      }
    }
  }
  return static_cast<int>(largest);
}

bool is_stored_whole(const Schedule& schedule, int channel) {
  const Channel& ends = schedule.channels[static_cast<std::size_t>(channel)];
  const auto steps = [&](LaneId id) -> const std::vector<Step>& {
    return schedule.ranks[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)]
        .steps;
  };
  const auto uses = [channel](const std::vector<int>& list) {
    return std::ranges::find(list, channel) != list.end();
  };
  const auto sent_whole = [&](const Step& step) {
    return !uses(step.out) || (step.kind == StepKind::kSend ? !step.pre : !step.to.empty());
  };
  const auto stored = [&](const Step& step) {
    return !uses(step.in) || (step.kind == StepKind::kRecv && !step.to.empty());
  };
  return std::ranges::all_of(steps(ends.writer), sent_whole) &&
         std::ranges::all_of(ends.readers, [&](LaneId reader) {
           return std::ranges::all_of(steps(reader), stored);
         });
}

Status check_structure(const Schedule& schedule) { return StructureCheck(schedule).run(); }

std::string_view name(StepKind kind) {
  switch (kind) {
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "recv";
    case StepKind::kRecvReduce:
      return "recv_reduce";
    case StepKind::kCopy:
      return "copy";
    case StepKind::kReduce:
      return "reduce";
    case StepKind::kToken:
      return "token";
  }
  return "?";
}

std::string_view name(Space space) {
  switch (space) {
    case Space::kInput:
      return "input";
    case Space::kOutput:
      return "output";
    case Space::kScratch:
      return "scratch";
  }
  return "?";
}

std::string_view name(Place place) {
  switch (place) {
    case Place::kDevice:
      return "device";
    case Place::kHost:
      return "host";
  }
  return "?";
}

std::string_view name(Need need) {
  switch (need) {
    case Need::kMove:
      return "move";
    case Need::kReduce:
      return "reduce";
  }
  return "?";
}

}  // namespace sennit
