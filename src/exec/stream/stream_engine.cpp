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

// How a call is cut, equal on all ranks.
struct Cut {
  int parts = 1;
  std::int64_t part_bytes = 0;  // of every block
};

Cut cut_for(const StreamProgram& program, const Portion& portion, const StreamCall& call) {
  // The first block is the longest.
  const std::int64_t longest = range_of(program.problem, portion, call.extent(), 0).length;
  // Copying a part before the next one is there pays only where somebody waits to pass it on. Of
  // two parts, one is folded while the other one is on the wires.
  const std::int64_t most = is_reduction(program.problem.collective) ? 2 : kMaxParts;
  const std::int64_t wanted =
      program.hops > 1 ? std::clamp<std::int64_t>(longest / call.part_bytes, 1, most) : 1;
  const std::int64_t part =
      std::max(kPartUnit, ceiling(ceiling(longest, wanted), kPartUnit) * kPartUnit);
  return {.parts = static_cast<int>(std::max<std::int64_t>(1, ceiling(longest, part))),
          .part_bytes = part};
}

}  // namespace

// One strand of a call on its way into the streams.
class StreamEngine::Run {
 public:
  Run(StreamEngine& engine,
      const StreamProgram& program,
      const Portion& portion,
      const StreamCall& call)
      : engine_(engine),
        program_(program),
        portion_(portion),
        call_(call),
        cut_(cut_for(program, portion, call)) {}

  // What the user's stream has to do before anything is moved.
  void offer(std::vector<WordStep>& steps) const {
    for (int part = 0; part < offered_parts(); ++part) {
      for (const Offer& offer : program_.offers) {
        steps.push_back(fill(ready(offer.reader, program_.rank, offer.channel, part)));
      }
    }
  }

  // Between fork and join of the streams.
  // Whoever waits, waits for what its peers put in before anything that waits for it in turn: parts
  // one after the other, smallest depth first. Sums are taken a part later than what they are made
  // of, when they are likely to be there.
  Status move() {
    const int lag = program_.folds.empty() ? 0 : 1;
    for (int part = 0; part < cut_.parts + lag; ++part) {
      if (part < cut_.parts) {
        for (const Fold& fold : program_.folds) {
          SENNIT_RETURN_IF_ERROR(run_fold(fold, part));
        }
        SENNIT_RETURN_IF_ERROR(take(0, part));
      }
      for (int depth = 1; depth < kMaxDepth && part >= lag; ++depth) {
        SENNIT_RETURN_IF_ERROR(take(depth, part - lag));
      }
    }
    for (const OwnCopy& copy : program_.copies) {
      SENNIT_RETURN_IF_ERROR(copy_own(copy));
    }
    return {};
  }

  // What it has to do after all that was moved.
  void settle(std::vector<WordStep>& steps) const {
    const std::vector<Offer> passed_on = program_.passed_on();
    for (int part = 0; part < offered_parts(); ++part) {
      for (const Offer& offer : program_.offers) {
        consume(steps, done(program_.rank, offer.reader, offer.channel, part));
      }
    }
    for (int part = 0; part < cut_.parts; ++part) {
      for (const Offer& offer : passed_on) {
        consume(steps, done(program_.rank, offer.reader, offer.channel, part));
      }
    }
  }

 private:
  ByteRange range_of(const Block& block) const {
    return stream::range_of(program_.problem, portion_, call_.extent(), block.index);
  }

  RankWords& words_of(int rank) const { return *engine_.words_[static_cast<std::size_t>(rank)]; }
  // What `sender` fills for `reader`, and back.
  std::uint64_t* ready(int reader, int sender, int channel, int part) const {
    return word(words_of(reader).ready, sender, channel, part);
  }
  std::uint64_t* done(int sender, int reader, int channel, int part) const {
    return word(words_of(sender).done, reader, channel, part);
  }
  static std::uint64_t* word(RankWords::Peers& words, int peer, int channel, int part) {
    return &words[static_cast<std::size_t>(peer)][static_cast<std::size_t>(channel)]
                 [static_cast<std::size_t>(part)];
  }

  // Nobody waits for a part of the inputs of reductions, so they are offered whole.
  int offered_parts() const { return is_reduction(program_.problem.collective) ? 1 : cut_.parts; }

  // Copies of a fold and of what follows it are on one stream, so that none waits while another one
  // could run.
  Result<void*> use_copies(int depth) {
    return engine_.sides_.use(program_.folds.empty() ? depth : 0);
  }

