#include "exec/stream/stream_run.hpp"

#include "exec/stream/staging_sizes.hpp"

namespace sennit::stream {
StreamRun::StreamRun(const StreamContext& context,
                     const StreamProgram& program,
                     const Portion& portion,
                     const StreamCall& call,
                     void* stream)
    : context_(context),
      program_(program),
      portion_(portion),
      call_(call),
      stream_(stream),
      longest_(longest_range(program.problem, portion, call.extent())) {}

// What is folded at once, and how the last contribution comes: smaller and smaller pieces, so that
// little is left to be folded after the last copy. Equal at both ends.
std::vector<StreamRun::Piece> StreamRun::pieces_of(std::int64_t length) const {
  if (length < 2 * call_.part_bytes) {
    return {{0, length}};
  }
  const std::int64_t half = length / 2 / kPieceUnit * kPieceUnit;
  const std::int64_t quarter = (length - half) / 2 / kPieceUnit * kPieceUnit;
  return {{0, half}, {half, quarter}, {half + quarter, length - half - quarter}};
}

void StreamRun::meet(std::vector<WordStep>& steps) const {
  for (const Arrival& arrival : program_.arrivals) {
    if (!arrival.is_admitted) {
      steps.push_back(fill(room(arrival.sender, program_.rank, arrival.channel)));
    }
  }
  for (const Fold& fold : program_.folds) {
    for (const Operand& operand : fold.operands) {
      if (operand.sender != program_.rank) {
        steps.push_back(fill(room(operand.sender, program_.rank, operand.channel)));
      }
    }
  }
  await_room(steps, program_.departures);
  for (const Fold& fold : program_.folds) {
    await_room(steps, fold.passes_on);
  }
}

// Whoever waits, waits for what its peers put in before anything that waits for it in turn:
// contributions, then folds, then sums.
Status StreamRun::move() {
  for (const Departure& departure : program_.departures) {
    SENNIT_RETURN_IF_ERROR(departure.to ? Status() : contribute(departure));
  }
  for (const Fold& fold : program_.folds) {
    SENNIT_RETURN_IF_ERROR(run_fold(fold));
    SENNIT_RETURN_IF_ERROR(put_sums(fold));
  }
  for (const Departure& departure : program_.departures) {
    if (departure.to) {
      SENNIT_RETURN_IF_ERROR(copy(departure, {0, range_of(departure.from).length}));
      SENNIT_RETURN_IF_ERROR(say_in_time(departure));
    }
  }
  for (const OwnCopy& copy : program_.copies) {
    SENNIT_RETURN_IF_ERROR(copy_own(copy));
  }
  return {};
}

void StreamRun::settle(std::vector<WordStep>& steps) const {
  steps.insert(steps.end(), unsaid_.begin(), unsaid_.end());
  for (const Arrival& arrival : program_.arrivals) {
    consume(steps, there(program_.rank, arrival.sender, arrival.channel, /*piece=*/0));
  }
}

ByteRange StreamRun::range_of(const Block& block) const {
  return stream::range_of(program_.problem, portion_, call_.extent(), block.index);
}

const Buffers& StreamRun::peer(int rank) const {
  return call_.peers[static_cast<std::size_t>(rank)];
}

std::byte* StreamRun::staged(int reader, int sender) const {
  std::byte* const base =
      reader == program_.rank ? context_.staging.memory() : peer(reader).staging;
  return base + (sender < reader ? sender : sender - 1) * whole_units(longest_);
}

bool StreamRun::is_last(int sender, int reader) const {
  return (sender + program_.problem.ranks - reader) % program_.problem.ranks == 1;
}

RankWords& StreamRun::words_of(int rank) const {
  return *context_.words[static_cast<std::size_t>(rank)];
}

std::uint64_t* StreamRun::room(int sender, int reader, int channel) const {
  return &words_of(sender)
              .done[static_cast<std::size_t>(reader)][static_cast<std::size_t>(channel)];
}

std::uint64_t* StreamRun::there(int reader, int sender, int channel, int piece) const {
  return &words_of(reader).ready[static_cast<std::size_t>(sender)][static_cast<std::size_t>(
      channel)][static_cast<std::size_t>(piece)];
}

void StreamRun::await_room(std::vector<WordStep>& steps,
                           const std::vector<Departure>& departures) const {
  for (const Departure& departure : departures) {
    if (!departure.is_admitted) {
      consume(steps, room(program_.rank, departure.reader, departure.channel));
    }
  }
}

WordStep StreamRun::arrived(const Departure& departure, int piece) const {
  return fill(there(departure.reader, program_.rank, departure.channel, piece));
}

Status StreamRun::say(const Departure& departure, int piece) const {
  return walk(context_.driver, {arrived(departure, piece)}, stream_);
}

// A word between copies holds up the next one; where ranks get as much as they give, nobody waits
// for a block before the end.
Status StreamRun::say_in_time(const Departure& departure) {
  if (program_.arrivals.empty()) {
    return say(departure, /*piece=*/0);
  }
  unsaid_.push_back(arrived(departure, /*piece=*/0));
  return {};
}

Status StreamRun::copy(const Departure& departure, const Piece& piece) const {
  const ByteRange from = range_of(departure.from);
  const std::byte* const base = departure.from.space == Space::kInput ? call_.input : call_.output;
  std::byte* const to = departure.to ? peer(departure.reader).output + range_of(*departure.to).begin
                                     : staged(departure.reader, program_.rank);
  return piece.bytes <= 0 ? Status()
                          : context_.driver.copy_async(to + piece.at,
                                                       base + from.begin + piece.at,
                                                       static_cast<std::size_t>(piece.bytes),
                                                       stream_);
}

Status StreamRun::contribute(const Departure& departure) {
  const std::int64_t length = range_of(departure.from).length;
  const std::vector<Piece> pieces = is_last(program_.rank, departure.reader)
                                        ? pieces_of(length)
                                        : std::vector<Piece>{{0, length}};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SENNIT_RETURN_IF_ERROR(copy(departure, pieces[i]));
    SENNIT_RETURN_IF_ERROR(say(departure, static_cast<int>(i)));
  }
  return {};
}

