#include "exec/stream/stream_engine.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

// Where copies end within a page they run slower.
constexpr std::int64_t kPartUnit = 4096;

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

WordStep fill(std::uint64_t* word) { return {WordStep::Kind::kStore, word, kFull}; }

// Waits until the word is full and frees it.
void consume(std::vector<WordStep>& steps, std::uint64_t* word) {
  steps.push_back({WordStep::Kind::kAwait, word, kFull});
  steps.push_back({WordStep::Kind::kStore, word, kFree});
}

// How a call is cut, equal on all ranks.
struct Cut {
  int parts = 1;
  std::int64_t part_bytes = 0;  // of every block
};

Cut cut_for(const StreamProgram& program, const StreamCall& call) {
  // The first block is the longest.
  const std::int64_t longest =
      block_range(program.problem, call.count, call.element_bytes, 0).length * call.element_bytes;
  // Copying a part before the next one is there pays only where somebody waits to pass it on.
  const std::int64_t wanted =
      program.hops > 1 ? std::clamp<std::int64_t>(longest / call.part_bytes, 1, kMaxParts) : 1;
  const std::int64_t part =
      std::max(kPartUnit, ceiling(ceiling(longest, wanted), kPartUnit) * kPartUnit);
  return {.parts = static_cast<int>(std::max<std::int64_t>(1, ceiling(longest, part))),
          .part_bytes = part};
}

}  // namespace

// One call on its way into the streams.
class StreamEngine::Run {
 public:
  Run(StreamEngine& engine, const StreamProgram& program, const StreamCall& call, void* stream)
      : engine_(engine),
        program_(program),
        call_(call),
        stream_(stream),
        cut_(cut_for(program, call)) {}

  Status all() {
    SENNIT_RETURN_IF_ERROR(begin());
    for (int part = 0; part < cut_.parts; ++part) {
      // Smallest depth first: see the order of waits in the header.
      for (int depth = 0; depth < kMaxDepth; ++depth) {
        SENNIT_RETURN_IF_ERROR(take(depth, part));
      }
    }
    for (const OwnCopy& copy : program_.copies) {
      SENNIT_RETURN_IF_ERROR(copy_own(copy));
    }
    return end();
  }

 private:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
  };

  Range range_of(const Block& block) const {
    const ElementRange range =
        block_range(program_.problem, call_.count, call_.element_bytes, block.index);
    return {range.begin * call_.element_bytes, range.length * call_.element_bytes};
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

  Status walk(const std::vector<WordStep>& steps, void* stream) const {
    for (std::size_t at = 0; at < steps.size(); at += kMaxWordSteps) {
      const std::size_t count = std::min(kMaxWordSteps, steps.size() - at);
      SENNIT_RETURN_IF_ERROR(
          engine_.driver_.walk_words(std::span(steps).subspan(at, count), stream));
    }
    return {};
  }

  // What the user's stream holds so far comes before everything of this call.
  Status begin() {
    std::vector<WordStep> steps;
    steps.push_back({WordStep::Kind::kStore, &words_of(program_.rank).running, kRunning});
    for (int part = 0; part < cut_.parts; ++part) {
      for (const Offer& offer : program_.offers) {
        steps.push_back(fill(ready(offer.reader, program_.rank, offer.channel, part)));
      }
    }
    SENNIT_RETURN_IF_ERROR(walk(steps, stream_));
    return engine_.driver_.record(engine_.began_, stream_);
  }

  Result<void*> use(int index) {
    Side& side = engine_.sides_[static_cast<std::size_t>(index)];
    if (!side.is_used) {
      SENNIT_RETURN_IF_ERROR(engine_.driver_.wait_for(engine_.began_, side.stream));
      side.is_used = true;
    }
    return side.stream;
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
    SENNIT_ASSIGN_OR_RETURN(void* const stream, use(depth));
    SENNIT_RETURN_IF_ERROR(walk(before, stream));
    for (const Pull& pull : pulls) {
      SENNIT_RETURN_IF_ERROR(copy_part(pull, part, stream));
    }
    return walk(after, stream);
  }

  Status copy_part(const Pull& pull, int part, void* stream) const {
    const Range from = range_of(pull.from);
    const Range to = range_of(pull.to);
    const std::int64_t at = part * cut_.part_bytes;
    const std::int64_t bytes = std::min(cut_.part_bytes, to.bytes - at);
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
    const Range from = range_of(copy.from);
    const Range to = range_of(copy.to);
    const std::byte* const source = call_.input + from.begin;
    std::byte* const target = call_.output + to.begin;
    if (source == target || to.bytes == 0) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(void* const stream, use(kOwnStream));
    return engine_.driver_.copy_async(target, source, static_cast<std::size_t>(to.bytes), stream);
  }

  Status end() {
    for (Side& side : engine_.sides_) {
      if (std::exchange(side.is_used, false)) {
        SENNIT_RETURN_IF_ERROR(engine_.driver_.record(side.event, side.stream));
        SENNIT_RETURN_IF_ERROR(engine_.driver_.wait_for(side.event, stream_));
      }
    }
    std::vector<WordStep> steps;
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
    steps.push_back({WordStep::Kind::kStore, &words_of(program_.rank).running, kIdle});
    return walk(steps, stream_);
  }

  StreamEngine& engine_;
  const StreamProgram& program_;
  const StreamCall& call_;
  void* stream_;
  Cut cut_;
};

StreamEngine::StreamEngine(CudaDriver& driver, std::vector<RankWords*> words)
    : driver_(driver), words_(std::move(words)) {}

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words)));
  SENNIT_RETURN_IF_ERROR(engine->open());
  return engine;
}

Status StreamEngine::open() {
  for (Side& side : sides_) {
    SENNIT_ASSIGN_OR_RETURN(side.stream, driver_.create_stream());
    SENNIT_ASSIGN_OR_RETURN(side.event, driver_.create_event());
  }
  SENNIT_ASSIGN_OR_RETURN(began_, driver_.create_event());
  return {};
}

StreamEngine::~StreamEngine() {
  for (const Side& side : sides_) {
    if (side.stream != nullptr) {
      (void)driver_.destroy_stream(side.stream);
    }
  }
  for (const Side& side : sides_) {
    if (side.event != nullptr) {
      (void)driver_.destroy_event(side.event);
    }
  }
  if (began_ != nullptr) {
    (void)driver_.destroy_event(began_);
  }
}

Status StreamEngine::run(const StreamProgram& program, const StreamCall& call, void* stream) {
  for (Side& side : sides_) {
    side.is_used = false;  // a call may have failed half way
  }
  return Run(*this, program, call, stream).all();
}

}  // namespace sennit::stream