  // All waits before the first copy and all stores after the last, the copies one after the other:
  // on several streams, each behind its own wait, they took half as long again
  // (docs/performance.md).
  Status take(int depth, int part) {
    const auto pulls = std::ranges::equal_range(program_.pulls, depth, {}, &Pull::depth);
    if (pulls.empty()) {
      return {};
    }
    std::vector<WordStep> before;
    std::vector<WordStep> after;
    for (const Pull& pull : pulls) {
      consume(before, ready(program_.rank, pull.sender, pull.channel, part));
      after.push_back(fill(done(pull.sender, program_.rank, pull.channel, part)));
      for (const Offer& offer : pull.passes_on) {
        after.push_back(fill(ready(offer.reader, program_.rank, offer.channel, part)));
      }
    }
    SENNIT_ASSIGN_OR_RETURN(void* const stream, use_copies(depth));
    SENNIT_RETURN_IF_ERROR(walk(engine_.driver_, before, stream));
    for (const Pull& pull : pulls) {
      SENNIT_RETURN_IF_ERROR(copy_part(pull, part, stream));
    }
    return walk(engine_.driver_, after, stream);
  }

  Status copy_part(const Pull& pull, int part, void* stream) const {
    const ByteRange from = range_of(pull.from);
    const ByteRange to = range_of(pull.to);
    const std::int64_t at = part * cut_.part_bytes;
    const std::int64_t bytes = std::min(cut_.part_bytes, to.length - at);
    if (bytes <= 0) {
      return {};
    }
    const Buffers& peer = call_.peers[static_cast<std::size_t>(pull.sender)];
    const std::byte* const base = pull.from.space == Space::kInput ? peer.input : peer.output;
    return engine_.driver_.copy_async(call_.output + to.begin + at,
                                      base + from.begin + at,
                                      static_cast<std::size_t>(bytes),
                                      stream);
  }

  // What is fetched and folded at once, in bytes of the block.
  struct Piece {
    std::int64_t at = 0;
    std::int64_t bytes = 0;
    int generation = 0;
  };

  // Large pieces, since copies have microseconds between them. Where the end of the fold is the end
  // of the call, smaller and smaller ones, so that little is left to be folded after the last copy:
  // the copies of a piece take longer than the fold of one twice as long.
  std::int64_t piece_length(const Fold& fold, std::int64_t left) const {
    const std::int64_t most = engine_.staging_.piece_bytes();
    const std::int64_t wanted = fold.passes_on.empty() ? std::max(left / 2, most / 4) : left;
    return std::min({ceiling(wanted, kPartUnit) * kPartUnit, most, left});
  }

