#include "comm/operation.hpp"

#include <cstddef>
#include <utility>

namespace sennit {
namespace {

struct Extent {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};

// The memory that a rank reads and writes in an operation.
std::pair<Extent, Extent> extents(const Operation& op, int rank, int ranks) {
  const Problem problem{.collective = op.collective, .ranks = ranks, .root = op.root, .cut = 1};
  const auto bytes = op.count * static_cast<std::int64_t>(size_bytes(op.dtype));
  const int role = op.collective == Collective::kSendRecv ? (op.is_send ? 0 : 1) : rank;
  return {{static_cast<const std::byte*>(op.send), bytes * problem.input_blocks(role)},
          {static_cast<const std::byte*>(op.recv), bytes * problem.output_blocks(role)}};
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

}  // namespace

bool is_in_place(const Operation& op, int rank, int ranks) {
  const auto bytes = op.count * static_cast<std::int64_t>(size_bytes(op.dtype));
  const auto* send = static_cast<const std::byte*>(op.send);
  const auto* recv = static_cast<const std::byte*>(op.recv);
  const Problem problem{.collective = op.collective, .ranks = ranks, .root = op.root, .cut = 1};
  for (int block = 0; block < problem.output_blocks(rank); ++block) {
    if (const auto input = problem.aliased_input(rank, block)) {
      return send != nullptr && send + *input * bytes == recv + block * bytes;
    }
  }
  return false;
}

std::int64_t input_bytes(const Operation& operation, int rank, int ranks) {
  return extents(operation, rank, ranks).first.bytes;
}

Status check_buffers(const Operation& op, int rank, int ranks) {
  const auto [in, out] = extents(op, rank, ranks);
  if ((in.bytes > 0 && in.begin == nullptr) || (out.bytes > 0 && out.begin == nullptr)) {
    return fail(Code::kInvalidArgument,
                "the {} buffer of {} is NULL",
                in.bytes > 0 && in.begin == nullptr ? "send" : "recv",
                name(op.collective));
  }
  const bool overlap = in.bytes > 0 && out.bytes > 0 && in.begin < out.begin + out.bytes &&
                       out.begin < in.begin + in.bytes;
  if (overlap && !is_in_place(op, rank, ranks)) {
    return fail(Code::kInvalidArgument,
                "send and recv of {} overlap, but are not in place as this collective has it (see "
                "sennit.h)",
                name(op.collective));
  }
  return {};
}

CallWords words_of(const Operation& operation, std::uint64_t plan_hash) {
  return {.collective = static_cast<std::uint32_t>(operation.collective),
          .dtype = static_cast<std::uint32_t>(operation.dtype),
          .op = is_reduction(operation.collective) ? static_cast<std::uint32_t>(operation.op) : 0U,
          .root = is_rooted(operation.collective) ? operation.root : -1,
          .count = static_cast<std::uint64_t>(operation.count),
          .plan_hash = plan_hash};
}

std::uint32_t fingerprint_of(const CallWords& words) {
  std::uint64_t hash = words.plan_hash;
  for (const std::uint64_t word :
       {(std::uint64_t{words.collective} << 40) | (std::uint64_t{words.dtype} << 32) | words.op,
        static_cast<std::uint64_t>(words.root),
        words.count}) {
    hash = mix(hash + 0x9e3779b97f4a7c15ULL + word);
  }
  return static_cast<std::uint32_t>(hash);
}

}  // namespace sennit
