#include "exec/stream/stream_engine.hpp"

#include "exec/stream/slot_run.hpp"
#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

// Where copies end within a page they run slower.
constexpr std::int64_t kPartUnit = 4096;

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t whole_units(std::int64_t bytes) {
  return ceiling(bytes, kPartUnit) * kPartUnit;
}

// Rounding may give more to a later block than to the first.
std::int64_t longest_range(const Problem& problem, const Portion& portion, const Extent& extent) {
  std::int64_t longest = 0;
  for (int block = 0; block < (problem.blocks_differ() ? problem.cut : 1); ++block) {
    longest = std::max(longest, range_of(problem, portion, extent, block).length);
  }
  return longest;
}

// How blocks that are passed on are cut, equal on all ranks.
struct Cut {
  int parts = 1;
  std::int64_t part_bytes = 0;  // of every block
};

Cut cut_for(const StreamProgram& program, std::int64_t longest, std::int64_t part_bytes) {
  // Copying a part before the next one is there pays only where somebody waits to pass it on. Sums
  // leave in pieces of their own.
  const bool is_passed_on = program.hops > 1 && !is_reduction(program.problem.collective);
  const std::int64_t wanted =
      is_passed_on ? std::clamp<std::int64_t>(longest / part_bytes, 1, kMaxParts) : 1;
  const std::int64_t part = std::max(kPartUnit, whole_units(ceiling(longest, wanted)));
  return {.parts = static_cast<int>(std::max<std::int64_t>(1, ceiling(longest, part))),
          .part_bytes = part};
}

// Of a block.
struct Piece {
  std::int64_t at = 0;
  std::int64_t bytes = 0;
};

// What is folded at once, and how the last contribution comes: smaller and smaller pieces, so that
// little is left to be folded after the last copy. Equal at both ends.
std::vector<Piece> pieces_of(std::int64_t length, std::int64_t part_bytes) {
  if (length < 2 * part_bytes) {
    return {{0, length}};
  }
  const std::int64_t half = length / 2 / kPartUnit * kPartUnit;
  const std::int64_t quarter = (length - half) / 2 / kPartUnit * kPartUnit;
  return {{0, half}, {half, quarter}, {half + quarter, length - half - quarter}};
}

}  // namespace

// One strand of a call on its way into the streams.
class StreamEngine::Run {
 public:
  Run(StreamEngine& engine,
      const StreamProgram& program,
      const Portion& portion,
      const StreamCall& call,
      void* stream)
      : engine_(engine),
        program_(program),
        portion_(portion),
        call_(call),
        stream_(stream),
        longest_(longest_range(program.problem, portion, call.extent())),
        cut_(cut_for(program, longest_, call.part_bytes)) {}

  // What the user's stream has to do before anything is moved: from here on others may write into
  // the output and the staging memory, and then this rank into theirs.
  void meet(std::vector<WordStep>& steps) const {
    for (const Arrival& arrival : program_.arrivals) {
      if (!arrival.is_admitted) {
        steps.push_back(fill(room(arrival.sender, program_.rank, arrival.channel)));
      }
    }
    for_each_contribution([&](const Operand& operand) {
      steps.push_back(fill(room(operand.sender, program_.rank, operand.channel)));
    });
    await_room(steps, program_.departures);
    for (const Fold& fold : program_.folds) {
      await_room(steps, fold.passes_on);
    }
  }

  // Between fork and join of the streams.
  // Whoever waits, waits for what its peers put in before anything that waits for it in turn:
  // contributions, then folds, then sums; or parts one after the other, smallest depth first.
  Status move() {
    SENNIT_RETURN_IF_ERROR(await_room_for_forwards());
    for (const Departure& departure : program_.departures) {
      SENNIT_RETURN_IF_ERROR(departure.to ? Status() : contribute(departure));
    }
    for (const Fold& fold : program_.folds) {
      SENNIT_RETURN_IF_ERROR(run_fold(fold));
      SENNIT_RETURN_IF_ERROR(put_sums(fold));
    }
    for (int part = 0; part < cut_.parts; ++part) {
      SENNIT_RETURN_IF_ERROR(put_part(part));
    }
    for (const OwnCopy& copy : program_.copies) {
      SENNIT_RETURN_IF_ERROR(copy_own(copy));
    }
    return {};
  }

