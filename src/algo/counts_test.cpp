// How many messages, steps and rounds each algorithm takes, as its paper or textbook counts them.
#include "algo/algorithm.hpp"
#include "algo/testing/one_tile.hpp"
#include "base/testing/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

namespace sennit {
namespace {

// Of n = 2^log ranks in groups of g.
struct Size {
  int n;
  int log;
  int g;
};

struct Count {
  Collective collective;
  std::string_view algorithm;
  int (*messages)(Size);  // of all ranks, for one tile
  int (*steps)(Size);     // of the rank that has most
  int (*rounds)(Size);
};

int one(Size) { return 1; }
int two(Size) { return 2; }
int three(Size) { return 3; }
int n_steps(Size s) { return s.n; }
int log_n(Size s) { return s.log; }
int edges_of_tree(Size s) { return s.n - 1; }
int all_pairs(Size s) { return s.n * (s.n - 1); }
int all_in_log_rounds(Size s) { return s.n * s.log; }
int once_round(Size s) { return s.n - 1; }
int send_and_receive_all(Size s) { return 2 * s.n - 1; }

// Its own members, one rail to each other group, and what came by rail to its own members.
int multi_rail_messages(Size s) {
  const int groups = s.n / s.g;
  return s.n * ((s.g - 1) + (groups - 1) + (groups - 1) * (s.g - 1));
}

// Fusion joins a recv and the send that follows it, so a chain of k messages through a rank is k +
// 1 steps at most.
constexpr Count kCounts[] = {
    {Collective::kAllReduce,
     "ring",
     [](Size s) { return 2 * s.n * (s.n - 1); },
     send_and_receive_all,
     [](Size s) { return 2 * (s.n - 1); }},
    {Collective::kAllReduce,
     "recursive_doubling",
     all_in_log_rounds,
     [](Size s) { return s.log + 1; },
     log_n},
    {Collective::kAllReduce,
     "halving_doubling",
     [](Size s) { return 2 * s.n * s.log; },
     [](Size s) { return 4 * s.log - 1; },
     [](Size s) { return 2 * s.log; }},
    {Collective::kAllReduce,
     "two_shot",
     [](Size s) { return 2 * all_pairs(s); },
     send_and_receive_all,
     two},
    {Collective::kAllReduce, "one_shot", all_pairs, n_steps, one},
    {Collective::kAllReduce,
     "hierarchical",
     [](Size s) { return 2 * (s.n - s.n / s.g) + s.n / s.g * (s.n / s.g - 1); },
     [](Size s) { return 1 + s.n / s.g + (s.g - 1); },
     three},
    {Collective::kAllReduce,
     "hierarchical_sliced",
     [](Size s) { return s.n * (2 * (s.g - 1) + s.n / s.g - 1); },
     [](Size s) { return s.g + s.n / s.g + 2 * (s.g - 1); },
     three},
    {Collective::kAllReduce,
     "hierarchical_shares",
     [](Size s) { return 2 * s.n * (s.g - 1 + s.n / s.g - 1); },
     [](Size s) { return s.g + 2 * (s.n / s.g) - 1 + 2 * (s.g - 1); },
     [](Size) { return 4; }},
    {Collective::kAllReduce,
     "shared_buffer",
     [](Size s) { return 2 * (s.n - 1); },
     send_and_receive_all,
     two},
    {Collective::kReduce, "k_nomial", edges_of_tree, one, log_n},
    {Collective::kReduce, "direct", edges_of_tree, one, one},
    {Collective::kReduce, "chain", edges_of_tree, one, once_round},
    {Collective::kReduce, "scatter_gather", all_pairs, [](Size s) { return 2 * (s.n - 1); }, two},
    {Collective::kBroadcast, "chain", edges_of_tree, two, once_round},
    {Collective::kBroadcast, "direct", edges_of_tree, n_steps, one},
    {Collective::kBroadcast, "k_nomial", edges_of_tree, [](Size s) { return s.log + 1; }, log_n},
    // Each of the n - 1 links of the ring but for what the scatter brought: 2^log / 2 * log blocks.
    {Collective::kBroadcast,
     "scatter_ring",
     [](Size s) { return (s.n - 1) + (s.n - 1) * s.n - s.n / 2 * s.log; },
     [](Size s) { return s.n + s.log; },
     once_round},
    {Collective::kBroadcast,
     "scatter_forward",
     [](Size s) { return (s.n - 1) * (s.n - 1); },
     n_steps,
     two},
    {Collective::kBroadcast,
     "staged_k_nomial",
     edges_of_tree,
     [](Size s) { return s.log + 2; },
     log_n},
    // Each share (one a slice and group but the root's) to its leader in the root's group, to its
    // group, to the other groups; and within each group to those that do not have it.
    {Collective::kBroadcast,
     "multi_rail",
     [](Size s) {
       const int others = s.n / s.g - 1;
       const int at_home = (s.g - 1) + (s.g - 1) * (s.g - 1);
       return others * (at_home + s.g + s.g * (others - 1) + others * s.g * (s.g - 1));
     },
     [](Size s) { return 1 + (s.n / s.g - 1) * (2 * s.g - 1); },
     [](Size s) { return s.n / s.g > 2 ? 4 : 3; }},
    // n - 1 slices, each written once and read n - 1 times.
    {Collective::kBroadcast, "hub", [](Size s) { return (s.n - 1) * (s.n - 1); }, n_steps, one},
    {Collective::kAllGather, "ring", all_pairs, [](Size s) { return s.n + 1; }, once_round},
    {Collective::kAllGather, "direct", all_pairs, send_and_receive_all, one},
    {Collective::kAllGather,
     "recursive_doubling",
     all_in_log_rounds,
     [](Size s) { return 2 * s.log + 1; },
     log_n},
    {Collective::kAllGather,
     "bruck",
     all_in_log_rounds,
     [](Size s) { return 2 * s.log + 1; },
     log_n},
    {Collective::kAllGather,
     "multi_rail",
     multi_rail_messages,
     [](Size s) { return 1 + 2 * (s.g - 1) + (s.n / s.g - 1) * (2 + s.g - 1); },
     two},
    // Written once, read n - 1 times.
    {Collective::kAllGather, "hub", all_pairs, [](Size s) { return s.n + 1; }, one},
    {Collective::kReduceScatter, "ring", all_pairs, n_steps, once_round},
    {Collective::kReduceScatter, "direct", all_pairs, n_steps, one},
    {Collective::kReduceScatter,
     "recursive_halving",
     all_in_log_rounds,
     [](Size s) { return 2 * s.log; },
     log_n},
    {Collective::kAllToAll, "direct", all_pairs, send_and_receive_all, one},
    {Collective::kAllToAll, "pairwise", all_pairs, send_and_receive_all, once_round},
    {Collective::kAllToAll,
     "bruck",
     all_in_log_rounds,
     [](Size s) { return 2 * s.log + 1; },
     log_n},
    {Collective::kAllToAll,
     "multi_rail",
     multi_rail_messages,
     [](Size s) { return 1 + 2 * (s.g - 1) + (s.n / s.g - 1) * (2 + 2 * (s.g - 1)); },
     two},
    {Collective::kGather, "binomial", edges_of_tree, [](Size s) { return s.log + 1; }, log_n},
    {Collective::kGather, "direct", edges_of_tree, n_steps, one},
    {Collective::kScatter, "binomial", edges_of_tree, [](Size s) { return s.log + 1; }, log_n},
    {Collective::kScatter, "direct", edges_of_tree, n_steps, one},
    {Collective::kBarrier,
     "dissemination",
     all_in_log_rounds,
     [](Size s) { return 2 * s.log; },
     log_n},
    {Collective::kBarrier,
     "tree",
     [](Size s) { return 2 * (s.n - 1); },
     two,
     [](Size s) { return 2 * s.log; }},
};

int messages(const Schedule& schedule) {
  int count = 0;
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    count += messages_per_tile(schedule, static_cast<int>(c)) *
             static_cast<int>(schedule.channels[c].readers.size());
  }
  return count;
}

int most_steps(const Schedule& schedule) {
  std::size_t most = 0;
  for (const auto& lanes : schedule.ranks) {
    std::size_t steps = 0;
    for (const Lane& lane : lanes) {
      steps += lane.steps.size();
    }
    most = std::max(most, steps);
  }
  return static_cast<int>(most);
}

Shape shape_of(Size size) {
  Shape shape{.ranks = size.n};
  for (int rank = 0; rank < size.n; ++rank) {
    if (rank % size.g == 0) {
      shape.groups.emplace_back();
    }
    shape.groups.back().push_back(rank);
  }
  return shape;
}

TEST(Counts, AreThoseOfTheTextbook) {
  for (const Count& count : kCounts) {
    const Algorithm& algorithm = *find_algorithm(count.collective, count.algorithm).value();
    for (const Size size : {Size{4, 2, 2}, Size{8, 3, 2}, Size{8, 3, 4}, Size{32, 5, 8}}) {
      const Schedule schedule = make_schedule(algorithm, shape_of(size)).value();
      const std::string what = fmt::format("{} {} of {} ranks in groups of {}",
                                           name(count.collective),
                                           count.algorithm,
                                           size.n,
                                           size.g);
      EXPECT_EQ(messages(schedule), count.messages(size)) << what;
      EXPECT_EQ(most_steps(schedule), count.steps(size)) << what;
      EXPECT_EQ(one_tile::longest_chain(schedule), count.rounds(size)) << what;
    }
  }
}

// Where a power of two is not needed the logarithm is rounded up; where it is, ranks beyond one add
// a message before the rounds and one after them.
TEST(Counts, OfRoundsForAnyNumberOfRanks) {
  const auto rounds = [](Collective collective, std::string_view name, int n) {
    const Algorithm& algorithm = *find_algorithm(collective, name).value();
    return one_tile::longest_chain(make_schedule(algorithm, {.ranks = n}).value());
  };
  for (int n = 2; n <= trials(33, 17); ++n) {
    const int up = static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1)));
    const int down = static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1;
    EXPECT_EQ(rounds(Collective::kAllGather, "bruck", n), up) << n;
    EXPECT_EQ(rounds(Collective::kAllToAll, "bruck", n), up) << n;
    EXPECT_EQ(rounds(Collective::kBarrier, "dissemination", n), up) << n;
    EXPECT_EQ(rounds(Collective::kAllReduce, "ring", n), 2 * (n - 1)) << n;
    EXPECT_EQ(rounds(Collective::kAllReduce, "halving_doubling", n), 2 * down + (up > down ? 2 : 0))
        << n;
    EXPECT_LE(rounds(Collective::kAllGather, "recursive_doubling", n), down + 2) << n;
    EXPECT_LE(rounds(Collective::kReduceScatter, "recursive_halving", n), down + 2) << n;
  }
}

}  // namespace
}  // namespace sennit
