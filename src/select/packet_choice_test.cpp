#include "select/packet_choice.hpp"

#include "base/integers.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sennit {
namespace {

const GpuProfile& profile() { return profile_for({}); }

PacketWay by_size(Collective collective, int ranks, std::int64_t bytes) {
  return packets_for(profile(), collective, ranks, bytes, {});
}

// A row of a result file, as far as kernels of packets were timed next to each other.
struct Measured {
  Collective collective;
  int ranks;
  std::int64_t bytes;  // as selection counts
  double ll128_us;
  double slots_us;
};

std::vector<Measured> measured_in(const std::string& file) {
  std::ifstream text(SENNIT_RESULTS_DIR "/" + file);
  const nlohmann::json document = nlohmann::json::parse(text);
  std::vector<Measured> rows;
  for (const nlohmann::json& row : document.at("rows")) {
    const nlohmann::json& ways = row.at("engines");
    const bool is_bound_by_the_host = row.at("mode") == "stream" && row.at("bytes") <= kMega;
    if (!ways.contains("sennit slots") || is_bound_by_the_host) {
      continue;
    }
    const auto collective = parse_collective(row.at("collective").get<std::string>());
    if (!collective.ok()) {
      ADD_FAILURE() << collective.status().message();
      continue;
    }
    const bool is_pair = *collective == Collective::kSendRecv;
    const int ranks = row.at("ranks").get<int>();
    const auto bytes = row.at("bytes").get<std::int64_t>();
    rows.push_back({.collective = *collective,
                    .ranks = is_pair ? 2 : ranks,
                    .bytes = is_pair || is_cut(*collective) ? bytes : bytes / ranks,
                    .ll128_us = ways.at("sennit ll128").at("p50").get<double>(),
                    .slots_us = ways.at("sennit slots").at("p50").get<double>()});
  }
  return rows;
}

TEST(PacketChoice, TakesWhatWasFasterInTheFilesThatItNames) {
  std::vector<Measured> rows = measured_in("h200x4-slots.json");
  EXPECT_EQ(rows.size(), 36U);
  const std::vector<Measured> of_two = measured_in("h200x2-gpu-first.json");
  EXPECT_EQ(of_two.size(), 38U);
  rows.insert(rows.end(), of_two.begin(), of_two.end());
  for (const Measured& row : rows) {
    if (row.ranks == 2 && row.bytes <= profile().ll_up_to_bytes) {
      continue;  // Ll is not in these files
    }
    const Protocol faster = row.slots_us < row.ll128_us ? Protocol::kSlots : Protocol::kLl128;
    EXPECT_EQ(by_size(row.collective, row.ranks, row.bytes).protocol, faster)
        << name(row.collective) << " of " << row.bytes << ": ll128 " << row.ll128_us << ", slots "
        << row.slots_us;
  }
}

// Between two sizes that were measured, another way begins at their geometric mean.
TEST(PacketChoice, ChangesItsWayHalfwayBetweenMeasuredSizes) {
  const auto protocols = [](Collective collective, std::int64_t at) {
    return std::pair(by_size(collective, 4, at - 1).protocol, by_size(collective, 4, at).protocol);
  };
  const std::pair slots_begin(Protocol::kLl128, Protocol::kSlots);
  const std::pair slots_end(Protocol::kSlots, Protocol::kLl128);
  EXPECT_EQ(protocols(Collective::kAllReduce, 8 * kMega), slots_begin);
  EXPECT_EQ(protocols(Collective::kBroadcast, 128 * kMega), slots_begin);
  // Of each rank's part.
  EXPECT_EQ(protocols(Collective::kReduceScatter, 2 * kMega), slots_begin);
  EXPECT_EQ(protocols(Collective::kReduceScatter, 8 * kMega), slots_end);
  EXPECT_EQ(protocols(Collective::kReduceScatter, 32 * kMega), slots_begin);
  EXPECT_EQ(by_size(Collective::kSendRecv, 2, 2 * kMega - 1).protocol, Protocol::kLl128);
  EXPECT_EQ(by_size(Collective::kSendRecv, 2, 2 * kMega).protocol, Protocol::kSlots);
}

TEST(PacketChoice, BroadcastsInOneHopAsFarAsThatWasFaster) {
  for (const std::int64_t bytes : {8 * kKilo, 64 * kKilo, 256 * kKilo, 512 * kKilo - 1}) {
    EXPECT_EQ(by_size(Collective::kBroadcast, 4, bytes).algorithm, "direct") << bytes;
  }
  for (const std::int64_t bytes : {512 * kKilo, kMega, 1024 * kMega}) {
    EXPECT_EQ(by_size(Collective::kBroadcast, 4, bytes).algorithm, "scatter_forward") << bytes;
    EXPECT_EQ(by_size(Collective::kBroadcast, 2, bytes).algorithm, "direct") << bytes;
  }
}

TEST(PacketChoice, FollowsTheModelWhereNothingWasMeasured) {
  const PacketWay flags_by_word{"direct", Protocol::kLl};
  const PacketWay flags_by_line{"direct", Protocol::kLl128};
  for (const Collective collective :
       {Collective::kGather, Collective::kScatter, Collective::kAllGather}) {
    for (const int ranks : {2, 4, 16}) {
      const std::int64_t most = profile().ll_up_to_bytes / (ranks - 1);
      EXPECT_EQ(by_size(collective, ranks, most), flags_by_word) << ranks;
      EXPECT_EQ(by_size(collective, ranks, most + 1), flags_by_line) << ranks;
    }
  }
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    EXPECT_EQ(by_size(collective, 4, 1024 * kMega), flags_by_line);
  }
  EXPECT_EQ(by_size(Collective::kAllReduce, 4, 128 * kKilo).algorithm, "one_shot");
  EXPECT_EQ(by_size(Collective::kAllReduce, 4, 256 * kKilo).algorithm, "two_shot");
  EXPECT_EQ(by_size(Collective::kAllReduce, 2, 1024 * kMega).algorithm, "one_shot");
}