  Status run_fold(const Fold& fold, int part) {
    SENNIT_ASSIGN_OR_RETURN(void* const copies, use_copies(0));
    SENNIT_ASSIGN_OR_RETURN(void* const folds, engine_.sides_.use(kOwnStream));
    std::vector<WordStep> before;
    std::vector<WordStep> after;
    for (const Operand& operand : fold.operands) {
      if (operand.sender != program_.rank) {
        consume(before, ready(program_.rank, operand.sender, operand.channel, 0));
        after.push_back(fill(done(operand.sender, program_.rank, operand.channel, 0)));
      }
    }
    if (part == 0) {
      SENNIT_RETURN_IF_ERROR(walk(engine_.driver_, before, copies));
    }
    const std::int64_t begin = part * cut_.part_bytes;
    const std::int64_t end = std::min(begin + cut_.part_bytes, range_of(fold.to).length);
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t bytes = piece_length(fold, end - at);
      SENNIT_RETURN_IF_ERROR(run_piece(
          fold, {.at = at, .bytes = bytes, .generation = pieces_ % Staging::kGenerations}));
      at += bytes;
    }
    if (part == cut_.parts - 1) {
      SENNIT_RETURN_IF_ERROR(walk(engine_.driver_, after, copies));
    }
    std::vector<WordStep> folded;
    for (const Offer& offer : fold.passes_on) {
      folded.push_back(fill(ready(offer.reader, program_.rank, offer.channel, part)));
    }
    return walk(engine_.driver_, folded, folds);
  }

  Status run_piece(const Fold& fold, const Piece& piece) {
    SENNIT_ASSIGN_OR_RETURN(void* const copies, use_copies(0));
    SENNIT_ASSIGN_OR_RETURN(void* const folds, engine_.sides_.use(kOwnStream));
    void* const folded = engine_.folded_[static_cast<std::size_t>(piece.generation)];
    if (pieces_++ >= Staging::kGenerations) {
      SENNIT_RETURN_IF_ERROR(engine_.driver_.wait_for(folded, copies));
    }
    const int ranks = program_.problem.ranks;
    FoldCall call{.output = call_.output + range_of(fold.to).begin + piece.at,
                  .bytes = piece.bytes,
                  .operand_count = static_cast<std::int32_t>(fold.operands.size()),
                  .ranks = ranks};
    // The next rank first: no two ranks begin with the same sender.
    for (int distance = 0; distance < ranks; ++distance) {
      const int sender = (program_.rank + distance) % ranks;
      const auto operand = std::ranges::find(fold.operands, sender, &Operand::sender);
      const Buffers& owner = call_.peers[static_cast<std::size_t>(sender)];
      const std::int64_t at = range_of(operand->from).begin + piece.at;
      FoldCall::Operand& place =
          call.operands[static_cast<std::size_t>(operand - fold.operands.begin())];
      place = {.data = call_.input + at, .scalar = owner.scalar};
      if (distance > 0) {
        std::byte* const staged = engine_.staging_.piece(piece.generation, distance - 1);
        place.data = staged;
        SENNIT_RETURN_IF_ERROR(engine_.driver_.copy_async(
            staged, owner.input + at, static_cast<std::size_t>(piece.bytes), copies));
      }
    }
    SENNIT_RETURN_IF_ERROR(engine_.driver_.record(engine_.fetched_, copies));
    SENNIT_RETURN_IF_ERROR(engine_.driver_.wait_for(engine_.fetched_, folds));
    SENNIT_RETURN_IF_ERROR(engine_.driver_.launch(
        call_.fold, {.blocks = kFoldBlocks, .threads = kFoldThreads}, &call, folds));
    return engine_.driver_.record(folded, folds);
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
    return engine_.driver_.copy_async(target, source, static_cast<std::size_t>(to.length), stream);
  }

  StreamEngine& engine_;
  const StreamProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  Cut cut_;
  int pieces_ = 0;  // that were folded so far
};

StreamEngine::StreamEngine(CudaDriver& driver,
                           std::vector<RankWords*> words,
                           std::int64_t piece_bytes)
    : driver_(driver),
      words_(std::move(words)),
      staging_(driver, static_cast<int>(words_.size()), piece_bytes),
      sides_(driver),
      slot_sides_(driver) {}

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words,
                                                           std::int64_t piece_bytes) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words), piece_bytes));
  SENNIT_RETURN_IF_ERROR(engine->open());
  return engine;
}

Status StreamEngine::open() {
  SENNIT_RETURN_IF_ERROR(sides_.open(kStreams));
  SENNIT_ASSIGN_OR_RETURN(fetched_, driver_.create_event());
  for (void*& event : folded_) {
    SENNIT_ASSIGN_OR_RETURN(event, driver_.create_event());
  }
  return {};
}

StreamEngine::~StreamEngine() {
  sides_.close();  // they may still wait for the events
  for (void* const event : {fetched_, folded_[0], folded_[1]}) {
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
  std::vector<Run> direct;
  std::vector<SlotRun> slots;
  for (const StrandProgram& strand : program.strands) {
    if (const auto* const pulls = std::get_if<StreamProgram>(&strand.program)) {
      direct.emplace_back(*this, *pulls, strand.portion, call);
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
  Run run(*this, program, Portion{}, call);
  return run_all(program.rank, {&run, 1}, {}, stream);
}

// Strands through slots go first: they take longest to begin. So where a device has one queue for
// all streams, their waits are for such strands of peers alone (in an order of their own, see
// slot_run.hpp), and behind them the waits of direct strands are for what peers put in at the
// beginning of the call, or for pulls of smaller part or depth.
Status StreamEngine::run_all(int rank,
                             std::span<Run> direct,
                             std::span<SlotRun> slots,
                             void* stream) {
  RankWords& mine = *words_[static_cast<std::size_t>(rank)];
  // What the user's stream holds so far comes before everything of this call.
  std::vector<WordStep> steps;
  steps.push_back({WordStep::Kind::kStore, &mine.running, kRunning});
  for (const Run& run : direct) {
    run.offer(steps);
  }
  SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
  SENNIT_RETURN_IF_ERROR(sides_.fork(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.fork(stream));
  const Status moved = [&]() -> Status {
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
