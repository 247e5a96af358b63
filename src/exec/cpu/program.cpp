#include "exec/cpu/program.hpp"

#include "exec/cpu/coded_block.hpp"
#include "types/reduce.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace sennit {
namespace {

constexpr std::int64_t kScratchAlignBytes = 64;

// Of a block of at most so many bytes of any type that the codec takes.
std::int64_t most_slot_bytes(Codec codec, std::int64_t block_bytes) {
  std::size_t most = 0;
  for (const Dtype dtype : kDtypes) {
    if (takes(codec, dtype)) {
      const auto elements = block_bytes / static_cast<std::int64_t>(size_bytes(dtype));
      most = std::max(most, coded_room(codec, dtype, elements));
    }
  }
  return static_cast<std::int64_t>(most);
}

// Compiles one rank's part of one plan.
class Compiler {
 public:
  Compiler(const Plan& plan, int rank, const ProgramLimits& limits)
      : plan_(plan), rank_(rank), limits_(limits) {}

  Result<Program> run() {
    for (std::size_t s = 0; s < plan_.strands.size(); ++s) {
      SENNIT_RETURN_IF_ERROR(check_strand(plan_.strands[s]));
      for (int copy = 0; copy < plan_.strands[s].width; ++copy) {
        SENNIT_RETURN_IF_ERROR(compile_copy(static_cast<int>(s), copy));
      }
    }
    if (plan_.division == Division::kClaimed) {
      SENNIT_RETURN_IF_ERROR(make_log_links());
    }
    return std::move(program_);
  }

 private:
  static std::int64_t block_bytes(const Strand& strand) {
    const std::int64_t bytes =
        std::max(strand.tile_bytes, static_cast<std::int64_t>(kLargestElementBytes));
    return (bytes + kScratchAlignBytes - 1) / kScratchAlignBytes * kScratchAlignBytes;
  }

  Status check_strand(const Strand& strand) const {
    for (std::size_t c = 0; c < strand.channels.size(); ++c) {
      SENNIT_RETURN_IF_ERROR(check_channel(strand, static_cast<int>(c)));
    }
    const bool single_tiles =
        plan_.division == Division::kClaimed ||
        std::ranges::any_of(strand.channels,
                            [](const ChannelBinding& channel) { return channel.paths.size() > 1; });
    SENNIT_RETURN_IF_ERROR(check_scaling(*strand.schedule));
    SENNIT_RETURN_IF_ERROR(check_codecs(strand));
    for (const auto& lanes : strand.lanes) {
      for (const LaneBinding& lane : lanes) {
        if (lane.engine != Engine::kCpu) {
          return fail(Code::kUnsupported, "a lane is bound to the {} engine", name(lane.engine));
        }
        if (single_tiles && lane.burst != 1) {
          return fail(Code::kUnsupported,
                      "the cpu engine runs bundles and claimed plans tile by tile, not in bursts");
        }
      }
    }
    return {};
  }

  Status check_channel(const Strand& strand, int index) const {
    const ChannelBinding& channel = strand.channels[static_cast<std::size_t>(index)];
    // Fewer slots may lock up, and more order less than what the proof of no races relies on.
    if (static_cast<std::uint32_t>(channel.slots) != limits_.slots) {
      return fail(Code::kUnsupported,
                  "the plan was proved with {} slots a channel, but the rings have {}",
                  channel.slots,
                  limits_.slots);
    }
    if (may_use(channel, Protocol::kDirectGet) && !is_stored_whole(*strand.schedule, index)) {
      return fail(Code::kUnsupported,
                  "channel {} carries messages that are not stored whole at both ends, so they "
                  "cannot be fetched by direct_get",
                  index);
    }
    for (const Path& path : channel.paths) {
      SENNIT_RETURN_IF_ERROR(check_path(strand, channel, path.kind));
    }
    return channel.paths.size() > 1 ? check_bundle(strand, index) : Status();
  }