// One vector on every wire instead of (n - 1) on the root's, for a hop more.
TEST(PacketChoice, ReducesInTwoHopsWhereThatSavesMoreThanAHopCosts) {
  for (const int ranks : {8, 16}) {
    const std::int64_t most_in_one = profile().hop_bytes / (ranks - 2);
    EXPECT_EQ(by_size(Collective::kReduce, ranks, most_in_one).algorithm, "direct") << ranks;
    EXPECT_EQ(by_size(Collective::kReduce, ranks, most_in_one + 1).algorithm, "scatter_gather")
        << ranks;
  }
  EXPECT_EQ(by_size(Collective::kReduce, 2, 1024 * kMega), (PacketWay{"direct", Protocol::kSlots}));
  // Messages are slices.
  EXPECT_EQ(message_bytes("scatter_gather", 4, 3 * kMega), kMega);
  EXPECT_EQ(
      packets_for(profile(), Collective::kReduce, 4, profile().ll_up_to_bytes, "scatter_gather")
          .protocol,
      Protocol::kLl);
  EXPECT_EQ(
      packets_for(profile(), Collective::kReduce, 4, profile().ll_up_to_bytes + 3, "scatter_gather")
          .protocol,
      Protocol::kLl128);
}

// Whatever the size: no more than 1 % slower than the faster one.
TEST(PacketChoice, TwoRanksTakeLlAsFarAsThatWasFaster) {
  std::ifstream text(SENNIT_RESULTS_DIR "/h200x2-packets.json");
  std::map<std::pair<Collective, std::int64_t>, std::map<std::string, double>> times;
  const nlohmann::json document = nlohmann::json::parse(text);
  for (const nlohmann::json& row : document.at("rows")) {
    const auto collective = parse_collective(row.at("collective").get<std::string>());
    ASSERT_TRUE(collective.ok()) << collective.status().message();
    if (row.at("what") == "packets") {
      times[{*collective, row.at("bytes").get<std::int64_t>()}]
           [row.at("protocol").get<std::string>()] = row.at("time_us").at("p50").get<double>();
    }
  }
  EXPECT_EQ(times.size(), 63U);
  for (const auto& [call, ways] : times) {
    const auto& [collective, total] = call;
    const bool is_whole = is_cut(collective) || collective == Collective::kSendRecv;
    const PacketWay way = by_size(collective, 2, is_whole ? total : total / 2);
    EXPECT_LE(ways.at(std::string(name(way.protocol))),
              1.01 * std::min(ways.at("ll"), ways.at("ll128")))
        << name(collective) << " of " << total;
  }
}

