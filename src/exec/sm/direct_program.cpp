#include "exec/sm/direct_program.hpp"

#include "base/integers.hpp"

#include <algorithm>
#include <optional>

namespace sennit::sm {
namespace {

// The step of the writer that sends the only message of a channel.
const Step* sender_of(const Schedule& schedule, int channel) {
  const LaneId writer = schedule.channels[static_cast<std::size_t>(channel)].writer;
  const Lane& lane =
      schedule.ranks[static_cast<std::size_t>(writer.rank)][static_cast<std::size_t>(writer.lane)];
  const auto step = std::ranges::find_if(
      lane.steps, [&](const Step& s) { return std::ranges::find(s.out, channel) != s.out.end(); });
  return step == lane.steps.end() ? nullptr : &*step;
}

// Blocks of the input leave in phase 0; what has arrived leaves in phase 1.
bool is_first_hop(const Step& sender) {
  return sender.kind == StepKind::kSend && sender.from.front().space == Space::kInput;
}

// Every rank sends one block of its input to all others, or nothing. To all: who writes a slot that
// several read waits for those to whom it writes, so these have to be the ones that read it before.
bool push_once(const Schedule& schedule) {
  return std::ranges::all_of(schedule.ranks, [&](const auto& lanes) {
    std::optional<Block> pushed;
    bool is_one = true;
    std::size_t readers = 0;
    for (const Lane& lane : lanes) {
      for (const Step& step : lane.steps) {
        if (step.kind == StepKind::kSend && is_first_hop(step)) {
          is_one = is_one && pushed.value_or(step.from.front()) == step.from.front();
          pushed = step.from.front();
          readers += step.out.size();
        }
      }
    }
    return is_one && (readers == 0 || readers + 1 == schedule.ranks.size());
  });
}

class Compiler {
 public:
  Compiler(const Schedule& schedule, int rank) : schedule_(schedule) {
    program_.problem = schedule.problem;
    program_.rank = rank;
    program_.pushes_once = push_once(schedule);
  }

  Result<DirectProgram> run() {
    if (schedule_.problem.ranks > kMaxRanks) {
      return refuse(fmt::format(
          "it joins {} ranks; the kernel has room for {}", schedule_.problem.ranks, kMaxRanks));
    }
    if (!schedule_.scratch.empty()) {
      return refuse("it uses scratch memory");
    }
    for (const Channel& channel : schedule_.channels) {
      if (channel.readers.size() != 1) {
        return refuse("a message of it has several readers");
      }
    }
    for (const Lane& lane : schedule_.ranks[static_cast<std::size_t>(program_.rank)]) {
      for (const Step& step : lane.steps) {
        SENNIT_RETURN_IF_ERROR(take(step));
      }
    }
    SENNIT_RETURN_IF_ERROR(check_forwarding());
    return program_;
  }

 private:
  Status refuse(std::string_view why) const {
    return fail(Code::kUnsupported,
                "{}/{} is no schedule for the direct kernel: {}",
                name(schedule_.problem.collective),
                schedule_.algorithm,
                why);
  }

  Status take(const Step& step) {
    const std::size_t data_blocks = std::max(step.from.size(), step.to.size());
    if (data_blocks > 1 && step.kind != StepKind::kCopy) {
      return refuse("a message of it has several blocks");
    }
    switch (step.kind) {
      case StepKind::kSend:
        return send(step);
      case StepKind::kRecv:
        return recv(step);
      case StepKind::kRecvReduce:
        return recv_reduce(step);
      case StepKind::kCopy:
        return copy(step);
      case StepKind::kReduce:
      case StepKind::kToken:
        return refuse("it has steps other than send, recv, recv_reduce and copy");
    }
    return {};
  }

  Status send(const Step& step) {
    const Block from = step.from.front();
    if (from.space == Space::kInput) {
      for (const int channel : step.out) {
        SENNIT_RETURN_IF_ERROR(set(program_.push, reader(channel), from.index));
      }
      return {};
    }
    return forward(step.out, from.index);
  }

