#include "world/operation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

namespace sennit {
namespace {

struct Extent {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};

std::int64_t element_bytes(const Operation& op) {
  return static_cast<std::int64_t>(size_bytes(op.dtype));
}

Problem problem_of(const Operation& op, int ranks) {
  return {.collective = op.collective,
          .ranks = ranks,
          .root = op.root,
          .cut = 1,
          .varying = op.varying};
}

// From the first to behind the last element of any block.
Extent span_of(const void* buffer, const std::vector<ElementRange>& blocks, std::int64_t bytes) {
  std::int64_t begin = INT64_MAX;
  std::int64_t end = 0;
  for (const ElementRange& block : blocks) {
    if (block.length > 0) {
      begin = std::min(begin, block.begin);
      end = std::max(end, block.begin + block.length);
    }
  }
  const auto* base = static_cast<const std::byte*>(buffer);
  return end == 0 ? Extent{.begin = base} : Extent{base + begin * bytes, (end - begin) * bytes};
}

// The memory that a rank reads and writes in an operation.
std::pair<Extent, Extent> extents(const Operation& op, int rank, int ranks) {
  if (op.varying) {
    return {span_of(op.send, op.inputs, element_bytes(op)),
            span_of(op.recv, op.outputs, element_bytes(op))};
  }
  const Problem problem = problem_of(op, ranks);
  const auto bytes = op.count * element_bytes(op);
  const int role = op.collective == Collective::kSendRecv ? (op.is_send ? 0 : 1) : rank;
  return {{static_cast<const std::byte*>(op.send), bytes * problem.input_blocks(role)},
          {static_cast<const std::byte*>(op.recv), bytes * problem.output_blocks(role)}};
}

ElementRange block_of(const Operation& op, const std::vector<ElementRange>& blocks, int index) {
  return op.varying ? blocks[static_cast<std::size_t>(index)]
                    : ElementRange{.begin = index * op.count, .length = op.count};
}

// Any change of any word changes about half of the bits (the finalizer of MurmurHash3 is a
// bijection with that property).
std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

std::vector<ElementRange> input_bytes(const Operation& op, int rank, int ranks) {
  if (!op.varying) {
    return {{.begin = 0, .length = extents(op, rank, ranks).first.bytes}};
  }
  std::vector<ElementRange> ranges = op.inputs;
  for (ElementRange& range : ranges) {
    range = {.begin = range.begin * element_bytes(op), .length = range.length * element_bytes(op)};
  }
  return ranges;
}

}  // namespace

std::string name_of(const Operation& op) {
  if (op.collective == Collective::kSendRecv) {
    return op.is_send ? "send" : "recv";
  }
  return fmt::format("{}{}", name(op.collective), op.varying ? "_v" : "");
}

bool is_in_place(const Operation& op, int rank, int ranks) {
  const std::int64_t bytes = element_bytes(op);
  const auto* send = static_cast<const std::byte*>(op.send);
  const auto* recv = static_cast<const std::byte*>(op.recv);
  const Problem problem = problem_of(op, ranks);
  for (int block = 0; block < problem.output_blocks(rank); ++block) {
    if (const auto input = problem.aliased_input(rank, block)) {
      return send != nullptr && send + block_of(op, op.inputs, *input).begin * bytes ==
                                    recv + block_of(op, op.outputs, block).begin * bytes;
    }
  }
  return false;
}

std::int64_t known_bytes(const Operation& op) {
  std::int64_t count = op.varying ? 0 : op.count;
  if (op.varying && op.collective == Collective::kAllGather) {
    for (const ElementRange& block : op.outputs) {
      count = std::max(count, block.length);
    }
  }
  return count * static_cast<std::int64_t>(size_bytes(op.dtype));
}

std::unique_ptr<std::byte[]> copy_of_input(const Operation& op, int rank, int ranks) {
  const std::vector<ElementRange> ranges = input_bytes(op, rank, ranks);
  std::int64_t end = 0;
  for (const ElementRange& range : ranges) {
    end = std::max(end, range.begin + range.length);
  }
  auto copy = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(end));
  for (const ElementRange& range : ranges) {
    std::copy_n(static_cast<const std::byte*>(op.send) + range.begin,
                range.length,
                copy.get() + range.begin);
  }
  return copy;
}

