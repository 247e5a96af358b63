#include "comm/device/coded_calls.hpp"

#include "exec/stream/reduction.hpp"
#include "schedule/problem.hpp"
#include "select/select.hpp"

#include <algorithm>
#include <bit>

namespace sennit {
namespace {

using Part = coded::CodecCall::Part;

// Of decoded operands and their sum at once: they stay in the cache of the device.
constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;
// Coded bytes of so many elements are a multiple of kCodedAlignBytes.
constexpr std::int64_t kChunkStep = 4096;

// What an encoded part takes, with room up to where the next one may begin.
std::int64_t room(Codec codec, Dtype dtype, std::int64_t count) {
  const Result<std::size_t> bytes = most_coded_bytes(codec, dtype, static_cast<std::size_t>(count));
  SENNIT_CHECK(bytes.ok(), "type and count have been checked");
  return (static_cast<std::int64_t>(*bytes) + coded::kCodedAlignBytes - 1) /
         coded::kCodedAlignBytes * coded::kCodedAlignBytes;
}

// The call that moves the bytes of `operation`, between these buffers. Other ranks compare
// `operation`, not this one, with theirs.
Operation of_bytes(const Operation& operation, Codec codec, const void* send, void* recv) {
  Operation bytes = operation;
  bytes.send = send;
  bytes.recv = recv;
  bytes.dtype = Dtype::kUint8;
  bytes.op = ReduceOp::kSum;
  bytes.request.codec.clear();
  bytes.rms_norm.reset();
  bytes.stands_for = words_of(operation, 0, codec);
  return bytes;
}

// What a rank keeps of its own is not encoded, but copied.
bool keeps_own_part(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

// Where the bytes of each message lie; the last is their end.
std::vector<std::int64_t> places_of(std::span<const CodedCalls::Message> messages) {
  std::vector<std::int64_t> places = {0};
  for (const auto& [op, codec, index] : messages) {
    places.push_back(places.back() + (op.count == 0 ? 0 : room(codec, op.dtype, op.count)));
  }
  return places;
}

}  // namespace

CodedCalls::~CodedCalls() {
  for (std::byte* const memory : allocations_) {
    (void)driver_.release(memory);
  }
}

Status CodedCalls::check(const Operation& operation, Codec codec) const {
  if (!CodecKernels::has(codec, operation.dtype)) {
    return fail(Code::kUnsupported,
                "codec {} is for host ranks: the lengths of its blocks vary, and GPU ranks have no "
                "kernels for it yet",
                name(codec));
  }
  // Far below where sums of coded bytes overflow.
  if (operation.count >
      INT64_MAX / 4 / ranks_ / static_cast<std::int64_t>(size_bytes(operation.dtype))) {
    return fail(Code::kInvalidArgument,
                "{} elements of {} are more than memory can hold: check the count",
                operation.count,
                name(operation.dtype));
  }
  if (!has_a_process_each_) {
    return fail(Code::kUnsupported,
                "{} cannot have codec {}: ranks that are threads of one process would allocate "
                "memory while kernels of others run, and wait for them; use a process for each",
                name_of(operation),
                name(codec));
  }
  if (!operation.request.algorithm.empty()) {
    return fail(Code::kUnsupported,
                "{} by algorithm {} cannot have codec {} on GPU ranks: leave the algorithm out",
                name_of(operation),
                operation.request.algorithm,
                name(codec));
  }
  if (!is_reduction(operation.collective)) {
    return {};
  }
  if (ranks_ > stream::kMaxRanks || !stream::has_reduction(operation.dtype, operation.op)) {
    return fail(Code::kUnsupported,
                "{} of {} by {} among {} GPU ranks cannot have codec {}: up to {} ranks reduce so, "
                "by operators that all protocols have",
                name_of(operation),
                name(operation.dtype),
                name(operation.op),
                ranks_,
                name(codec),
                stream::kMaxRanks);
  }
  return operation.scalar_on_device == nullptr
             ? Status()
             : fail(Code::kUnsupported,
                    "{} by a scalar in device memory cannot have codec {}: make the operator of a "
                    "scalar in host memory",
                    name_of(operation),
                    name(codec));
}

Result<std::byte*> CodedCalls::memory_of(std::int64_t bytes, void* stream) {
  if (bytes > bytes_ || allocations_.empty()) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
    if (is_capturing) {
      return fail(Code::kInvalidUsage,
                  "a call with a codec needs {} bytes for what it codes, and nothing is allocated "
                  "under capture: make a call of this size before the capture",
                  bytes);
    }
    // In few steps, and whole pages, which peers can map.
    constexpr std::int64_t kPage = std::int64_t{2} << 20;
    const auto step = std::max(
        kPage, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)) / 4));
    const std::int64_t size = (bytes + step - 1) / step * step;
    SENNIT_ASSIGN_OR_RETURN(void* const memory, driver_.allocate(static_cast<std::size_t>(size)));
    allocations_.push_back(static_cast<std::byte*>(memory));
    bytes_ = size;
  }
  return allocations_.back();
}