  Status recv(const Step& step) {
    const int channel = step.in.front();
    const Step* const sender = sender_of(schedule_, channel);
    if (sender == nullptr || step.to.size() != 1 || step.to.front().space != Space::kOutput) {
      return refuse("a message of it does not end in the output");
    }
    const int to = step.to.front().index;
    if (!is_first_hop(*sender)) {
      return step.out.empty() ? set(program_.collect, writer(channel), to)
                              : refuse("it has more than two hops");
    }
    program_.arrive_from |= bit(writer(channel));
    SENNIT_RETURN_IF_ERROR(set(program_.arrive, writer(channel), to));
    return forward(step.out, to);
  }

  Status recv_reduce(const Step& step) {
    program_.stores_sum = !step.to.empty();
    const bool has_place = program_.stores_sum ? step.to.front().space == Space::kOutput
                                               : !step.from.empty() && !step.out.empty();
    if (program_.arrival == Arrival::kReduce || !has_place) {
      return refuse("it does not reduce once, into the output or for others");
    }
    program_.arrival = Arrival::kReduce;
    program_.own_from = step.from.empty() ? -1 : step.from.front().index;
    program_.own_to = program_.stores_sum ? step.to.front().index : program_.own_from;
    std::vector<int> operands;
    if (!step.from.empty()) {
      operands.push_back(program_.rank);
    }
    for (const int channel : step.in) {
      const Step* const sender = sender_of(schedule_, channel);
      if (sender == nullptr || !is_first_hop(*sender)) {
        return refuse("it reduces what has been reduced");
      }
      operands.push_back(writer(channel));
      program_.arrive_from |= bit(writer(channel));
    }
    std::vector<int> ordered = operands;
    if (!step.order.empty()) {
      std::ranges::transform(step.order, ordered.begin(), [&](int operand) {
        return operands[static_cast<std::size_t>(operand)];
      });
    }
    if (!std::ranges::is_sorted(ordered)) {
      return refuse("it does not reduce in the order of ranks");
    }
    return forward(step.out, program_.own_to);
  }

  Status copy(const Step& step) {
    for (std::size_t k = 0; k < step.from.size(); ++k) {
      if (step.from[k].space != Space::kInput || step.to[k].space != Space::kOutput) {
        return refuse("it copies other things than the input to the output");
      }
      SENNIT_RETURN_IF_ERROR(copy(step.from[k].index, step.to[k].index));
    }
    return {};
  }

  // A root's copies of neighbouring blocks are one range.
  Status copy(int from, int to) {
    if (program_.own_from < 0) {
      program_.own_from = from;
      program_.own_to = to;
      return {};
    }
    const bool is_next = from == program_.own_from + program_.own_blocks &&
                         to == program_.own_to + program_.own_blocks;
    ++program_.own_blocks;
    return is_next ? Status() : refuse("it copies blocks that are no neighbours");
  }

  Status forward(const std::vector<int>& channels, int block) {
    for (const int channel : channels) {
      program_.forward_to |= bit(reader(channel));
      forwarded_ = block;
    }
    return {};
  }

  // Phase 1 passes on the one block that arrived in phase 0.
  Status check_forwarding() const {
    if (program_.forward_to == 0) {
      return {};
    }
    const auto arrived = std::ranges::count_if(program_.arrive.of, [](int b) { return b >= 0; });
    const bool reduced =
        program_.arrival == Arrival::kReduce && forwarded_ == program_.own_to && arrived == 0;
    const bool passed =
        program_.arrival == Arrival::kStore && arrived == 1 &&
        std::ranges::find(program_.arrive.of, forwarded_) != program_.arrive.of.end();
    return reduced || passed ? Status() : refuse("it passes on more than what arrived");
  }

  Status set(DirectProgram::Blocks& blocks, int rank, int block) {
    int& place = blocks.of[static_cast<std::size_t>(rank)];
    if (place >= 0) {
      return refuse("two ranks exchange more than one message a hop");
    }
    place = block;
    return {};
  }

