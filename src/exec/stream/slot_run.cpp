#include "exec/stream/slot_run.hpp"

#include <algorithm>

namespace sennit::stream {
namespace {

constexpr int kPutStreams = 0;
constexpr int kTakeStreams = CopyLine::kMostStreams;

}  // namespace

SlotRun::SlotRun(const SlotContext& context,
                 const SlotProgram& program,
                 const Portion& portion,
                 const StreamCall& call)
    : context_(context),
      program_(program),
      portion_(portion),
      call_(call),
      // The first block is the longest.
      parts_(cut_into_slots(range_of(program.problem, portion, call.extent(), 0).length,
                            context.rings.shape)),
      put_line_(context.driver, context.sides, kPutStreams, CopyLine::kMostStreams),
      take_line_(context.driver, context.sides, kTakeStreams, CopyLine::kMostStreams) {}

RankWords& SlotRun::words_of(int rank) const {
  return *context_.words[static_cast<std::size_t>(rank)];
}

std::size_t SlotRun::slot_of(int sender, std::int64_t part, int message) const {
  const std::int64_t before = part * program_.messages[static_cast<std::size_t>(sender)];
  return static_cast<std::size_t>((before + message) % context_.rings.shape.slots);
}

ByteRange SlotRun::part_of(const Block& block, std::int64_t part) const {
  const ByteRange range = range_of(program_.problem, portion_, call_.extent(), block.index);
  const std::int64_t at = std::min(part * parts_.bytes, range.length);
  return {.begin = range.begin + at, .length = std::min(parts_.bytes, range.length - at)};
}

SlotRun::Takes SlotRun::takes_of(int message) const {
  const auto found = std::ranges::equal_range(program_.takes, message, {}, &Take::message);
  return {found.begin(), found.end()};
}

Status SlotRun::move() {
  for (std::int64_t part = 0; part < parts_.count; ++part) {
    for (int message = 0; message < program_.rounds; ++message) {
      if (message < static_cast<int>(program_.puts.size())) {
        SENNIT_RETURN_IF_ERROR(put(part, message));
      }
      SENNIT_RETURN_IF_ERROR(take(part, takes_of(message)));
    }
  }
  for (const BlockCopy& copy : program_.own_copies) {
    SENNIT_RETURN_IF_ERROR(copy_own(copy));
  }
  return {};
}

void SlotRun::await_readers(std::vector<WordStep>& steps, std::int64_t n) const {
  const auto messages = static_cast<std::int64_t>(program_.puts.size());
  const Put& put = program_.puts[static_cast<std::size_t>(n % messages)];
  const std::size_t slot = slot_of(program_.rank, 0, static_cast<int>(n));
  for (const int reader : put.readers) {
    consume(steps, &words_of(program_.rank).emptied[static_cast<std::size_t>(reader)][slot]);
  }
}

Status SlotRun::put(std::int64_t part, int message) {
  const Put& put = program_.puts[static_cast<std::size_t>(message)];
  const std::int64_t n = part * static_cast<std::int64_t>(program_.puts.size()) + message;
  std::vector<WordStep> steps;
  if (n >= context_.rings.shape.slots) {
    await_readers(steps, n - context_.rings.shape.slots);
  }
  SENNIT_RETURN_IF_ERROR(put_line_.await(steps));
  const std::size_t slot = slot_of(program_.rank, part, message);
  const ByteRange from = part_of(put.from, part);
  if (from.length > 0) {
    SENNIT_RETURN_IF_ERROR(
        put_line_.copy(context_.rings.slot(program_.rank, static_cast<int>(slot)),
                       call_.input + from.begin,
                       static_cast<std::size_t>(from.length)));
  }
  steps.clear();
  for (const int reader : put.readers) {
    steps.push_back(fill(&words_of(reader).filled[static_cast<std::size_t>(program_.rank)][slot]));
  }
  return put_line_.tell(steps);
}

Status SlotRun::take(std::int64_t part, Takes takes) {
  if (takes.empty()) {
    return {};
  }
  RankWords& mine = words_of(program_.rank);
  std::vector<WordStep> filled;
  std::vector<WordStep> taken;
  for (const Take& take : takes) {
    const std::size_t slot = slot_of(take.sender, part, take.message);
    consume(filled, &mine.filled[static_cast<std::size_t>(take.sender)][slot]);
    taken.push_back(
        fill(&words_of(take.sender).emptied[static_cast<std::size_t>(program_.rank)][slot]));
  }
  SENNIT_RETURN_IF_ERROR(take_line_.await(filled));
  for (const Take& take : takes) {
    const std::size_t slot = slot_of(take.sender, part, take.message);
    const ByteRange to = part_of(take.to, part);
    if (to.length > 0) {
      SENNIT_RETURN_IF_ERROR(
          take_line_.copy(call_.output + to.begin,
                          context_.rings.slot(take.sender, static_cast<int>(slot)),
                          static_cast<std::size_t>(to.length)));
    }
  }
  return take_line_.tell(taken);
}

Status SlotRun::copy_own(const BlockCopy& copy) {
  const ByteRange from = range_of(program_.problem, portion_, call_.extent(), copy.from.index);
  const ByteRange to = range_of(program_.problem, portion_, call_.extent(), copy.to.index);
  const std::byte* const source = call_.input + from.begin;
  std::byte* const target = call_.output + to.begin;
  if (source == target || to.length == 0) {
    return {};
  }
  return put_line_.copy(target, source, static_cast<std::size_t>(to.length));
}

void SlotRun::settle(std::vector<WordStep>& steps) const {
  const auto sent = parts_.count * static_cast<std::int64_t>(program_.puts.size());
  const auto first = std::max<std::int64_t>(0, sent - context_.rings.shape.slots);
  for (std::int64_t n = first; n < sent; ++n) {
    await_readers(steps, n);
  }
}

}  // namespace sennit::stream
