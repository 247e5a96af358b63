#include "buffers.hpp"

#include <algorithm>
#include <cstring>

namespace sennit::bench {
namespace {

constexpr unsigned char kPoison = 0xA5;

// Element `index` of rank's input is of_rank + of_index: sums, minima and maxima over ranks have
// closed forms, and all values fit every dtype exactly (uint8 sums wrap, as they must).
std::int64_t of_rank(int rank, std::uint64_t seed) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) * 37 + seed) % 97);
}
std::int64_t of_index(std::size_t index) {
  return static_cast<std::int64_t>((index * 29 + index / 97) % 101);
}

}  // namespace

Buffers::Memory Buffers::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  check(sennit_mem_alloc(&pointer, bytes));
  std::memset(pointer, kPoison, bytes);
  return Memory(static_cast<std::byte*>(pointer));
}

Buffers::Buffers(const WorkOrder& order, int rank, int ranks, std::size_t largest_bytes)
    : order_(order),
      rank_(rank),
      ranks_(ranks),
      send_(order.in_place ? nullptr : allocate(largest_bytes)),
      recv_(allocate(largest_bytes)) {
  std::int64_t sum = 0;
  std::int64_t least = of_rank(0, order.seed);
  std::int64_t most = least;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t value = of_rank(r, order.seed);
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  reduction_ = order.op == SENNIT_SUM   ? Reduction{sum, ranks}
               : order.op == SENNIT_MIN ? Reduction{least, 1}
                                        : Reduction{most, 1};
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
    return send_.get();
  }
  const bool own_part =
      order_.kind == Kind::kAllGather || (order_.kind == Kind::kGather && rank_ == root);
  return recv_.get() +
         (own_part ? static_cast<std::size_t>(rank_) * count_ * order_.element_bytes : 0);
}

void* Buffers::recv(int root) const {
  const bool own_part =
      order_.kind == Kind::kReduceScatter || (order_.kind == Kind::kScatter && rank_ == root);
  return recv_.get() + (order_.in_place && own_part
                            ? static_cast<std::size_t>(rank_) * count_ * order_.element_bytes
                            : 0);
}

template <typename T>
void Buffers::fill_as(int root) {
  std::memset(recv(root), kPoison, output_elements(root) * sizeof(T));
  auto* values = static_cast<T*>(const_cast<void*>(send(root)));
  const std::size_t elements = input_elements(root);
  for (std::size_t i = 0; i < elements; ++i) {
    values[i] = static_cast<T>(of_rank(rank_, order_.seed) + of_index(i));
  }
}

std::int64_t Buffers::expected(std::size_t index, int root) const {
  const auto own = static_cast<std::size_t>(rank_) * count_;
  const auto from = [&](int rank, std::size_t at) {
    return of_rank(rank, order_.seed) + of_index(at);
  };
  switch (order_.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return reduction_.base + reduction_.factor * of_index(index);
    case Kind::kReduceScatter:
      return reduction_.base + reduction_.factor * of_index(own + index);
    case Kind::kBroadcast:
      return from(root, index);
    case Kind::kAllGather:
    case Kind::kGather:
      return from(static_cast<int>(index / count_), index % count_);
    case Kind::kAllToAll:
      return from(static_cast<int>(index / count_), own + index % count_);
    case Kind::kScatter:
      return from(root, own + index);
    case Kind::kSendRecv:
      return from(order_.pair
                      ? (rank_ == order_.pair->second ? order_.pair->first : order_.pair->second)
                      : (rank_ + ranks_ - 1) % ranks_,
                  index);
    case Kind::kBarrier:
      return 0;
  }
  return 0;
}

template <typename T>
std::uint64_t Buffers::count_wrong_as(int root) const {
  const auto* values = static_cast<const T*>(recv(root));
  std::uint64_t wrong = 0;
  const std::size_t elements = output_elements(root);
  for (std::size_t i = 0; i < elements; ++i) {
    wrong += values[i] != static_cast<T>(expected(i, root)) ? 1 : 0;
  }
  return wrong;
}

namespace {

// Calls `function` with a null pointer of the element type.
template <typename Function>
auto with_type(sennit_dtype_t dtype, Function&& function) {
  switch (dtype) {
    case SENNIT_FLOAT32:
      return function(static_cast<float*>(nullptr));
    case SENNIT_FLOAT64:
      return function(static_cast<double*>(nullptr));
    case SENNIT_INT32:
      return function(static_cast<std::int32_t*>(nullptr));
    case SENNIT_INT64:
      return function(static_cast<std::int64_t*>(nullptr));
    case SENNIT_UINT8:
    case SENNIT_DTYPE_MAX_:
      return function(static_cast<std::uint8_t*>(nullptr));
  }
  return function(static_cast<std::uint8_t*>(nullptr));
}

}  // namespace

void Buffers::fill(int root) {
  with_type(order_.dtype, [&]<typename T>(T*) { fill_as<T>(root); });
}

std::uint64_t Buffers::count_wrong(int root) const {
  return with_type(order_.dtype, [&]<typename T>(T*) { return count_wrong_as<T>(root); });
}

}  // namespace sennit::bench