  Status check_path(const Strand& strand, const ChannelBinding& channel, PathKind path) const {
    const Protocol protocol = protocol_on(channel, path);
    // A channel of rails may have readers on the writer's own node, which it reaches by memory.
    const bool slots =
        protocol == Protocol::kSlots && (path == PathKind::kShm || path == PathKind::kRail);
    if (!slots && !(protocol == Protocol::kDirectGet && path == PathKind::kCma)) {
      return fail(
          Code::kUnsupported,
          "the cpu engine runs slots over shm or rails and direct_get over cma, not {} over {}",
          name(protocol),
          name(path));
    }
    const std::int64_t block_bytes =
        std::max(strand.tile_bytes, static_cast<std::int64_t>(kLargestElementBytes));
    const auto message_bytes =
        static_cast<std::int64_t>(largest_message_blocks(*strand.schedule)) *
        (channel.codec ? most_slot_bytes(*channel.codec, block_bytes) : block_bytes);
    if (slots && message_bytes > static_cast<std::int64_t>(limits_.slot_bytes)) {
      return fail(Code::kUnsupported,
                  "messages of {} bytes do not fit slots of {}; use smaller tiles",
                  message_bytes,
                  limits_.slot_bytes);
    }
    return {};
  }

  Status check_bundle(const Strand& strand, int index) const {
    if (strand.channels[static_cast<std::size_t>(index)].chooser == Chooser::kReader &&
        plan_.division == Division::kClaimed) {
      return fail(Code::kUnsupported,
                  "a reader that chooses must know how many messages will come, which it does not "
                  "in a claimed plan");
    }
    for (const auto& lanes : strand.schedule->ranks) {
      for (const Lane& lane : lanes) {
        for (const Step& step : lane.steps) {
          if (std::ranges::count(step.in, index) > 1 || std::ranges::count(step.out, index) > 1) {
            return fail(Code::kUnsupported,
                        "a step names bundle {} twice; the cpu engine takes one message at a time",
                        index);
          }
        }
      }
    }
    return {};
  }

  // A received message that is stored has been scaled where it came from.
  static Status check_scaling(const Schedule& schedule) {
    for (const auto& lanes : schedule.ranks) {
      for (const Lane& lane : lanes) {
        for (const Step& step : lane.steps) {
          if (step.kind == StepKind::kRecv && step.post) {
            return fail(Code::kUnsupported, "the cpu engine does not scale what a recv stores");
          }
        }
      }
    }
    return {};
  }

  // A step codes what it makes once, and passes on what came as it came.
  static Status check_codecs(const Strand& strand) {
    const auto codec_of = [&](int channel) {
      return strand.channels[static_cast<std::size_t>(channel)].codec;
    };
    for (const auto& lanes : strand.schedule->ranks) {
      for (const Lane& lane : lanes) {
        for (const Step& step : lane.steps) {
          if (step.kind == StepKind::kToken || step.out.empty()) {
            continue;
          }
          const auto codec = codec_of(step.out.front());
          const bool passes_on = step.kind == StepKind::kRecv;
          if (std::ranges::any_of(step.out, [&](int c) { return codec_of(c) != codec; }) ||
              (passes_on && codec_of(step.in.front()) != codec)) {
            return fail(Code::kUnsupported,
                        "a step sends one message on channels of different codecs");
          }
        }
      }
    }
    return {};
  }

  // Where the blocks of message `index` of `channel` come from, as blocks of the writer.
  // A message that only passes through is what the writer received.
  std::vector<LengthOf> lengths_of_message(const Schedule& schedule, int channel, int index) const {
    const LaneId writer = schedule.channels[static_cast<std::size_t>(channel)].writer;
    int seen = 0;
    for (const Step& step : steps_of(schedule, writer)) {
      for (const int out : step.out) {
        if (out == channel && seen++ == index) {
          return lengths_of_step(schedule, writer, step);
        }
      }
    }
    return {};
  }