  // What it has to do after all that was moved: say what nobody is in a hurry to hear, and wait for
  // what nobody here has waited for.
  void settle(std::vector<WordStep>& steps) const {
    steps.insert(steps.end(), unsaid_.begin(), unsaid_.end());
    for (const Arrival& arrival : program_.arrivals) {
      for (int part = 0; part < cut_.parts && arrival.passes_on.empty(); ++part) {
        consume(steps, there(program_.rank, arrival.sender, arrival.channel, part));
      }
    }
  }

 private:
  ByteRange range_of(const Block& block) const {
    return stream::range_of(program_.problem, portion_, call_.extent(), block.index);
  }
  const Buffers& peer(int rank) const { return call_.peers[static_cast<std::size_t>(rank)]; }

  RankWords& words_of(int rank) const { return *engine_.words_[static_cast<std::size_t>(rank)]; }
  // `sender` may put what it has for `reader`; and has put it.
  std::uint64_t* room(int sender, int reader, int channel) const {
    return word(words_of(sender).done, reader, channel, 0);
  }
  std::uint64_t* there(int reader, int sender, int channel, int part) const {
    return word(words_of(reader).ready, sender, channel, part);
  }
  static std::uint64_t* word(RankWords::Peers& words, int peer, int channel, int part) {
    return &words[static_cast<std::size_t>(peer)][static_cast<std::size_t>(channel)]
                 [static_cast<std::size_t>(part)];
  }

  // The rank whose contribution comes last, since the next one is served first.
  bool is_last(int sender, int reader) const {
    return (sender + program_.problem.ranks - reader) % program_.problem.ranks == 1;
  }

  template <typename Function>
  void for_each_contribution(Function function) const {
    for (const Fold& fold : program_.folds) {
      for (const Operand& operand : fold.operands) {
        if (operand.sender != program_.rank) {
          function(operand);
        }
      }
    }
  }

  Result<void*> forwards() { return engine_.sides_.use(kForwards); }

  void await_room(std::vector<WordStep>& steps, const std::vector<Departure>& departures) const {
    for (const Departure& departure : departures) {
      if (!departure.is_admitted) {
        consume(steps, room(program_.rank, departure.reader, departure.channel));
      }
    }
  }

  Status await_room_for_forwards() {
    std::vector<WordStep> steps;
    for (const Arrival& arrival : program_.arrivals) {
      await_room(steps, arrival.passes_on);
    }
    if (steps.empty()) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(void* const stream, forwards());
    return walk(engine_.driver_, steps, stream);
  }

  // Of a block of this rank, to where it belongs on `departure.reader`.
  Status copy(const Departure& departure, const Piece& piece, void* stream) const {
    const ByteRange from = range_of(departure.from);
    const std::byte* const base =
        departure.from.space == Space::kInput ? call_.input : call_.output;
    std::byte* const to = departure.to
                              ? peer(departure.reader).output + range_of(*departure.to).begin
                              : staged(departure.reader, program_.rank);
    return piece.bytes <= 0 ? Status()
                            : engine_.driver_.copy_async(to + piece.at,
                                                         base + from.begin + piece.at,
                                                         static_cast<std::size_t>(piece.bytes),
                                                         stream);
  }

  WordStep arrived(const Departure& departure, int part) const {
    return fill(there(departure.reader, program_.rank, departure.channel, part));
  }
  Status say(const Departure& departure, int part, void* stream) const {
    return walk(engine_.driver_, {arrived(departure, part)}, stream);
  }
  // What has so many hops behind it. A word between copies holds up the next one; where ranks get
  // as much as they give, nobody waits for a block that goes no further before the end.
  Status say_in_time(const Departure& departure, int part, int depth) {
    if (program_.hops > depth + 1 || program_.arrivals.empty()) {
      return say(departure, part, stream_);
    }
    unsaid_.push_back(arrived(departure, part));
    return {};
  }

