// For tests: textbook schedules, right unless their comment says otherwise, before fusion.
#pragma once

#include "schedule/builder.hpp"

#include <map>
#include <utility>
#include <vector>

namespace sennit::verify_test {

inline Schedule ring(int ranks) {
  Builder b("ring", {.collective = Collective::kAllReduce, .ranks = ranks, .cut = ranks});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const auto wrap = [ranks](int rank) { return (rank + 2 * ranks) % ranks; };
  std::vector<int> to_next;
  for (int r = 0; r < ranks; ++r) {
    to_next.push_back(b.channel(lanes[static_cast<std::size_t>(r)],
                                lanes[static_cast<std::size_t>(wrap(r + 1))]));
  }
  for (const LaneId lane : lanes) {
    const int in = to_next[static_cast<std::size_t>(wrap(lane.rank - 1))];
    const int out = to_next[static_cast<std::size_t>(lane.rank)];
    b.send(lane, {input_block(lane.rank)}, out);
    for (int k = 1; k < 2 * ranks - 1; ++k) {
      const int block = wrap(lane.rank - k);
      if (k < ranks) {
        b.recv_reduce(lane, in, {input_block(block)}, {output_block(block)});
      } else {
        b.recv(lane, in, {output_block(block)});
      }
      if (k < 2 * ranks - 2) {
        b.send(lane, {output_block(block)}, out);
      }
    }
  }
  return std::move(b).finish();
}

inline Schedule chain(int ranks) {
  Builder b("chain", {.collective = Collective::kBroadcast, .ranks = ranks});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  for (std::size_t r = 0; r + 1 < lanes.size(); ++r) {
    const int channel = b.channel(lanes[r], lanes[r + 1]);
    b.send(lanes[r], {output_block(0)}, channel);
    b.recv(lanes[r + 1], channel, {output_block(0)});
  }
  return std::move(b).finish();
}

enum class First : std::uint8_t { kSend, kRecv };

// Rounds of exchange on one lane; with all sends first it is the direct all-to-all on one lane.
inline Schedule exchange(int ranks, First first, bool by_round) {
  Builder b("exchange", {.collective = Collective::kAllToAll, .ranks = ranks});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  std::map<std::pair<int, int>, int> channel;
  for (const LaneId from : lanes) {
    for (const LaneId to : lanes) {
      if (from != to) {
        channel[{from.rank, to.rank}] = b.channel(from, to);
      }
    }
  }
  for (const LaneId lane : lanes) {
    const auto send = [&](int round) {
      const int peer = (lane.rank + round) % ranks;
      b.send(lane, {input_block(peer)}, channel[{lane.rank, peer}]);
    };
    const auto recv = [&](int round) {
      const int peer = (lane.rank + ranks - round) % ranks;
      b.recv(lane, channel[{peer, lane.rank}], {output_block(peer)});
    };
    b.copy(lane, {input_block(lane.rank)}, {output_block(lane.rank)});
    for (int round = 1; round < ranks; ++round) {
      first == First::kSend ? send(round) : recv(round);
      if (by_round) {
        first == First::kSend ? recv(round) : send(round);
      }
    }
    for (int round = 1; round < ranks && !by_round; ++round) {
      first == First::kSend ? recv(round) : send(round);
    }
  }
  return std::move(b).finish();
}

// Sends, sums and results of a two-shot all-reduce, on one lane a rank or on three.
inline Schedule two_shot(int ranks, bool three_lanes) {
  Builder b("two_shot", {.collective = Collective::kAllReduce, .ranks = ranks, .cut = ranks});
  const auto sends = b.lane_on_every_rank(Need::kReduce);
  const auto sums = three_lanes ? b.lane_on_every_rank(Need::kReduce) : sends;
  const auto results = three_lanes ? b.lane_on_every_rank(Need::kReduce) : sends;
  std::vector<Step> sum(sends.size());
  std::map<std::pair<std::size_t, std::size_t>, int> result_channel;
  for (std::size_t r = 0; r < sends.size(); ++r) {
    const int own = static_cast<int>(r);
    sum[r] = {.kind = StepKind::kRecvReduce, .from = {input_block(own)}, .to = {output_block(own)}};
  }
  for (std::size_t from = 0; from < sends.size(); ++from) {
    for (std::size_t to = 0; to < sends.size(); ++to) {
      if (from != to) {
        const int channel = b.channel(sends[from], sums[to]);
        b.send(sends[from], {input_block(static_cast<int>(to))}, channel);
        sum[to].in.push_back(channel);
        result_channel[{from, to}] = b.channel(sums[from], results[to]);
        sum[from].out.push_back(result_channel[{from, to}]);
      }
    }
  }
  for (std::size_t r = 0; r < sends.size(); ++r) {
    b.step(sums[r], sum[r]);
    for (std::size_t from = 0; from < sends.size(); ++from) {
      if (from != r) {
        b.recv(results[r], result_channel[{from, r}], {output_block(static_cast<int>(from))});
      }
    }
  }
  return std::move(b).finish();
}

// One hub a rank, read by all others, each starting with its successor.
inline Schedule hub_all_gather(int ranks) {
  Builder b("hub", {.collective = Collective::kAllGather, .ranks = ranks});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  std::vector<int> hubs;
  for (const LaneId lane : lanes) {
    std::vector<LaneId> readers = lanes;
    std::erase(readers, lane);
    hubs.push_back(b.hub(lane, readers));
    b.send(lane, {input_block(0)}, hubs.back());
    b.copy(lane, {input_block(0)}, {output_block(lane.rank)});
  }
  for (const LaneId lane : lanes) {
    for (int d = 1; d < ranks; ++d) {
      const int source = (lane.rank + d) % ranks;
      b.recv(lane, hubs[static_cast<std::size_t>(source)], {output_block(source)});
    }
  }
  return std::move(b).finish();
}

}  // namespace sennit::verify_test
