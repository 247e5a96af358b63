#include "schedule/problem.hpp"

#include <algorithm>
#include <numeric>

namespace sennit {
namespace {

// Cut blocks begin on 128-byte boundaries relative to the vector: a whole number of cache-line
// pairs on the host, and of 128-byte store lines on a GPU.
constexpr std::int64_t kBlockAlignBytes = 128;

}  // namespace

int Problem::input_blocks(int rank) const {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return cut;
    case Collective::kBroadcast:
      return rank == root ? cut : 0;
    case Collective::kAllGather:
    case Collective::kGather:
      return 1;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return ranks;
    case Collective::kScatter:
      return rank == root ? ranks : 0;
    case Collective::kBarrier:
      return 0;
    case Collective::kSendRecv:
      return rank == 0 ? 1 : 0;
  }
  return 0;
}

int Problem::output_blocks(int rank) const {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return cut;
    case Collective::kReduce:
      return rank == root ? cut : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return ranks;
    case Collective::kGather:
      return rank == root ? ranks : 0;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return 1;
    case Collective::kBarrier:
      return 0;
    case Collective::kSendRecv:
      return rank == 1 ? 1 : 0;
  }
  return 0;
}

std::optional<int> Problem::aliased_input(int rank, int output_index) const {
  switch (collective) {
    case Collective::kAllReduce:
      return output_index;
    case Collective::kAllToAll:
      return varying ? std::nullopt : std::optional(output_index);
    case Collective::kReduce:
    case Collective::kBroadcast:
      return rank == root ? std::optional(output_index) : std::nullopt;
    case Collective::kAllGather:
      return output_index == rank ? std::optional(0) : std::nullopt;
    case Collective::kGather:
      return rank == root && output_index == root ? std::optional(0) : std::nullopt;
    case Collective::kReduceScatter:
      return rank;
    case Collective::kScatter:
      return rank == root ? std::optional(root) : std::nullopt;
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return std::nullopt;
  }
  return std::nullopt;
}

Problem::Contributions Problem::expected(int rank, int output_index) const {
  std::vector<int> everyone(static_cast<std::size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return {std::move(everyone), output_index};
    case Collective::kReduceScatter:
      return {std::move(everyone), rank};
    case Collective::kBroadcast:
      return {{root}, output_index};
    case Collective::kAllGather:
    case Collective::kGather:
      return {{output_index}, 0};
    case Collective::kAllToAll:
      return {{output_index}, rank};
    case Collective::kScatter:
      return {{root}, rank};
    case Collective::kSendRecv:
      return {{0}, 0};
    case Collective::kBarrier:
      return {};
  }
  return {};
}

bool has_varying_form(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kAllToAll ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

ElementRange block_range(const Problem& problem,
                         std::int64_t count,
                         std::int64_t element_bytes,
                         int index) {
  if (!is_cut(problem.collective)) {
    return {.begin = index * count, .length = count};
  }
  const std::int64_t align = std::max<std::int64_t>(1, kBlockAlignBytes / element_bytes);
  const std::int64_t even = (count + problem.cut - 1) / problem.cut;
  const std::int64_t block = problem.cut == 1 ? count : (even + align - 1) / align * align;
  const std::int64_t begin = std::min(count, index * block);
  return {.begin = begin, .length = std::min(block, count - begin)};
}

}  // namespace sennit
