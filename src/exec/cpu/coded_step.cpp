#include "exec/cpu/coded_step.hpp"

#include "base/copy_bytes.hpp"
#include "exec/cpu/coded_block.hpp"

#include <algorithm>
#include <utility>

namespace sennit {

void CodedStep::run() {
  switch (step_.kind) {
    case StepKind::kSend:
      return send();
    case StepKind::kRecv:
      return take();
    case StepKind::kRecvReduce:
    case StepKind::kReduce:
      return combine();
    case StepKind::kCopy:
      return copy();
    case StepKind::kToken:
      return;
  }
}

std::vector<CodedStep::Part> CodedStep::parts_of(std::int64_t elements) const {
  std::vector<Part> parts;
  for (std::int64_t begin = 0; begin < elements; begin += job_.coding_.part_elements) {
    parts.push_back({begin, std::min(job_.coding_.part_elements, elements - begin)});
  }
  return parts;
}

std::byte* CodedStep::place_in(const MessageRef& ref, std::size_t block, const Part& part) const {
  const auto room = [&](std::int64_t elements) {
    return ref.codec ? coded_room(*ref.codec, job_.call_.dtype, elements)
                     : static_cast<std::size_t>(bytes_of(elements));
  };
  std::byte* at = job_.layout_.payload(lane_, step_, job_.spot(ref, tile_), tile_);
  for (std::size_t before = 0; before < block; ++before) {
    at += room(job_.layout_.slice_elements(lane_, step_.lengths_of[before], tile_));
  }
  return at + room(part.begin);
}

bool CodedStep::is_coded_at_home(const Piece& piece) const {
  return step_.home_codec && piece.space == Space::kInput;
}

void CodedStep::scale(const Operand& from,
                      const Part& part,
                      bool is_finished,
                      std::byte* to) const {
  reduce(job_.call_.dtype,
         job_.call_.op,
         job_.call_.scaling,
         {.out = to,
          .operands = std::span(&from, 1),
          .elements = part.elements,
          .is_finished = is_finished});
}

void CodedStep::code_at_home(const std::byte* from, const Part& part, std::byte* to) const {
  std::byte* const coded = job_.coding_.coded();
  put_coded(*step_.home_codec, job_.call_.dtype, from, part.elements, coded);
  const Status status = take_coded(*step_.home_codec, job_.call_.dtype, coded, part.elements, to);
  SENNIT_CHECK(status.ok(), "what was encoded here can be decoded");
}

void CodedStep::decode(const MessageRef& ref, std::size_t block, const Part& part, std::byte* to) {
  const std::byte* const at = place_in(ref, block, part);
  if (!ref.codec) {
    copy_bytes(to, at, static_cast<std::size_t>(bytes_of(part.elements)));
    return;
  }
  const Status status = take_coded(*ref.codec, job_.call_.dtype, at, part.elements, to);
  if (!status.ok()) {
    ErrorDetail detail;
    detail.blamed_ranks = {job_.spot(ref, tile_).link->peer};
    job_.status_ = Status(status.code(), status.message(), std::move(detail));
  }
}

void CodedStep::copy() {
  for (std::size_t k = 0; k < step_.from.size(); ++k) {
    const Job::Slice from = job_.layout_.slice(lane_, step_.from[k], tile_);
    std::byte* const to = job_.layout_.slice(lane_, step_.to[k], tile_).data;
    if (!is_coded_at_home(step_.from[k])) {
      job_.move(step_, step_.from[k], from, {to});
      continue;
    }
    for (const Part& part : parts_of(from.elements)) {
      std::byte* const target = to + bytes_of(part.begin);
      const Operand coded = own(step_.from[k], part, 0);
      if (step_.post) {
        scale(coded, part, /*is_finished=*/true, target);
      } else {
        copy_bytes(target, coded.data, static_cast<std::size_t>(bytes_of(part.elements)));
      }
    }
  }
}

void CodedStep::send() {
  const auto out = std::ranges::find_if(
      step_.out, [this](const MessageRef& ref) { return job_.layout_.exists(ref, tile_); });
  if (out == step_.out.end()) {
    return;
  }
  for (std::size_t block = 0; block < step_.from.size(); ++block) {
    const Piece& piece = step_.from[block];
    const Job::Slice source = job_.layout_.slice(lane_, piece, tile_);
    const bool is_scaled = step_.pre && piece.space == Space::kInput;
    for (const Part& part : parts_of(source.elements)) {
      const std::byte* from = source.data + bytes_of(part.begin);
      if (is_scaled || step_.post) {
        scale({.data = from, .is_scaled = is_scaled}, part, step_.post, job_.coding_.operand(0));
        from = job_.coding_.operand(0);
      }
      put_coded(*out->codec, job_.call_.dtype, from, part.elements, place_in(*out, block, part));
    }
  }
  pass_on(place_in(*out, 0, {}), out + 1);
}

void CodedStep::take() {
  const MessageRef& in = step_.in.front();
  for (std::size_t block = 0; block < step_.to.size(); ++block) {
    const Job::Slice target = job_.layout_.slice(lane_, step_.to[block], tile_);
    for (const Part& part : parts_of(target.elements)) {
      decode(in, block, part, target.data + bytes_of(part.begin));
    }
  }
  pass_on(place_in(in, 0, {}), step_.out.begin());
}

void CodedStep::pass_on(const std::byte* from, Messages::const_iterator first) const {
  for (auto out = first; out != step_.out.end(); ++out) {
    if (job_.layout_.exists(*out, tile_)) {
      const Target slot{place_in(*out, 0, {}), job_.spot(*out, tile_).link->stores};
      slot.copy(from, job_.layout_.message_bytes(lane_, step_, out->codec, tile_));
    }
  }
}

Operand CodedStep::own(const Piece& piece, const Part& part, std::size_t buffer_index) {
  const std::byte* from = job_.layout_.slice(lane_, piece, tile_).data + bytes_of(part.begin);
  const bool is_scaled = step_.pre && piece.space == Space::kInput;
  if (!is_coded_at_home(piece)) {
    return {.data = from, .is_scaled = is_scaled};
  }
  std::byte* const coded = job_.coding_.operand(buffer_index);
  if (is_scaled) {
    scale({.data = from, .is_scaled = true}, part, /*is_finished=*/false, coded);
    from = coded;
  }
  code_at_home(from, part, coded);
  return {.data = coded};
}

Operand CodedStep::taken(const MessageRef& ref,
                         std::size_t block,
                         const Part& part,
                         std::size_t index) {
  if (!ref.codec) {
    return {.data = place_in(ref, block, part)};
  }
  decode(ref, block, part, job_.coding_.operand(index));
  return {.data = job_.coding_.operand(index)};
}

// As Job::combine, part by part.
void CodedStep::combine() {
  for (std::size_t block = 0; block < step_.lengths_of.size(); ++block) {
    const std::int64_t elements =
        job_.layout_.slice_elements(lane_, step_.lengths_of[block], tile_);
    for (const Part& part : parts_of(elements)) {
      combine_part(block, part);
    }
  }
  if (!step_.out.empty()) {
    pass_on(place_in(step_.out.front(), 0, {}), step_.out.begin() + 1);
  }
}

void CodedStep::combine_part(std::size_t block, const Part& part) {
  const std::size_t blocks = step_.lengths_of.size();
  const std::size_t local = step_.from.size() / blocks;
  std::vector<Operand> operands(local + step_.in.size());
  for (std::size_t place = 0; place < operands.size(); ++place) {
    const std::size_t operand =
        step_.order.empty() ? place : static_cast<std::size_t>(step_.order[place]);
    operands[place] = operand < local ? own(step_.from[operand * blocks + block], part, place)
                                      : taken(step_.in[operand - local], block, part, place);
  }
  std::byte* const result =
      step_.to.empty()
          ? job_.coding_.result()
          : job_.layout_.slice(lane_, step_.to[block], tile_).data + bytes_of(part.begin);
  reduce(
      job_.call_.dtype,
      job_.call_.op,
      job_.call_.scaling,
      {.out = result, .operands = operands, .elements = part.elements, .is_finished = step_.post});
  if (step_.out.empty()) {
    return;
  }
  const MessageRef& out = step_.out.front();
  std::byte* const sent = place_in(out, block, part);
  if (!out.codec) {
    copy_bytes(sent, result, static_cast<std::size_t>(bytes_of(part.elements)));
    return;
  }
  put_coded(*out.codec, job_.call_.dtype, result, part.elements, sent);
  if (!step_.to.empty() && !is_lossless(*out.codec)) {
    decode(out, block, part, result);  // what is stored is what the others get
  }
}

}  // namespace sennit