  std::vector<Piece> pieces_of(std::int64_t length) const {
    return stream::pieces_of(length, call_.part_bytes);
  }

  Status contribute(const Departure& departure) {
    const std::int64_t length = range_of(departure.from).length;
    const std::vector<Piece> pieces = is_last(program_.rank, departure.reader)
                                          ? pieces_of(length)
                                          : std::vector<Piece>{{0, length}};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      SENNIT_RETURN_IF_ERROR(copy(departure, pieces[i], stream_));
      SENNIT_RETURN_IF_ERROR(say(departure, static_cast<int>(i), stream_));
    }
    return {};
  }

  Status put(const Departure& departure, int part, void* stream) const {
    const std::int64_t at = part * cut_.part_bytes;
    const std::int64_t left = range_of(departure.from).length - at;
    return copy(departure, {at, std::min(cut_.part_bytes, left)}, stream);
  }

  Status put_part(int part) {
    for (const Departure& departure : program_.departures) {
      if (departure.to) {
        SENNIT_RETURN_IF_ERROR(put(departure, part, stream_));
        SENNIT_RETURN_IF_ERROR(say_in_time(departure, part, /*depth=*/0));
      }
    }
    for (const Arrival& arrival : program_.arrivals) {
      if (!arrival.passes_on.empty()) {
        SENNIT_ASSIGN_OR_RETURN(void* const stream, forwards());
        std::vector<WordStep> steps;
        consume(steps, there(program_.rank, arrival.sender, arrival.channel, part));
        SENNIT_RETURN_IF_ERROR(walk(engine_.driver_, steps, stream));
        for (const Departure& departure : arrival.passes_on) {
          SENNIT_RETURN_IF_ERROR(put(departure, part, stream));
          SENNIT_RETURN_IF_ERROR(say(departure, part, stream));
        }
      }
    }
    return {};
  }

  // Where the contribution of `sender` lies in the staging memory of `reader`.
  std::byte* staged(int reader, int sender) const {
    std::byte* const base =
        reader == program_.rank ? engine_.staging_.memory() : peer(reader).staging;
    return base + (sender < reader ? sender : sender - 1) * whole_units(longest_);
  }

  Status run_fold(const Fold& fold) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream, engine_.sides_.use(kOwnStream));
    const std::vector<Piece> pieces = pieces_of(range_of(fold.to).length);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::vector<WordStep> steps;
      for (const Operand& operand : fold.operands) {
        const bool comes_in_pieces = is_last(operand.sender, program_.rank);
        if (operand.sender != program_.rank && (i == 0 || comes_in_pieces)) {
          const int part = comes_in_pieces ? static_cast<int>(i) : 0;
          consume(steps, there(program_.rank, operand.sender, operand.channel, part));
        }
      }
      SENNIT_RETURN_IF_ERROR(walk(engine_.driver_, steps, stream));
      SENNIT_RETURN_IF_ERROR(launch(fold, pieces[i], stream));
      SENNIT_RETURN_IF_ERROR(engine_.driver_.record(engine_.folded_[i], stream));
    }
    return {};
  }

  Status launch(const Fold& fold, const Piece& piece, void* stream) const {
    FoldCall call{.output = call_.output + range_of(fold.to).begin + piece.at,
                  .bytes = piece.bytes,
                  .operand_count = static_cast<std::int32_t>(fold.operands.size()),
                  .ranks = program_.problem.ranks};
    for (std::size_t i = 0; i < fold.operands.size(); ++i) {
      const Operand& operand = fold.operands[i];
      const std::byte* const data = operand.sender == program_.rank
                                        ? call_.input + range_of(operand.from).begin
                                        : staged(program_.rank, operand.sender);
      call.operands[i] = {.data = data + piece.at, .scalar = peer(operand.sender).scalar};
    }
    return piece.bytes <= 0
               ? Status()
               : engine_.driver_.launch(
                     call_.fold, {.blocks = kFoldBlocks, .threads = kFoldThreads}, &call, stream);
  }

  // The first rank gets the first piece while the last one is folded.
  Status put_sums(const Fold& fold) {
    const std::vector<Piece> pieces = pieces_of(range_of(fold.to).length);
    for (const Departure& departure : fold.passes_on) {
      const bool is_first = &departure == &fold.passes_on.front();
      for (std::size_t i = 0; i < pieces.size() && is_first; ++i) {
        SENNIT_RETURN_IF_ERROR(engine_.driver_.wait_for(engine_.folded_[i], stream_));
        SENNIT_RETURN_IF_ERROR(copy(departure, pieces[i], stream_));
      }
      if (!is_first) {
        SENNIT_RETURN_IF_ERROR(copy(departure, {0, range_of(fold.to).length}, stream_));
      }
      SENNIT_RETURN_IF_ERROR(say_in_time(departure, 0, /*depth=*/1));
    }
    return {};
  }

  Status copy_own(const OwnCopy& copy) {
    const ByteRange from = range_of(copy.from);
    const ByteRange to = range_of(copy.to);
    const std::byte* const source = call_.input + from.begin;
    std::byte* const target = call_.output + to.begin;
    if (source == target || to.length == 0) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(void* const stream, engine_.sides_.use(kOwnStream));
    // Kernels copy byte after byte what is not aligned.
    const bool is_aligned =
        (reinterpret_cast<std::uintptr_t>(source) | reinterpret_cast<std::uintptr_t>(target)) %
            16 ==
        0;
    if (call_.copy == nullptr || !is_aligned) {
      return engine_.driver_.copy_async(
          target, source, static_cast<std::size_t>(to.length), stream);
    }
    FoldCall fold{.output = target, .bytes = to.length, .operand_count = 1};
    fold.operands[0].data = source;
    return engine_.driver_.launch(
        call_.copy, {.blocks = kFoldBlocks, .threads = kFoldThreads}, &fold, stream);
  }

  StreamEngine& engine_;
  const StreamProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  // The user's, for all that leaves: few and large copies in the order of a ring, so that each rank
  // is written by one other at a time. On several streams, or in more parts, the ranks fall out of
  // step and two write to one while another has none (docs/performance.md).
  void* stream_;
  std::int64_t longest_;  // of all blocks
  Cut cut_;
  std::vector<WordStep> unsaid_{};
};