// One collective on its way.
class CodedCalls::Collective {
 public:
  Collective(CodedCalls& calls, const Operation& op, Codec codec, void* stream, const Move& move)
      : calls_(calls),
        op_(op),
        codec_(codec),
        stream_(stream),
        move_(move),
        element_bytes_(static_cast<std::int64_t>(size_bytes(op.dtype))) {}

  // Parts are moved as they are.
  Status move_parts();
  Status reduce();

 private:
  // Of a user's buffer.
  using Ranges = std::vector<ElementRange>;

  [[nodiscard]] Ranges ranges_of(const Ranges& given, int blocks) const;
  [[nodiscard]] std::int64_t room_of(std::int64_t count) const {
    return room(codec_, op_.dtype, count);
  }
  // Where the coded bytes of each range lie, one part behind the other; the last is their end.
  [[nodiscard]] std::vector<std::int64_t> places_of(const Ranges& ranges) const;
  [[nodiscard]] Ranges byte_ranges(const Ranges& ranges) const;
  [[nodiscard]] const std::byte* sent(std::int64_t element) const {
    return static_cast<const std::byte*>(op_.send) + element * element_bytes_;
  }
  [[nodiscard]] std::byte* received(std::int64_t element) const {
    return static_cast<std::byte*>(op_.recv) + element * element_bytes_;
  }
  Status encode(std::span<const Part> parts) {
    return calls_.kernels_.encode(codec_, op_.dtype, parts, stream_);
  }
  Status decode(std::span<const Part> parts) {
    return calls_.kernels_.decode(codec_, op_.dtype, parts, stream_);
  }

  // Moves bytes of a reduction; each block takes `room`.
  Status exchange(sennit::Collective collective,
                  const std::byte* from,
                  std::byte* to,
                  std::int64_t room);
  // What this rank contributes, each range at its multiple of `room`.
  Status encode_contributions(const Ranges& ranges, std::byte* to, std::int64_t room);
  // The sum of what has come from all ranks, `count` elements, chunk by chunk: to `plain`, or, if
  // that is null, encoded to `encoded`.
  Status sum_up(const std::byte* coded,
                std::int64_t room,
                std::int64_t count,
                std::byte* plain,
                std::byte* encoded);
  [[nodiscard]] std::int64_t chunk_of(std::int64_t count) const;
  // Of `operands` chunks that are held at once.
  [[nodiscard]] std::int64_t chunk_pitch(std::int64_t count) const {
    return (std::min(chunk_of(count), count) * element_bytes_ + 15) / 16 * 16;
  }

  CodedCalls& calls_;
  const Operation& op_;
  Codec codec_;
  void* stream_;
  const Move& move_;
  std::int64_t element_bytes_;
  std::byte* values_ = nullptr;  // room for chunks of decoded operands
};

CodedCalls::Collective::Ranges CodedCalls::Collective::ranges_of(const Ranges& given,
                                                                 int blocks) const {
  if (op_.varying) {
    return given;
  }
  Ranges ranges;
  for (int block = 0; block < blocks; ++block) {
    ranges.push_back({.begin = block * op_.count, .length = op_.count});
  }
  return ranges;
}

std::vector<std::int64_t> CodedCalls::Collective::places_of(const Ranges& ranges) const {
  std::vector<std::int64_t> places = {0};
  for (const ElementRange& range : ranges) {
    places.push_back(places.back() + (range.length == 0 ? 0 : room_of(range.length)));
  }
  return places;
}

CodedCalls::Collective::Ranges CodedCalls::Collective::byte_ranges(const Ranges& ranges) const {
  const std::vector<std::int64_t> places = places_of(ranges);
  Ranges bytes;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    bytes.push_back({.begin = places[i], .length = places[i + 1] - places[i]});
  }
  return bytes;
}