std::int64_t sent_to(const Operation& op, int rank, int peer) {
  const bool has_part = op.collective != Collective::kGather || peer == op.root;
  const bool sends = op.collective != Collective::kScatter || rank == op.root;
  return has_part && sends
             ? op.inputs[op.inputs.size() > 1 ? static_cast<std::size_t>(peer) : 0].length
             : 0;
}

std::int64_t expected_from(const Operation& op, int rank, int peer) {
  const bool has_part = op.collective != Collective::kScatter || peer == op.root;
  const bool receives = op.collective != Collective::kGather || rank == op.root;
  return has_part && receives
             ? op.outputs[op.outputs.size() > 1 ? static_cast<std::size_t>(peer) : 0].length
             : 0;
}

Status check_lengths(const Operation& op, int rank, int ranks) {
  const std::int64_t largest = INT64_MAX / element_bytes(op) / ranks / 2;
  for (const auto* blocks : {&op.inputs, &op.outputs}) {
    for (const ElementRange& block : *blocks) {
      if (block.length < 0 || block.length > largest || block.begin < 0 || block.begin > largest) {
        return fail(Code::kInvalidArgument,
                    "a count of {} at displacement {} is out of range",
                    block.length,
                    block.begin);
      }
    }
  }
  if (sent_to(op, rank, rank) != expected_from(op, rank, rank)) {
    return fail(Code::kInvalidArgument,
                "rank {} sends {} elements to itself, but expects {}",
                rank,
                sent_to(op, rank, rank),
                expected_from(op, rank, rank));
  }
  std::vector<ElementRange> outputs = op.outputs;
  std::erase_if(outputs, [](const ElementRange& block) { return block.length == 0; });
  std::ranges::sort(outputs, {}, &ElementRange::begin);
  const auto overlap = [](const ElementRange& a, const ElementRange& b) {
    return a.begin + a.length > b.begin;
  };
  if (std::ranges::adjacent_find(outputs, overlap) != outputs.end()) {
    return fail(Code::kInvalidArgument, "blocks of the recv buffer of {} overlap", name_of(op));
  }
  return {};
}

BufferUse buffer_use(const Operation& op, int rank, int ranks) {
  const auto [in, out] = extents(op, rank, ranks);
  return {.send = in.bytes > 0, .recv = out.bytes > 0};
}

namespace {

Status no_rank(std::string_view what, int number, int ranks) {
  return fail(Code::kInvalidArgument,
              "{} {} is not a rank; the ranks are 0 to {}",
              what,
              number,
              ranks - 1);
}

Status check_peer(const Operation& op, int ranks) {
  if (op.peer == kAnyRank && !op.is_send) {
    return ranks > 1 ? Status()
                     : fail(Code::kInvalidArgument, "a recv from any rank, and there is no other");
  }
  return op.peer >= 0 && op.peer < ranks ? Status() : no_rank("peer", op.peer, ranks);
}

Status check_buffers(const Operation& op, int rank, int ranks) {
  const auto [in, out] = extents(op, rank, ranks);
  const bool lacks_send = in.bytes > 0 && op.send == nullptr;
  if (lacks_send || (out.bytes > 0 && op.recv == nullptr)) {
    return fail(Code::kInvalidArgument,
                "the {} buffer of {} is NULL",
                lacks_send ? "send" : "recv",
                name_of(op));
  }
  const bool overlap = in.bytes > 0 && out.bytes > 0 && in.begin < out.begin + out.bytes &&
                       out.begin < in.begin + in.bytes;
  if (overlap && !is_in_place(op, rank, ranks)) {
    return fail(Code::kInvalidArgument,
                "send and recv of {} overlap, but are not in place as this collective has it (see "
                "sennit.h)",
                name_of(op));
  }
  return {};
}

Status check_rms_norm(const Operation& op) {
  if (op.collective != Collective::kAllReduce || op.op != ReduceOp::kSum) {
    return fail(Code::kUnsupported,
                "{} by {} with rms_norm: it is for all_reduce by sum",
                name_of(op),
                is_reduction(op.collective) ? name(op.op) : "no operator");
  }
  SENNIT_RETURN_IF_ERROR(check_rows(*op.rms_norm, op.count, op.dtype));
  return check_places(*op.rms_norm, op.send, op.recv, op.count, op.dtype);
}

}  // namespace