StreamEngine::StreamEngine(CudaDriver& driver,
                           std::vector<RankWords*> words,
                           std::int64_t staging_bytes)
    : driver_(driver),
      words_(std::move(words)),
      staging_(driver, staging_bytes),
      sides_(driver),
      slot_sides_(driver) {}

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words,
                                                           std::int64_t staging_bytes) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words), staging_bytes));
  SENNIT_RETURN_IF_ERROR(engine->open());
  return engine;
}

Status StreamEngine::open() {
  SENNIT_RETURN_IF_ERROR(sides_.open(kStreams));
  for (void*& event : folded_) {
    SENNIT_ASSIGN_OR_RETURN(event, driver_.create_event());
  }
  return {};
}

StreamEngine::~StreamEngine() {
  sides_.close();  // they may still wait for the events
  for (void* const event : folded_) {
    if (event != nullptr) {
      (void)driver_.destroy_event(event);
    }
  }
}

Status StreamEngine::use_rings(host::Rings rings) {
  SENNIT_RETURN_IF_ERROR(slot_sides_.open(SlotRun::kStreams));
  rings_ = std::move(rings);
  return {};
}

Status StreamEngine::run(const PlanProgram& program, const StreamCall& call, void* stream) {
  if (const StreamProgram* const alone = program.alone()) {
    return run(*alone, call, stream);
  }
  std::vector<Run> direct;
  std::vector<SlotRun> slots;
  for (const StrandProgram& strand : program.strands) {
    if (const auto* const straight = std::get_if<StreamProgram>(&strand.program)) {
      direct.emplace_back(*this, *straight, strand.portion, call, stream);
      continue;
    }
    if (rings_.shape.slots == 0) {
      return fail(Code::kInternalError, "a strand through host memory has no rings");
    }
    slots.emplace_back(SlotContext{driver_, slot_sides_, words_, rings_},
                       std::get<SlotProgram>(strand.program),
                       strand.portion,
                       call);
  }
  return run_all(program.rank, direct, slots, stream);
}