Status CodedCalls::Collective::move_parts() {
  const Problem problem{.collective = op_.collective,
                        .ranks = calls_.ranks_,
                        .root = op_.root,
                        .cut = 1,
                        .varying = op_.varying};
  const Ranges inputs = ranges_of(op_.inputs, problem.input_blocks(calls_.rank_));
  const Ranges outputs = ranges_of(op_.outputs, problem.output_blocks(calls_.rank_));
  const std::vector<std::int64_t> from = places_of(inputs);
  const std::vector<std::int64_t> to = places_of(outputs);
  SENNIT_ASSIGN_OR_RETURN(std::byte* const coded,
                          calls_.memory_of(from.back() + to.back(), stream_));
  std::byte* const come = coded + from.back();
  const bool keeps_own = keeps_own_part(op_.collective) && !inputs.empty() && !outputs.empty();
  const auto own = [this](const Ranges& ranges) {
    return ranges.size() > 1 ? static_cast<std::size_t>(calls_.rank_) : 0;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!keeps_own || i != own(inputs)) {
      parts.push_back({sent(inputs[i].begin), coded + from[i], inputs[i].length});
    }
  }
  SENNIT_RETURN_IF_ERROR(encode(parts));
  Operation bytes = of_bytes(op_, codec_, coded, come);
  bytes.count = op_.varying ? std::max(from.back(), to.back()) : room_of(op_.count);
  bytes.inputs = op_.varying ? byte_ranges(inputs) : Ranges();
  bytes.outputs = op_.varying ? byte_ranges(outputs) : Ranges();
  SENNIT_RETURN_IF_ERROR(move_(bytes));
  parts.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!keeps_own || i != own(outputs)) {
      parts.push_back({come + to[i], received(outputs[i].begin), outputs[i].length});
    }
  }
  if (keeps_own) {
    const ElementRange& source = inputs[own(inputs)];
    std::byte* const target = received(outputs[own(outputs)].begin);
    if (target != sent(source.begin) && source.length > 0) {
      SENNIT_RETURN_IF_ERROR(
          calls_.driver_.copy_async(target,
                                    sent(source.begin),
                                    static_cast<std::size_t>(source.length * element_bytes_),
                                    stream_));
    }
  }
  return decode(parts);
}

Status CodedCalls::Collective::exchange(sennit::Collective collective,
                                        const std::byte* from,
                                        std::byte* to,
                                        std::int64_t room) {
  Operation bytes = of_bytes(op_, codec_, from, to);
  bytes.collective = collective;
  bytes.count = room;
  return move_(bytes);
}

std::int64_t CodedCalls::Collective::chunk_of(std::int64_t count) const {
  const std::int64_t fits = kChunkBytes / ((calls_.ranks_ + 1) * element_bytes_);
  const std::int64_t step = std::max<std::int64_t>(fits / kChunkStep, 1) * kChunkStep;
  return std::min(step, (count + kChunkStep - 1) / kChunkStep * kChunkStep);
}

Status CodedCalls::Collective::encode_contributions(const Ranges& ranges,
                                                    std::byte* to,
                                                    std::int64_t room) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    parts.push_back(
        {sent(ranges[i].begin), to + static_cast<std::int64_t>(i) * room, ranges[i].length});
  }
  if (!scales_contributions(op_.op)) {
    return encode(parts);
  }
  for (const Part& part : parts) {
    const std::int64_t chunk = chunk_of(part.count);
    for (std::int64_t begin = 0; begin < part.count; begin += chunk) {
      const std::int64_t count = std::min(chunk, part.count - begin);
      stream::ReductionCall scale{.outputs = {values_},
                                  .bytes = count * element_bytes_,
                                  .operand_count = 1,
                                  .ranks = calls_.ranks_};
      scale.operands[0] = {part.from + begin * element_bytes_, op_.scaling.scalar};
      SENNIT_RETURN_IF_ERROR(calls_.kernels_.reduce(op_.dtype, op_.op, scale, stream_));
      const Part scaled{values_, part.to + (begin == 0 ? 0 : room_of(begin)), count};
      SENNIT_RETURN_IF_ERROR(encode({&scaled, 1}));
    }
  }
  return {};
}

Status CodedCalls::Collective::sum_up(const std::byte* coded,
                                      std::int64_t room,
                                      std::int64_t count,
                                      std::byte* plain,
                                      std::byte* encoded) {
  const std::int64_t chunk = chunk_of(count);
  const std::int64_t pitch = chunk_pitch(count);
  // The contributions have been scaled.
  const ReduceOp op = scales_contributions(op_.op) ? ReduceOp::kSum : op_.op;
  for (std::int64_t begin = 0; begin < count; begin += chunk) {
    const std::int64_t elements = std::min(chunk, count - begin);
    const std::int64_t at = begin == 0 ? 0 : room_of(begin);
    std::byte* const sum =
        plain != nullptr ? plain + begin * element_bytes_ : values_ + calls_.ranks_ * pitch;
    stream::ReductionCall call{.outputs = {sum},
                               .bytes = elements * element_bytes_,
                               .operand_count = calls_.ranks_,
                               .ranks = calls_.ranks_};
    std::vector<Part> parts;
    for (int rank = 0; rank < calls_.ranks_; ++rank) {
      std::byte* const operand = values_ + rank * pitch;
      parts.push_back({coded + rank * room + at, operand, elements});
      call.operands[static_cast<std::size_t>(rank)].data = operand;
    }
    SENNIT_RETURN_IF_ERROR(decode(parts));
    SENNIT_RETURN_IF_ERROR(calls_.kernels_.reduce(op_.dtype, op, call, stream_));
    if (plain == nullptr) {
      const Part part{sum, encoded + at, elements};
      SENNIT_RETURN_IF_ERROR(encode({&part, 1}));
    }
  }
  return {};
}

