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
  // Copying a part before the next one is there pays only where somebody waits to pass it on.
  const std::int64_t wanted =
      program.hops > 1 ? std::clamp<std::int64_t>(longest / call.part_bytes, 1, kMaxParts) : 1;
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
    for (int part = 0; part < cut_.parts; ++part) {
      for (const Offer& offer : program_.offers) {
        steps.push_back(fill(ready(offer.reader, program_.rank, offer.channel, part)));
      }
    }
  }

  // Between fork and join of the streams.
  Status move() {
    for (int part = 0; part < cut_.parts; ++part) {
      // Smallest depth first: see the order of waits in the header.
      for (int depth = 0; depth < kMaxDepth; ++depth) {
        SENNIT_RETURN_IF_ERROR(take(depth, part));
      }
    }
    for (const OwnCopy& copy : program_.copies) {
      SENNIT_RETURN_IF_ERROR(copy_own(copy));
    }
    return {};
  }

  // What it has to do after all that was moved.
  void settle(std::vector<WordStep>& steps) const {
    for (int part = 0; part < cut_.parts; ++part) {
      for (const Offer& offer : program_.offers) {
        consume(steps, done(program_.rank, offer.reader, offer.channel, part));
      }
      for (const Pull& pull : program_.pulls) {
        for (const Offer& offer : pull.passes_on) {
          consume(steps, done(program_.rank, offer.reader, offer.channel, part));
        }
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

  // All waits before the first copy and all stores after the last, the copies one after the other:
  // copies that start as their own waits end run at half the rate (docs/performance.md).
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
    SENNIT_ASSIGN_OR_RETURN(void* const stream, engine_.sides_.use(depth));
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
};

StreamEngine::StreamEngine(CudaDriver& driver, std::vector<RankWords*> words)
    : driver_(driver), words_(std::move(words)), sides_(driver), slot_sides_(driver) {}

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words)));
  SENNIT_RETURN_IF_ERROR(engine->sides_.open(kStreams));
  return engine;
}

StreamEngine::~StreamEngine() = default;

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
  for (SlotRun& run : slots) {
    SENNIT_RETURN_IF_ERROR(run.move());
  }
  for (Run& run : direct) {
    SENNIT_RETURN_IF_ERROR(run.move());
  }
  SENNIT_RETURN_IF_ERROR(sides_.join(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.join(stream));
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
