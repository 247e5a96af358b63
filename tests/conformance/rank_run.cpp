#include "rank_run.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>

namespace sennit::tests {
namespace {

// Floats and the parts of complex numbers lie on multiples of their size.
std::size_t alignment_of(Dtype dtype) { return std::min<std::size_t>(size_bytes(dtype), 8); }

}  // namespace

RankRun::RankRun(const Case& c, int rank, sennit_comm_t comm, RankMemory& memory, std::size_t place)
    : case_(c),
      rank_(rank),
      comm_(comm),
      memory_(memory),
      element_bytes_(size_bytes(c.dtype)),
      in_place_(is_in_place(c, rank)) {
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes_;
  };
  const std::size_t align = alignment_of(c.dtype);
  const std::size_t offset = place % 16 / align * align;
  const std::int64_t inputs = input_elements(c, rank);
  const std::int64_t outputs = output_elements(c, rank);
  // In place one of the two is a part of the other: the rank's own one.
  const std::size_t own = bytes(rank * c.count);
  recv_ = memory_.first.place(
      bytes(in_place_ ? std::max(inputs, outputs) : outputs), offset, place / 16 % 2 == 0);
  send_ = in_place_ ? recv_ + (outputs > inputs ? own : 0)
                    : memory_.second.place(bytes(inputs), offset, place / 32 % 2 == 0);
  recv_ += in_place_ && inputs > outputs ? own : 0;
  for (std::int64_t i = 0; i < inputs; ++i) {
    make_input(c, rank, i, send_ + bytes(i));
  }
}

sennit_status_t RankRun::run() {
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  const std::string algorithm(case_.algorithm->name);
  options.algorithm = algorithm.c_str();
  options.protocol = case_.direct ? "direct" : "slots";
  options.tile_bytes = kTileBytes;
  if (!is_reduction(case_.collective()) || case_.op != ReduceOp::kPremulSum) {
    return call(static_cast<sennit_redop_t>(case_.op), options);
  }
  std::array<std::byte, 16> scalar{};
  make_scalar(case_, rank_, scalar.data());
  sennit_redop_t op = SENNIT_SUM;
  const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
  if (const auto made = sennit_redop_create_premulsum(&op, scalar.data(), dtype, comm_);
      made != SENNIT_OK) {
    return made;
  }
  const sennit_status_t status = call(op, options);
  const sennit_status_t destroyed = sennit_redop_destroy(op, comm_);
  return status != SENNIT_OK ? status : destroyed;
}

sennit_status_t RankRun::call(sennit_redop_t op, const sennit_call_options_t& options) {
  const auto count = static_cast<std::size_t>(case_.count);
  const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
  const int root = case_.root;
  switch (case_.collective()) {
    case Collective::kAllReduce:
      return sennit_all_reduce(send_, recv_, count, dtype, op, comm_, nullptr, &options);
    case Collective::kReduce:
      return sennit_reduce(send_, recv_, count, dtype, op, root, comm_, nullptr, &options);
    case Collective::kBroadcast:
      return sennit_broadcast(send_, recv_, count, dtype, root, comm_, nullptr, &options);
    case Collective::kAllGather:
      return sennit_all_gather(send_, recv_, count, dtype, comm_, nullptr, &options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(send_, recv_, count, dtype, op, comm_, nullptr, &options);
    case Collective::kAllToAll:
      return sennit_all_to_all(send_, recv_, count, dtype, comm_, nullptr, &options);
    case Collective::kGather:
      return sennit_gather(send_, recv_, count, dtype, root, comm_, nullptr, &options);
    case Collective::kScatter:
      return sennit_scatter(send_, recv_, count, dtype, root, comm_, nullptr, &options);
    case Collective::kBarrier:
      return sennit_barrier(comm_, nullptr, &options);
    case Collective::kSendRecv:
      return shift(options);
  }
  return SENNIT_INTERNAL_ERROR;
}

// To the next rank, from the one before.
sennit_status_t RankRun::shift(const sennit_call_options_t& options) {
  const auto count = static_cast<std::size_t>(case_.count);
  const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
  const int ranks = case_.ranks;
  sennit_group_start();
  sennit_send(send_, count, dtype, (rank_ + 1) % ranks, comm_, nullptr, &options);
  sennit_recv(recv_, count, dtype, (rank_ + ranks - 1) % ranks, comm_, nullptr, &options);
  return sennit_group_end();
}

bool RankRun::input_is_whole() const {
  std::array<std::byte, 16> expected{};
  for (std::int64_t i = 0; i < input_elements(case_, rank_); ++i) {
    make_input(case_, rank_, i, expected.data());
    const std::byte* found = send_ + static_cast<std::size_t>(i) * element_bytes_;
    if (std::memcmp(expected.data(), found, element_bytes_) != 0) {
      return false;
    }
  }
  return true;
}

std::string RankRun::defect(const Oracle& oracle) const {
  if (std::string wrong = oracle.defect(rank_, recv_); !wrong.empty()) {
    return wrong;
  }
  if (!in_place_ && !input_is_whole()) {
    return fmt::format("rank {} overwrote its input", rank_);
  }
  const bool is_whole = memory_.first.is_whole() && (in_place_ || memory_.second.is_whole());
  return is_whole ? std::string() : fmt::format("rank {} wrote outside its buffers", rank_);
}

std::size_t RankRun::output_hash() const {
  const auto bytes = static_cast<std::size_t>(output_elements(case_, rank_)) * element_bytes_;
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(recv_), bytes});
}

}  // namespace sennit::tests