// By size, "ALGORITHM PROTOCOL" of a reduce.
std::map<std::int64_t, std::string> fastest_reduces(const std::string& file) {
  std::ifstream text(SENNIT_RESULTS_DIR "/" + file);
  struct Best {
    double us = 1e9;
    std::string way;
  };
  std::map<std::int64_t, Best> fastest;
  const nlohmann::json document = nlohmann::json::parse(text);
  for (const nlohmann::json& row : document.at("rows")) {
    const auto way = row.value("what", std::string());  // that, or what was chosen
    const double us = row.at("time_us").at("p50").get<double>();
    if (row.at("collective") == "reduce" && way.find(' ') != std::string::npos) {
      Best& best = fastest[row.at("bytes").get<std::int64_t>()];
      best = us < best.us ? Best{us, way} : best;
    }
  }
  std::map<std::int64_t, std::string> ways;
  for (const auto& [bytes, best] : fastest) {
    ways[bytes] = best.way;
  }
  return ways;
}

TEST(PacketChoice, ReducesAsWasFastestInTheFilesThatItNames) {
  for (const auto& [ranks, file, sizes] :
       {std::tuple(4, "h200x4-reduce.json", 11), std::tuple(2, "h200x2-exchanges.json", 7)}) {
    const std::map<std::int64_t, std::string> fastest = fastest_reduces(file);
    EXPECT_EQ(fastest.size(), static_cast<std::size_t>(sizes));
    for (const auto& [bytes, best] : fastest) {
      if (ranks == 2 && bytes <= 256 * kKilo) {
        continue;  // Ll is not in that file
      }
      const PacketWay way = by_size(Collective::kReduce, ranks, bytes);
      EXPECT_EQ(fmt::format("{} {}", way.algorithm, name(way.protocol)), best) << bytes;
    }
  }
}

TEST(PacketChoice, ManyRanksTakeSlotsWhereTheyWonEverywhere) {
  for (const int ranks : {5, 8, 16}) {
    EXPECT_EQ(by_size(Collective::kAllReduce, ranks, 64 * kMega).protocol, Protocol::kLl128);
    EXPECT_EQ(by_size(Collective::kAllReduce, ranks, 128 * kMega),
              (PacketWay{"two_shot", Protocol::kSlots}));
    EXPECT_EQ(by_size(Collective::kBroadcast, ranks, 128 * kMega),
              (PacketWay{"scatter_forward", Protocol::kSlots}));
  }
}

TEST(PacketChoice, LlHasOneRound) {
  EXPECT_EQ(by_size(Collective::kBroadcast, 2, 256 * kKilo).protocol, Protocol::kLl);
  EXPECT_EQ(by_size(Collective::kBroadcast, 2, 256 * kKilo + 1).protocol, Protocol::kLl128);
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kAllGather, Collective::kSendRecv}) {
    const auto with_round = [&](std::int64_t bytes) {
      return packets_for(profile(), collective, 2, bytes, {}, 64 * kKilo).protocol;
    };
    EXPECT_EQ(with_round(64 * kKilo), Protocol::kLl);
    EXPECT_EQ(with_round(64 * kKilo + 1), Protocol::kLl128);
  }
  EXPECT_EQ(ll_send_bytes(profile(), 2), 128 * kKilo);
  EXPECT_EQ(ll_send_bytes(profile(), 4), 128 * kKilo);
  EXPECT_EQ(ll_send_bytes(profile(), 9), 16 * kKilo);
}

TEST(PacketChoice, KeepsTheAlgorithmThatACallNames) {
  EXPECT_EQ(packets_for(profile(), Collective::kBroadcast, 4, 64 * kMega, "direct"),
            (PacketWay{"direct", Protocol::kLl128}));
  EXPECT_EQ(packets_for(profile(), Collective::kAllReduce, 4, 64 * kMega, "two_shot"),
            (PacketWay{"two_shot", Protocol::kSlots}));
  EXPECT_EQ(packets_for(profile(), Collective::kAllReduce, 4, 32 * kKilo, "two_shot"),
            (PacketWay{"two_shot", Protocol::kLl}));
}

}  // namespace
}  // namespace sennit