Status CodedCalls::Collective::reduce() {
  const int ranks = calls_.ranks_;
  const bool is_one_shot =
      op_.collective == sennit::Collective::kAllReduce && op_.bytes() <= kLossyOneShotBytes;
  const bool is_two_shot = op_.collective == sennit::Collective::kAllReduce && !is_one_shot;
  // The blocks that this rank sends, and how many elements it reduces.
  Ranges blocks;
  const Problem cut{.collective = op_.collective, .ranks = ranks, .root = op_.root, .cut = ranks};
  for (int rank = 0; is_two_shot && rank < ranks; ++rank) {
    blocks.push_back(block_range(cut, op_.count, element_bytes_, rank));
  }
  if (!is_two_shot) {
    const bool has_blocks = op_.collective == sennit::Collective::kReduceScatter;
    blocks = ranges_of({}, has_blocks ? ranks : 1);
  }
  const bool reduces = op_.collective != sennit::Collective::kReduce || op_.root == calls_.rank_;
  const std::int64_t own =
      is_two_shot ? blocks[static_cast<std::size_t>(calls_.rank_)].length : op_.count;
  const std::int64_t room = room_of(blocks.front().length);
  const std::int64_t sent_bytes = room * static_cast<std::int64_t>(blocks.size());
  const std::int64_t come_bytes = room * ranks;
  // Those of the longest block: every rank takes as much.
  const std::int64_t held = (ranks + 1) * chunk_pitch(blocks.front().length);
  SENNIT_ASSIGN_OR_RETURN(std::byte* const coded,
                          calls_.memory_of(sent_bytes + come_bytes + held, stream_));
  std::byte* const come = coded + sent_bytes;
  values_ = come + come_bytes;
  SENNIT_RETURN_IF_ERROR(encode_contributions(blocks, coded, room));
  const sennit::Collective first = is_one_shot ? sennit::Collective::kAllGather
                                   : op_.collective == sennit::Collective::kReduce
                                       ? sennit::Collective::kGather
                                       : sennit::Collective::kAllToAll;
  SENNIT_RETURN_IF_ERROR(exchange(first, coded, come, room));
  if (!reduces) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(sum_up(come, room, own, is_two_shot ? nullptr : received(0), coded));
  if (!is_two_shot) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(exchange(sennit::Collective::kAllGather, coded, come, room));
  std::vector<Part> parts;
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    parts.push_back({come + static_cast<std::int64_t>(rank) * room,
                     received(blocks[rank].begin),
                     blocks[rank].length});
  }
  return decode(parts);
}

Status CodedCalls::run(const Operation& operation, Codec codec, void* stream, const Move& move) {
  Collective collective(*this, operation, codec, stream, move);
  return is_reduction(operation.collective) ? collective.reduce() : collective.move_parts();
}

Result<std::vector<Operation>> CodedCalls::as_bytes(std::span<const Message> messages,
                                                    void* stream) {
  if (messages.empty()) {
    return std::vector<Operation>();
  }
  const std::vector<std::int64_t> places = places_of(messages);
  SENNIT_ASSIGN_OR_RETURN(std::byte* const memory, memory_of(places.back(), stream));
  std::vector<Operation> ends;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [op, codec, index] = messages[i];
    std::byte* const at = memory + places[i];
    ends.push_back(of_bytes(op, codec, op.is_send ? at : nullptr, op.is_send ? nullptr : at));
    ends.back().count = places[i + 1] - places[i];
  }
  return ends;
}

Status CodedCalls::encode(std::span<const Message> messages, void* stream) {
  const std::vector<std::int64_t> places = places_of(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [op, codec, index] = messages[i];
    if (op.is_send) {
      const Part part{
          static_cast<const std::byte*>(op.send), allocations_.back() + places[i], op.count};
      SENNIT_RETURN_IF_ERROR(kernels_.encode(codec, op.dtype, {&part, 1}, stream));
    }
  }
  return {};
}

Status CodedCalls::decode(std::span<const Message> messages, void* stream) {
  const std::vector<std::int64_t> places = places_of(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [op, codec, index] = messages[i];
    if (!op.is_send) {
      const Part part{allocations_.back() + places[i], static_cast<std::byte*>(op.recv), op.count};
      SENNIT_RETURN_IF_ERROR(kernels_.decode(codec, op.dtype, {&part, 1}, stream));
    }
  }
  return {};
}

}  // namespace sennit