  std::vector<LengthOf> lengths_of_step(const Schedule& schedule,
                                        LaneId lane,
                                        const Step& step) const {
    const std::vector<Block>& named = step.to.empty() ? step.from : step.to;
    if (!named.empty()) {
      std::vector<LengthOf> lengths;
      for (const Block& block : named) {
        lengths.push_back({block.space, block.index});
      }
      return lengths;
    }
    if (step.in.empty()) {
      return {};
    }
    const int in = step.in.front();
    int index = 0;
    for (const Step& earlier : steps_of(schedule, lane)) {
      if (&earlier == &step) {
        break;
      }
      index += static_cast<int>(std::ranges::count(earlier.in, in));
    }
    return lengths_of_message(schedule, in, index);
  }

  static const std::vector<Step>& steps_of(const Schedule& schedule, LaneId id) {
    return schedule.ranks[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)]
        .steps;
  }

  Status compile_copy(int strand_index, int copy) {
    const Strand& strand = plan_.strands[static_cast<std::size_t>(strand_index)];
    const Schedule& schedule = *strand.schedule;
    SENNIT_RETURN_IF_ERROR(make_links(strand_index, copy));
    std::vector<std::int64_t> scratch_begin;
    for (const Scratch& scratch : schedule.scratch) {
      scratch_begin.push_back(program_.scratch_bytes);
      program_.scratch_bytes += std::int64_t{scratch.blocks} * scratch.depth * block_bytes(strand);
    }
    const auto& lanes = schedule.ranks[static_cast<std::size_t>(rank_)];
    const int first_lane = static_cast<int>(program_.lanes.size());
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      ProgramLane lane;
      lane.strand = strand_index;
      lane.copy = copy;
      lane.schedule_lane = static_cast<int>(l);
      lane.burst = strand.lanes[static_cast<std::size_t>(rank_)][l].burst;
      std::map<int, int> next;  // message number of each channel, as the lane goes on
      for (const Step& step : lanes[l].steps) {
        lane.steps.push_back(compile_step(strand, step, static_cast<int>(l), scratch_begin, next));
        add_waits(schedule, step, static_cast<int>(l), first_lane, lane.steps.back());
      }
      program_.lanes.push_back(std::move(lane));
    }
    return {};
  }

  // Gives every channel between two ranks its ports, in the order in which all ranks walk the plan:
  // one a path, and two more where the reader chooses. A channel with several readers is a ring to
  // each of them, which couples less than one hub.
  Status make_links(int strand_index, int copy) {
    const Strand& strand = plan_.strands[static_cast<std::size_t>(strand_index)];
    const Schedule& schedule = *strand.schedule;
    ends_of_.clear();
    for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
      const Channel& channel = schedule.channels[c];
      const ChannelBinding& binding = strand.channels[c];
      const int per_tile = messages_per_tile(schedule, static_cast<int>(c));
      for (const LaneId reader : channel.readers) {
        const bool writes = channel.writer.rank == rank_;
        const int first_link = static_cast<int>(program_.links.size());
        for (const Path& path : binding.paths) {
          SENNIT_RETURN_IF_ERROR(
              add_link(channel.writer.rank,
                       reader.rank,
                       {.messages_per_tile = binding.paths.size() == 1 ? per_tile : 0,
                        .strand = strand_index,
                        .copy = copy,
                        .path = path,
                        .protocol = protocol_on(binding, path.kind),
                        .skips = schedule.problem.varying && channel.single_hop}));
        }
        MessageRef end{.link = first_link,
                       .protocol = protocol_on(binding, binding.paths.front().kind),
                       .codec = binding.codec};
        ProgramBundle bundle{.first_link = first_link,
                             .paths = static_cast<int>(binding.paths.size()),
                             .outgoing = writes,
                             .messages_per_tile = per_tile,
                             .channel = static_cast<int>(c),
                             .strand = strand_index,
                             .copy = copy};
        if (binding.chooser == Chooser::kReader && bundle.paths > 1) {
          bundle.ask = static_cast<int>(program_.links.size());
          bundle.order = bundle.ask + 1;
          SENNIT_RETURN_IF_ERROR(add_link(channel.writer.rank, reader.rank, {}));
          SENNIT_RETURN_IF_ERROR(add_link(reader.rank, channel.writer.rank, {}));
        }
        if (!writes && reader.rank != rank_) {
          continue;
        }
        if (bundle.paths > 1) {
          end.bundle = static_cast<int>(program_.bundles.size());
          program_.bundles.push_back(bundle);
        }
        ends_of_[static_cast<int>(c)].push_back(end);
      }
    }
    return {};
  }

  // The next port from one rank to another, and a link where this rank is one of them.
  Status add_link(int writer, int reader, ProgramLink link) {
    link.port = limits_.first_port + ports_[{writer, reader}]++;
    if (link.port >= limits_.first_port + limits_.ports) {
      return fail(Code::kUnsupported,
                  "the plan has more than {} channels from rank {} to rank {}; raise "
                  "SENNIT_PORTS",
                  limits_.ports,
                  writer,
                  reader);
    }
    if (writer == rank_ || reader == rank_) {
      link.outgoing = writer == rank_;
      link.peer = link.outgoing ? reader : writer;
      program_.links.push_back(link);
    }
    return {};
  }

  // The rings on which the leader of a claimed plan sends the others its claims.
  Status make_log_links() {
    const int from = leader(plan_);
    for (int rank = 0; rank < plan_.problem().ranks; ++rank) {
      if (rank != from) {
        if (rank_ == from || rank_ == rank) {
          program_.log_links.push_back(static_cast<int>(program_.links.size()));
        }
        SENNIT_RETURN_IF_ERROR(add_link(from, rank, {}));
      }
    }
    return {};
  }

  ProgramStep compile_step(const Strand& strand,
                           const Step& step,
                           int lane,
                           const std::vector<std::int64_t>& scratch_begin,
                           std::map<int, int>& next) {
    const Schedule& schedule = *strand.schedule;
    ProgramStep out;
    out.kind = step.kind;
    out.order = step.order;
    out.pre = step.pre;
    out.post = step.post;
    for (const Block& block : step.from) {
      out.from.push_back(piece(strand, block, scratch_begin));
    }
    for (const Block& block : step.to) {
      out.to.push_back(piece(strand, block, scratch_begin));
    }
    if (step.kind != StepKind::kCopy && step.kind != StepKind::kToken) {
      out.lengths_of = lengths_of_step(schedule, {rank_, lane}, step);
    }
    const auto refer = [&](const std::vector<int>& channels, std::vector<MessageRef>& refs) {
      for (const int channel : channels) {
        const int index = next[channel]++;
        for (MessageRef ref : ends_of_[channel]) {
          ref.index = index;
          refs.push_back(ref);
          if (schedule.problem.varying) {
            program_.links[static_cast<std::size_t>(ref.link)].messages.push_back(out.lengths_of);
          }
        }
      }
    };
    refer(step.in, out.in);
    refer(step.out, out.out);
    find_codecs(strand, out);
    return out;
  }

  void find_codecs(const Strand& strand, ProgramStep& step) {
    const bool keeps = step.kind == StepKind::kCopy || step.kind == StepKind::kReduce ||
                       step.kind == StepKind::kRecvReduce;
    const auto is_input = [](const Piece& piece) { return piece.space == Space::kInput; };
    if (keeps && std::ranges::any_of(step.from, is_input)) {
      step.home_codec = strand.home_codec;
    }
    std::vector<std::optional<Codec>> used{step.home_codec};
    for (const auto* refs : {&step.in, &step.out}) {
      std::ranges::transform(*refs, std::back_inserter(used), &MessageRef::codec);
    }
    for (const std::optional<Codec>& codec : used) {
      if (codec && step.kind != StepKind::kToken) {
        step.is_coded = true;
        program_.most_coded_operands =
            std::max(program_.most_coded_operands, step.from.size() + step.in.size());
        if (std::ranges::find(program_.codecs, *codec) == program_.codecs.end()) {
          program_.codecs.push_back(*codec);
        }
      }
    }
  }

  Piece piece(const Strand& strand,
              const Block& block,
              const std::vector<std::int64_t>& scratch_begin) const {
    Piece out{.space = block.space, .index = block.index};
    if (block.space == Space::kScratch) {
      const Scratch& scratch = strand.schedule->scratch[static_cast<std::size_t>(block.scratch)];
      out.offset = scratch_begin[static_cast<std::size_t>(block.scratch)] +
                   block.index * block_bytes(strand);
      out.instance_bytes = scratch.blocks * block_bytes(strand);
      out.depth = scratch.depth;
    }
    return out;
  }

  static std::set<int> scratches_of(const Step& step) {
    std::set<int> used;
    for (const auto* list : {&step.from, &step.to}) {
      for (const Block& block : *list) {
        if (block.space == Space::kScratch) {
          used.insert(block.scratch);
        }
      }
    }
    return used;
  }

  // `after`, and for each scratch the last step of every other lane that uses the same instance.
  void add_waits(const Schedule& schedule,
                 const Step& step,
                 int lane,
                 int first_lane,
                 ProgramStep& out) const {
    for (const StepRef ref : step.after) {
      out.waits.push_back({.lane = first_lane + ref.lane, .step = ref.step, .delay = 0});
    }
    const auto& lanes = schedule.ranks[static_cast<std::size_t>(rank_)];
    for (const int scratch : scratches_of(step)) {
      for (std::size_t other = 0; other < lanes.size(); ++other) {
        if (static_cast<int>(other) == lane) {
          continue;
        }
        const auto& steps = lanes[other].steps;
        for (std::size_t last = steps.size(); last-- > 0;) {
          if (scratches_of(steps[last]).contains(scratch)) {
            out.waits.push_back(
                {.lane = first_lane + static_cast<int>(other),
                 .step = static_cast<int>(last),
                 .delay = schedule.scratch[static_cast<std::size_t>(scratch)].depth});
            break;
          }
        }
      }
    }
  }

  const Plan& plan_;
  int rank_;
  ProgramLimits limits_;
  Program program_;
  std::map<std::pair<int, int>, int> ports_;  // channels so far from writer to reader
  std::map<int, std::vector<MessageRef>>
      ends_of_;  // this rank's ends of each channel, in this copy
};

}  // namespace

Result<Program> compile(std::shared_ptr<const Plan> plan,
                        const Proof& proof,
                        int rank,
                        const ProgramLimits& limits) {
  if (proof.structure_hash != structure_hash(*plan)) {
    return fail(Code::kNotProved,
                "the proof speaks of plan {:016x}, this is plan {:016x}: it must be verified first",
                proof.structure_hash,
                structure_hash(*plan));
  }
  // What the proof does not speak of: tiles.
  SENNIT_RETURN_IF_ERROR(check_structure(*plan));
  SENNIT_ASSIGN_OR_RETURN(Program program, Compiler(*plan, rank, limits).run());
  program.plan_hash = plan_hash(*plan);
  program.proof = proof;
  program.rank = rank;
  program.plan = std::move(plan);
  program.turns.resize(program.lanes.size());
  std::iota(program.turns.begin(), program.turns.end(), std::size_t{0});
  std::ranges::stable_partition(program.turns, [&](std::size_t lane) {
    const std::vector<ProgramStep>& steps = program.lanes[lane].steps;
    return !steps.empty() && steps.front().kind == StepKind::kSend;
  });
  return program;
}

}  // namespace sennit