  int writer(int channel) const {
    return schedule_.channels[static_cast<std::size_t>(channel)].writer.rank;
  }
  int reader(int channel) const {
    return schedule_.channels[static_cast<std::size_t>(channel)].readers.front().rank;
  }

  const Schedule& schedule_;
  DirectProgram program_;
  int forwarded_ = -1;
};

}  // namespace

Result<DirectProgram> compile_direct(const Schedule& schedule, int rank) {
  return Compiler(schedule, rank).run();
}

void bind(const DirectProgram& program,
          std::int64_t count,
          std::int64_t element_bytes,
          DirectCall& call) {
  const auto range_of = [&](int block) -> ByteRange {
    if (block < 0) {
      return {};
    }
    const ElementRange range = block_range(program.problem, count, element_bytes, block);
    return {range.begin * element_bytes, range.length * element_bytes};
  };
  const auto fill = [&](const DirectProgram::Blocks& blocks, DirectCall::Ranges& ranges) {
    std::uint32_t set = 0;
    for (int rank = 0; rank < program.problem.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      ranges[at] = range_of(blocks.of[at]);
      set |= blocks.of[at] >= 0 ? bit(rank) : 0;
    }
    return set;
  };
  call.push_to = fill(program.push, call.push);
  fill(program.arrive, call.arrive[0]);
  call.arrive_from = {program.arrive_from, fill(program.collect, call.arrive[1])};
  call.forward_to = program.forward_to;
  call.pushes_once = program.pushes_once;
  call.arrival = program.arrival;
  call.stores_sum = program.stores_sum;
  call.own_from = range_of(program.own_from);
  call.own_to = range_of(program.own_to);
  for (int i = 1; i < program.own_blocks; ++i) {
    call.own_from.length += range_of(program.own_from + i).length;
    call.own_to.length += range_of(program.own_to + i).length;
  }
  if (is_reduction(program.problem.collective) && program.own_from >= 0) {
    call.arrival = Arrival::kReduce;  // also of one contribution, which may be scaled
  }
  const bool in_place = call.input + call.own_from.begin == call.output + call.own_to.begin;
  call.own = program.own_from >= 0 && (call.arrival == Arrival::kReduce || !in_place);
  if (program.arrival == Arrival::kStore && program.forward_to != 0) {
    // What arrived is what is passed on; the kernel takes its length from here.
    for (int rank = 0; rank < program.problem.ranks; ++rank) {
      if ((call.arrive_from[0] & bit(rank)) != 0) {
        call.own_to = call.arrive[0][static_cast<std::size_t>(rank)];
      }
    }
  }
  const std::uint32_t others = (bit(program.problem.ranks) - 1) & ~bit(program.rank);
  call.same_for_all =
      call.push_to == others && std::ranges::all_of(program.push.of, [&](int block) {
        return block < 0 ||
               block == program.push.of[static_cast<std::size_t>(program.rank == 0 ? 1 : 0)];
      });
  const ByteRange& sent = call.push[program.rank == 0 ? 1 : 0];
  call.own_is_sent = call.same_for_all && call.own && call.arrival == Arrival::kStore &&
                     sent.begin == call.own_from.begin && sent.length == call.own_from.length;
  call.rank = static_cast<std::int8_t>(program.rank);
  call.ranks = static_cast<std::int8_t>(program.problem.ranks);
}

bool hears_all(const DirectCall& call, std::int64_t last_block) {
  for (int peer = 0; peer < call.ranks; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const bool sends = (call.push_to & bit(peer)) != 0 && call.push[at].length > last_block;
    const std::int64_t arrives =
        call.arrival == Arrival::kReduce ? call.own_to.length : call.arrive[0][at].length;
    const bool hears = (call.arrive_from[0] & bit(peer)) != 0 && arrives > last_block;
    if (peer != call.rank && !(sends && hears)) {
      return false;
    }
  }
  return true;
}

std::int64_t longest_range(const Problem& problem, std::int64_t count, std::int64_t element_bytes) {
  // The first block of a cut vector is the longest; otherwise all are equal.
  return block_range(problem, count, element_bytes, 0).length * element_bytes;
}

}  // namespace sennit::sm