Status StreamEngine::run(const StreamProgram& program, const StreamCall& call, void* stream) {
  const std::int64_t rounds = rounds_of(program, call.extent());
  for (std::int64_t round = 0; round < rounds; ++round) {
    Run run(*this, program, {.before = round, .share = 1, .total = rounds}, call, stream);
    SENNIT_RETURN_IF_ERROR(run_all(program.rank, {&run, 1}, {}, stream));
  }
  return {};
}

// Equal on all ranks, whoever folds.
std::int64_t StreamEngine::rounds_of(const StreamProgram& program, const Extent& extent) const {
  const std::int64_t others = program.problem.ranks - 1;
  if (!is_reduction(program.problem.collective) || others == 0) {
    return 1;
  }
  // A round's blocks may be somewhat longer than their share, and lie apart.
  const std::int64_t room = staging_.most_bytes() / others - 2 * kPartUnit;
  return std::max<std::int64_t>(1,
                                ceiling(longest_range(program.problem, Portion{}, extent), room));
}

std::int64_t StreamEngine::staging_needs(const StreamProgram& program, const Extent& extent) const {
  if (!program.is_staged()) {
    return 0;
  }
  std::int64_t longest = 0;
  const std::int64_t rounds = rounds_of(program, extent);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Portion portion{.before = round, .share = 1, .total = rounds};
    longest = std::max(longest, longest_range(program.problem, portion, extent));
  }
  return (program.problem.ranks - 1) * whole_units(longest);
}

// Strands through slots go first: they take longest to begin. So where a device has one queue for
// all streams, what waits there waits for what peers put in at the beginning of the call; then for
// such strands of peers alone (in an order of their own, see slot_run.hpp); and behind them direct
// strands wait for copies that come earlier in the order of move().
Status StreamEngine::run_all(int rank,
                             std::span<Run> direct,
                             std::span<SlotRun> slots,
                             void* stream) {
  RankWords& mine = *words_[static_cast<std::size_t>(rank)];
  // What the user's stream holds so far comes before everything of this call.
  SENNIT_RETURN_IF_ERROR(sides_.fork(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.fork(stream));
  std::vector<WordStep> steps;
  steps.push_back({WordStep::Kind::kStore, &mine.running, kRunning});
  for (const Run& run : direct) {
    run.meet(steps);
  }
  const Status moved = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
    for (SlotRun& run : slots) {
      SENNIT_RETURN_IF_ERROR(run.move());
    }
    for (Run& run : direct) {
      SENNIT_RETURN_IF_ERROR(run.move());
    }
    return {};
  }();
  // Also after a failure: the user's stream does not end before what was begun beside it.
  SENNIT_RETURN_IF_ERROR(sides_.join(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.join(stream));
  SENNIT_RETURN_IF_ERROR(moved);
  steps.clear();
  for (const Run& run : direct) {
    run.settle(steps);
  }
  for (const SlotRun& run : slots) {
    run.settle(steps);
  }
  steps.push_back({WordStep::Kind::kStore, &mine.running, kIdle});
  return walk(driver_, steps, stream);
}

}  // namespace sennit::stream
