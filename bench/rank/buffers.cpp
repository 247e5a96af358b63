#include "buffers.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace sennit::bench {
namespace {

constexpr unsigned char kPoison = 0xA5;
constexpr std::size_t kLine = 64;

// A pair begins where a cache line does, so that no call's data share a line with the next's.
std::size_t whole_lines(std::size_t bytes) {
  return std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
}

}  // namespace

Buffers::Memory Buffers::allocate(std::size_t bytes) {
  void* pointer = std::aligned_alloc(kLine, bytes);
  if (pointer == nullptr) {
    exit_with_error(3, std::to_string(bytes) + " bytes could not be allocated");
  }
  std::memset(pointer, kPoison, bytes);
  return Memory(static_cast<std::byte*>(pointer));
}

Buffers::Buffers(const WorkOrder& order, int rank, int ranks, std::size_t largest_bytes)
    : order_(order),
      rank_(rank),
      ranks_(ranks),
      memory_bytes_(whole_lines(largest_bytes + order.rotate_bytes)),
      send_(order.in_place ? nullptr : allocate(memory_bytes_)),
      recv_(allocate(memory_bytes_)),
      elements_(element_type(order.dtype), order.op, ranks, order.seed, !order.codec.empty()) {
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t variety = 0; variety < Elements::kVarieties; ++variety) {
      inputs_.push_back(elements_.input(r, variety));
    }
  }
}

void Buffers::lay_out(std::size_t count, std::size_t bytes, bool rotates) {
  count_ = count;
  offset_ = 0;
  stride_ = whole_lines(bytes);
  end_ = rotates ? (order_.rotate_bytes / stride_ + 1) * stride_ : stride_;
}

std::size_t Buffers::input_elements(int root) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  switch (order_.kind) {
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return ranks * count_;
    case Kind::kScatter:
      return rank_ == root ? ranks * count_ : 0;
    case Kind::kBroadcast:
      return rank_ == root ? count_ : 0;
    case Kind::kBarrier:
      return 0;
    default:
      return count_;
  }
}

std::size_t Buffers::output_elements(int root) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  switch (order_.kind) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return ranks * count_;
    case Kind::kGather:
      return rank_ == root ? ranks * count_ : 0;
    case Kind::kReduce:
      return rank_ == root ? count_ : 0;
    case Kind::kBarrier:
      return 0;
    default:
      return count_;
  }
}

// In place, the input lies in the receive buffer where sennit.h says.
const void* Buffers::send(int root) const {
  if (!order_.in_place) {
    return send_.get() + offset_;
  }
  const bool own_part =
      order_.kind == Kind::kAllGather || (order_.kind == Kind::kGather && rank_ == root);
  return recv_.get() + offset_ +
         (own_part ? static_cast<std::size_t>(rank_) * count_ * order_.element_bytes : 0);
}

void* Buffers::recv(int root) const {
  const bool own_part =
      order_.kind == Kind::kReduceScatter || (order_.kind == Kind::kScatter && rank_ == root);
  return recv_.get() + offset_ +
         (order_.in_place && own_part
              ? static_cast<std::size_t>(rank_) * count_ * order_.element_bytes
              : 0);
}

void Buffers::fill(int root) {
  std::memset(recv(root), kPoison, output_elements(root) * order_.element_bytes);
  auto* at = static_cast<std::byte*>(const_cast<void*>(send(root)));
  const std::size_t elements = input_elements(root);
  for (std::size_t i = 0; i < elements; ++i, at += order_.element_bytes) {
    std::memcpy(at, input_of(rank_, i), order_.element_bytes);
  }
}

Buffers::Source Buffers::source_of(std::size_t index, int root) const {
  const auto own = static_cast<std::size_t>(rank_) * count_;
  switch (order_.kind) {
    case Kind::kReduceScatter:
      return {.rank = -1, .index = own + index};
    case Kind::kBroadcast:
      return {.rank = root, .index = index};
    case Kind::kAllGather:
    case Kind::kGather:
      return {.rank = static_cast<int>(index / count_), .index = index % count_};
    case Kind::kAllToAll:
      return {.rank = static_cast<int>(index / count_), .index = own + index % count_};
    case Kind::kScatter:
      return {.rank = root, .index = own + index};
    case Kind::kSendRecv:
      return {.rank = order_.pair ? (rank_ == order_.pair->second ? order_.pair->first
                                                                  : order_.pair->second)
                                  : (rank_ + ranks_ - 1) % ranks_,
              .index = index};
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kBarrier:
      break;
  }
  return {.rank = -1, .index = index};
}

bool Buffers::is_right(const std::byte* element, std::size_t index, int root) const {
  const Source source = source_of(index, root);
  return source.rank < 0
             ? elements_.is_reduced(element, Elements::variety(source.index))
             : std::memcmp(element, input_of(source.rank, source.index), order_.element_bytes) == 0;
}

void Buffers::add_errors(int root, Errors& errors) const {
  const auto* at = static_cast<const std::byte*>(recv(root));
  const std::size_t elements = output_elements(root);
  for (std::size_t i = 0; i < elements; ++i, at += order_.element_bytes) {
    const Source source = source_of(i, root);
    const Elements::Error error =
        elements_.error_of(at, source.rank, Elements::variety(source.index));
    errors.squared += error.squared;
    errors.expected_squared += error.expected_squared;
    errors.most_squared = std::max(errors.most_squared, error.squared);
    errors.most_expected_squared = std::max(errors.most_expected_squared, error.expected_squared);
  }
}

std::uint64_t Buffers::count_wrong(int root) const {
  const auto* at = static_cast<const std::byte*>(recv(root));
  std::uint64_t wrong = 0;
  const std::size_t elements = output_elements(root);
  for (std::size_t i = 0; i < elements; ++i, at += order_.element_bytes) {
    wrong += is_right(at, i, root) ? 0 : 1;
  }
  return wrong;
}

}  // namespace sennit::bench