Status StreamRun::run_fold(const Fold& fold) {
  SENNIT_ASSIGN_OR_RETURN(void* const stream, context_.sides.use(kOwnStream));
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
    SENNIT_RETURN_IF_ERROR(walk(context_.driver, steps, stream));
    SENNIT_RETURN_IF_ERROR(launch(fold, pieces[i], stream));
    SENNIT_RETURN_IF_ERROR(context_.driver.record(context_.folded[i], stream));
  }
  return {};
}

Status StreamRun::launch(const Fold& fold, const Piece& piece, void* stream) const {
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
             : context_.driver.launch(
                   call_.fold, {.blocks = kFoldBlocks, .threads = kFoldThreads}, &call, stream);
}

// The first rank gets the first piece while the last one is folded.
Status StreamRun::put_sums(const Fold& fold) {
  const std::vector<Piece> pieces = pieces_of(range_of(fold.to).length);
  for (const Departure& departure : fold.passes_on) {
    const bool is_first = &departure == &fold.passes_on.front();
    for (std::size_t i = 0; i < pieces.size() && is_first; ++i) {
      SENNIT_RETURN_IF_ERROR(context_.driver.wait_for(context_.folded[i], stream_));
      SENNIT_RETURN_IF_ERROR(copy(departure, pieces[i]));
    }
    if (!is_first) {
      SENNIT_RETURN_IF_ERROR(copy(departure, {0, range_of(fold.to).length}));
    }
    SENNIT_RETURN_IF_ERROR(say_in_time(departure));
  }
  return {};
}

Status StreamRun::copy_own(const OwnCopy& copy) {
  const ByteRange from = range_of(copy.from);
  const ByteRange to = range_of(copy.to);
  const std::byte* const source = call_.input + from.begin;
  std::byte* const target = call_.output + to.begin;
  if (source == target || to.length == 0) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(void* const stream, context_.sides.use(kOwnStream));
  // Kernels copy byte after byte what is not aligned.
  const bool is_aligned =
      (reinterpret_cast<std::uintptr_t>(source) | reinterpret_cast<std::uintptr_t>(target)) % 16 ==
      0;
  if (call_.copy == nullptr || !is_aligned) {
    return context_.driver.copy_async(target, source, static_cast<std::size_t>(to.length), stream);
  }
  FoldCall fold{.output = target, .bytes = to.length, .operand_count = 1};
  fold.operands[0].data = source;
  return context_.driver.launch(
      call_.copy, {.blocks = kFoldBlocks, .threads = kFoldThreads}, &fold, stream);
}

}  // namespace sennit::stream