Status check_arguments(const Operation& op, int rank, int ranks) {
  if (is_reduction(op.collective)) {
    SENNIT_RETURN_IF_ERROR(check_operator(op.dtype, op.op));
  }
  if (is_rooted(op.collective) && (op.root < 0 || op.root >= ranks)) {
    return no_rank("root", op.root, ranks);
  }
  if (op.collective == Collective::kSendRecv) {
    SENNIT_RETURN_IF_ERROR(check_peer(op, ranks));
  }
  if (op.tag < 0 || (op.tag != 0 && op.collective != Collective::kSendRecv)) {
    return fail(Code::kInvalidArgument,
                "{} with tag {}: sends and recvs have tags, which are not negative",
                name_of(op),
                op.tag);
  }
  const auto largest = INT64_MAX / static_cast<std::int64_t>(size_bytes(op.dtype)) / ranks;
  if (op.count < 0 || op.count > largest) {
    return fail(Code::kInvalidArgument, "a count of {} is out of range", op.count);
  }
  if (std::isnan(op.deadline_s)) {
    return fail(Code::kInvalidArgument, "the deadline of {} is no number of seconds", name_of(op));
  }
  if (op.varying) {
    SENNIT_RETURN_IF_ERROR(check_lengths(op, rank, ranks));
  }
  if (op.rms_norm) {
    SENNIT_RETURN_IF_ERROR(check_rms_norm(op));
  }
  return check_buffers(op, rank, ranks);
}

BufferNeeds buffer_needs(const Operation& op, int rank, int ranks) {
  const auto [in, out] = extents(op, rank, ranks);
  BufferNeeds needs{.input_bytes = in.bytes, .output_bytes = out.bytes};
  const Problem problem = problem_of(op, ranks);
  for (int block = 0; block < problem.output_blocks(rank) && !needs.in_place_offset; ++block) {
    if (const auto input = problem.aliased_input(rank, block)) {
      needs.in_place_offset = (block - *input) * op.count * element_bytes(op);
    }
  }
  return needs;
}

namespace {

// Of a call that asks for few thread blocks, other packets come from each of them.
std::uint64_t hash_within(const CallRequest& request, std::uint64_t plan_hash) {
  return plan_hash == CallWords::kRefused || request.device_blocks == 0
             ? plan_hash
             : mix(plan_hash + static_cast<std::uint64_t>(request.device_blocks));
}

}  // namespace

CallWords words_of(const Operation& operation,
                   std::uint64_t plan_hash,
                   std::optional<Codec> codec) {
  plan_hash = hash_within(operation.request, plan_hash);
  if (operation.stands_for) {
    CallWords words = *operation.stands_for;
    words.plan_hash = plan_hash;
    return words;
  }
  return {
      .collective = static_cast<std::uint32_t>(operation.collective),
      .dtype = static_cast<std::uint32_t>(operation.dtype),
      .op = is_reduction(operation.collective) ? static_cast<std::uint32_t>(operation.op) : 0U,
      .root = is_rooted(operation.collective) ? operation.root : -1,
      .count = operation.varying ? 0 : static_cast<std::uint64_t>(operation.count),
      .plan_hash = plan_hash,
      .codec = codec ? static_cast<std::uint32_t>(*codec) : 0U,
      .tag = operation.tag,
      .row = operation.rms_norm ? static_cast<std::uint32_t>(operation.rms_norm->row_elements) : 0U,
      .varying = operation.varying};
}

std::uint32_t fingerprint_of(const CallWords& words) {
  std::uint64_t hash = words.plan_hash;
  for (const std::uint64_t word :
       {(std::uint64_t{words.varying} << 56) | (std::uint64_t{words.codec} << 48) |
            (std::uint64_t{words.collective} << 40) | (std::uint64_t{words.dtype} << 32) |
            (std::uint64_t{words.row} << 8) | words.op,
        static_cast<std::uint64_t>(words.root) ^ (static_cast<std::uint64_t>(words.tag) << 32),
        words.count}) {
    hash = mix(hash + 0x9e3779b97f4a7c15ULL + word);
  }
  return static_cast<std::uint32_t>(hash);
}

}  // namespace sennit
