#include "select/packet_choice.hpp"

#include "base/integers.hpp"

#include <algorithm>
#include <array>

namespace sennit {
namespace {

// What was fastest of the ways that were timed beside each other on 4 H200s (bench/results,
// `h200x4-slots`): ll128 and slots of every collective from 1 MB to 1 GB, in steps of four. A row
// begins at the geometric mean of the last size where another way won and the first where this one
// did, and the first row that fits is taken.
//
// A broadcast of 256 KB in one hop took 5.4 us (`h200x4-first`), in two hops 6.6 (`h200x4-slots`);
// one of 1 MB 13.3 and 8.2. A reduce, whose ways are in `h200x4-reduce`: 256 KB 5.9 and 7.3, 1 MB
// 10.1 and 9.8. Rows of two ranks are from 2 H200s (`h200x2-gpu-first`, and of reduce
// `h200x2-exchanges`): ll128 16 MB 56.5 us, 64 MB 209, and slots 57.4 and 197. Up to 256 KB two
// ranks have Ll and ll128 in `h200x2-packets`. More than four ranks were not measured: they take
// slots where they won for every collective of four.
struct MeasuredWay {
  Collective collective;
  int up_to_ranks;
  std::int64_t from_bytes;  // of all ranks together; of a message: of both
  std::string_view algorithm;
  Protocol protocol;
};
constexpr int kAnyRanks = 16;
constexpr std::array kMeasured = {
    MeasuredWay{Collective::kAllReduce, 2, 32 * kMega, "one_shot", Protocol::kSlots},
    MeasuredWay{Collective::kAllReduce, 2, 256 * kKilo, "one_shot", Protocol::kLl128},
    MeasuredWay{Collective::kAllReduce, 2, 128 * kKilo, "one_shot", Protocol::kLl},
    MeasuredWay{Collective::kAllReduce, 4, 8 * kMega, "two_shot", Protocol::kSlots},
    MeasuredWay{Collective::kAllReduce, kAnyRanks, 128 * kMega, "two_shot", Protocol::kSlots},

    MeasuredWay{Collective::kAllGather, 2, 128 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kAllGather, 2, 2 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kAllGather, 4, 8 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kAllGather, kAnyRanks, 128 * kMega, "direct", Protocol::kSlots},

    MeasuredWay{Collective::kReduceScatter, 2, 32 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kReduceScatter, 2, 2 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kReduceScatter, kAnyRanks, 128 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kReduceScatter, 4, 32 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kReduceScatter, 4, 8 * kMega, "direct", Protocol::kSlots},

    MeasuredWay{Collective::kAllToAll, 2, 32 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kAllToAll, 2, 2 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kAllToAll, kAnyRanks, 128 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kAllToAll, 4, 32 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kAllToAll, 4, 8 * kMega, "direct", Protocol::kSlots},

    MeasuredWay{Collective::kBroadcast, 2, 32 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kBroadcast, 2, 8 * kMega, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kBroadcast, 2, 2 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kBroadcast, 2, 512 * kKilo, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kBroadcast, 2, 128 * kKilo, "direct", Protocol::kLl},
    MeasuredWay{
        Collective::kBroadcast, kAnyRanks, 128 * kMega, "scatter_forward", Protocol::kSlots},
    MeasuredWay{Collective::kBroadcast, 4, 512 * kKilo, "scatter_forward", Protocol::kLl128},
    MeasuredWay{Collective::kBroadcast, 4, 128 * kKilo, "direct", Protocol::kLl128},

    MeasuredWay{Collective::kReduce, 2, 32 * kMega, "direct", Protocol::kSlots},
    MeasuredWay{Collective::kReduce, 2, 512 * kKilo, "direct", Protocol::kLl128},
    MeasuredWay{Collective::kReduce, 2, 128 * kKilo, "direct", Protocol::kLl},
    MeasuredWay{Collective::kReduce, 4, 512 * kKilo, "scatter_gather", Protocol::kLl128},
    MeasuredWay{Collective::kReduce, 4, 128 * kKilo, "direct", Protocol::kLl128},

    MeasuredWay{Collective::kSendRecv, 2, 4 * kMega, "direct", Protocol::kSlots},
};

const MeasuredWay* find_measured(Collective collective,
                                 int ranks,
                                 std::int64_t bytes,
                                 std::string_view wanted) {
  const std::int64_t total = total_bytes(collective, ranks, bytes);
  const auto* const row = std::ranges::find_if(kMeasured, [&](const MeasuredWay& way) {
    return way.collective == collective && ranks <= way.up_to_ranks && total >= way.from_bytes &&
           (wanted.empty() || way.algorithm == wanted);
  });
  return row == kMeasured.end() ? nullptr : row;
}

}  // namespace

std::int64_t total_bytes(Collective collective, int ranks, std::int64_t bytes) {
  return is_cut(collective) ? bytes : bytes * ranks;
}

std::int64_t ll_send_bytes(int ranks) {
  constexpr int kMostMeasured = 4;
  return kLlUpToBytes / (ranks <= kMostMeasured ? 1 : ranks - 1);
}

namespace {

PacketWay packets_by_model(Collective collective,
                           int ranks,
                           std::int64_t bytes,
                           std::string_view wanted) {
  const std::string_view algorithm =
      wanted.empty() ? algorithm_by_model(collective, ranks, bytes) : wanted;
  const bool is_small = (ranks - 1) * message_bytes(algorithm, ranks, bytes) <= kLlUpToBytes;
  return {algorithm, is_small ? Protocol::kLl : Protocol::kLl128};
}

}  // namespace

PacketWay packets_for(Collective collective,
                      int ranks,
                      std::int64_t bytes,
                      std::string_view wanted,
                      std::int64_t round_bytes) {
  const MeasuredWay* const row = find_measured(collective, ranks, bytes, wanted);
  const PacketWay way = row != nullptr ? PacketWay{row->algorithm, row->protocol}
                                       : packets_by_model(collective, ranks, bytes, wanted);
  const bool has_a_round = message_bytes(way.algorithm, ranks, bytes) <= round_bytes;
  return way.protocol == Protocol::kLl && !has_a_round ? PacketWay{way.algorithm, Protocol::kLl128}
                                                       : way;
}

std::optional<std::int64_t> timed_from_bytes(Collective collective,
                                             int ranks,
                                             std::int64_t bytes,
                                             std::string_view wanted) {
  const MeasuredWay* const row = find_measured(collective, ranks, bytes, wanted);
  return row == nullptr ? std::nullopt : std::optional(row->from_bytes);
}

}  // namespace sennit
