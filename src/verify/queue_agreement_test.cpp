// What the queue check says is what happens: random lists are run in every way that is left open.
#include "base/testing/trials.hpp"
#include "verify/queues.hpp"
#include "verify/testing/queue_execution.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/testing/stream_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using verify_test::await;
using verify_test::behind;
using verify_test::chance;
using verify_test::ends;
using verify_test::launch;
using verify_test::orders_of_issue;
using verify_test::pick;
using verify_test::QueueExecution;
using verify_test::Random;
using verify_test::record;
using verify_test::reset;
using verify_test::signal;
using verify_test::two;
using Kind = StreamStep::Kind;
using Ranks = std::vector<IssuedSteps>;

constexpr QueueModel kOwn{.queues = Queues::kOwn};
constexpr QueueModel kOne{.queues = Queues::kOne};
constexpr QueueModel kOneAnyOrder{.queues = Queues::kOne, .order = QueueOrder::kAny};

std::vector<StreamStep> kernel_awaits(std::int64_t flag) {
  std::vector<StreamStep> steps = {await(flag), reset(flag)};
  for (StreamStep& step : steps) {
    step.is_in_kernel = true;
  }
  return steps;
}

// Flags that are signalled and awaited once, at random places, and some events.
Ranks random_ranks(Random& random, int ranks, int flags, int streams, bool is_one_process) {
  Ranks result(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    IssuedSteps& issued = result[static_cast<std::size_t>(rank)];
    issued.device = rank;
    issued.process = is_one_process ? 0 : rank;
  }
  const auto insert = [&](int rank, std::vector<StreamStep> steps) {
    std::vector<StreamStep>& all = result[static_cast<std::size_t>(rank)].steps;
    const int place = pick(random, static_cast<int>(all.size()) + 1);
    const int stream = pick(random, streams);
    for (StreamStep& step : steps) {
      step.stream = stream;
    }
    all.insert(all.begin() + place, steps.begin(), steps.end());
  };
  for (int flag = 0; flag < flags; ++flag) {
    const int from = pick(random, ranks);
    const int to = (from + 1 + pick(random, ranks - 1)) % ranks;
    insert(from, {signal(flag)});
    insert(to, chance(random, 0.2) ? kernel_awaits(flag) : std::vector{await(flag), reset(flag)});
    if (chance(random, 0.3)) {
      insert(pick(random, ranks), {launch()});
    }
  }
  for (IssuedSteps& issued : result) {
    if (issued.steps.size() > 2 && chance(random, 0.5)) {
      const int before = pick(random, static_cast<int>(issued.steps.size()) - 1);
      const auto at = issued.steps.begin() + before + 1;
      const int stream = issued.steps[static_cast<std::size_t>(before)].stream;
      const int next = at->stream;
      issued.steps.insert(at, {record(100, stream), behind(100, next)});
    }
  }
  return result;
}

// All that streams can do, in every order: with flags that are full or free and nothing else.
class Streams {
 public:
  Streams(const Ranks& ranks) : ranks_(ranks), next_(ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const StreamStep& step : ranks[rank].steps) {
        next_[rank].emplace(step.stream, 0);
      }
    }
  }

  // No signal is lost or taken for another one, all steps end, and all flags are free then.
  bool are_right_in_all_orders() {
    if (!seen_.insert({next_, flags_}).second) {
      return true;
    }
    bool can_move = false;
    bool has_ended = true;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (auto& [stream, next] : next_[rank]) {
        const std::size_t place = place_of(rank, stream, next);
        if (place == ranks_[rank].steps.size()) {
          continue;
        }
        has_ended = false;
        const StreamStep& step = ranks_[rank].steps[place];
        Flag& flag = flags_[step.flag];
        if (!can_run(rank, place)) {
          continue;
        }
        if (is_wrong(rank, place)) {
          return false;
        }
        can_move = true;
        const Flag before = flag;
        flag.is_full = step.kind == Kind::kSignal || (flag.is_full && step.kind != Kind::kReset);
        flag.signals += step.kind == Kind::kSignal ? 1 : 0;
        ++next;
        const bool all = are_right_in_all_orders();
        --next;
        flags_[step.flag] = before;
        if (!all) {
          return false;
        }
      }
    }
    const bool are_free =
        std::ranges::none_of(flags_, [](const auto& flag) { return flag.second.is_full; });
    return has_ended ? are_free : can_move;
  }

 private:
  struct Flag {
    bool is_full = false;
    int signals = 0;
    auto operator<=>(const Flag&) const = default;
  };

  // Of the next step of a stream; past the end: none is left.
  [[nodiscard]] std::size_t place_of(std::size_t rank, int stream, int next) const {
    const std::vector<StreamStep>& steps = ranks_[rank].steps;
    for (std::size_t place = 0; place < steps.size(); ++place) {
      if (steps[place].stream == stream && next-- == 0) {
        return place;
      }
    }
    return steps.size();
  }
  [[nodiscard]] bool can_run(std::size_t rank, std::size_t place) {
    const StreamStep& step = ranks_[rank].steps[place];
    for (std::size_t before = 0; before < place; ++before) {
      const StreamStep& earlier = ranks_[rank].steps[before];
      const bool is_awaited = step.kind == Kind::kAwaitEvent && earlier.kind == Kind::kRecord &&
                              earlier.event == step.event;
      if (is_awaited && place_of(rank, earlier.stream, next_[rank].at(earlier.stream)) <= before) {
        return false;
      }
    }
    return step.kind != Kind::kAwait || flags_[step.flag].is_full;
  }
  // Resets of the flag by the rank, as far as they are issued before this step.
  [[nodiscard]] int generation_of(std::size_t rank, std::size_t place) const {
    const std::vector<StreamStep>& steps = ranks_[rank].steps;
    return static_cast<int>(std::count_if(
        steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(place), [&](const auto& step) {
          return step.kind == Kind::kReset && step.flag == steps[place].flag;
        }));
  }
  [[nodiscard]] bool is_wrong(std::size_t rank, std::size_t place) {
    const StreamStep& step = ranks_[rank].steps[place];
    const Flag& flag = flags_[step.flag];
    switch (step.kind) {
      case Kind::kSignal:
        return flag.is_full;
      case Kind::kAwait:
      case Kind::kReset:
        return !flag.is_full || flag.signals != generation_of(rank, place) + 1;
      default:
        return false;
    }
  }

  const Ranks& ranks_;
  std::vector<std::map<int, int>> next_;  // by rank and stream
  std::map<std::int64_t, Flag> flags_;
  std::set<std::pair<std::vector<std::map<int, int>>, std::map<std::int64_t, Flag>>> seen_;
};

// Two flags, one in each direction, signalled, awaited and reset some times in random streams.
Ranks random_conversation(Random& random) {
  Ranks ranks = two({}, {});
  for (int i = 1 + pick(random, 4); i > 0; --i) {
    for (const int from : {0, 1}) {
      if (chance(random, 0.2)) {
        continue;
      }
      std::vector<StreamStep>& sender = ranks[static_cast<std::size_t>(from)].steps;
      std::vector<StreamStep>& reader = ranks[static_cast<std::size_t>(1 - from)].steps;
      const int stream = pick(random, 8) == 0 ? 1 : 0;
      sender.push_back(signal(from, pick(random, 8) == 0 ? 1 : 0));
      reader.push_back(await(from, stream));
      if (chance(random, 0.95)) {
        reader.push_back(reset(from, chance(random, 0.1) ? 1 - stream : stream));
      }
    }
  }
  return ranks;
}

TEST(QueueAgreement, WithFlagsThatAreFullOrFree) {
  Random random(4);
  int wrong = 0;
  int right = 0;
  for (int i = 0; i < trials(3'000, 300); ++i) {
    const Ranks ranks = random_conversation(random);
    const bool all = Streams(ranks).are_right_in_all_orders();
    ASSERT_EQ(check_signals(ranks).ok(), all) << "case " << i << check_signals(ranks).message();
    (all ? right : wrong) += 1;
  }
  EXPECT_GT(wrong, trials(100, 10));
  EXPECT_GT(right, trials(100, 10));
}

TEST(QueueAgreement, WithExecutionInTheOrderOfIssue) {
  Random random(1);
  int dead = 0;
  int dead_in_one = 0;
  const int cases = trials(20'000, 2'000);
  for (int i = 0; i < cases; ++i) {
    const Ranks ranks =
        random_ranks(random, 2 + pick(random, 3), 1 + pick(random, 8), 1 + pick(random, 3), false);
    const bool own = ends(ranks, {});
    const bool one = ends(ranks, orders_of_issue(ranks));
    ASSERT_EQ(check_queues(ranks, kOwn).ok(), own) << "case " << i;
    ASSERT_EQ(check_queues(ranks, kOne).ok(), one) << "case " << i;
    ASSERT_TRUE(own || !one) << "case " << i << ": fewer queues hold up more";
    dead += own ? 0 : 1;
    dead_in_one += own && !one ? 1 : 0;
  }
  EXPECT_GT(dead, cases / 10);
  EXPECT_GT(dead_in_one, cases / 10);
}

// Whether a graph may have its steps in this order.
bool is_order_of_graph(const IssuedSteps& rank, const std::vector<std::size_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      const StreamStep& one = rank.steps[order[i]];
      const StreamStep& other = rank.steps[order[j]];
      const bool is_of_stream = one.stream == other.stream && order[i] > order[j];
      const bool is_of_event = one.kind == Kind::kAwaitEvent && other.kind == Kind::kRecord &&
                               one.event == other.event && order[i] > order[j];
      if (is_of_stream || is_of_event) {
        return false;
      }
    }
  }
  return true;
}

// Every order of every rank that a graph may have.
bool ends_in_all_orders(const Ranks& ranks,
                        std::vector<std::vector<std::size_t>>& orders,
                        std::size_t rank = 0) {
  if (rank == ranks.size()) {
    return ends(ranks, orders, /*is_graph=*/true);
  }
  std::vector<std::size_t> order = orders_of_issue(ranks)[rank];
  do {
    if (is_order_of_graph(ranks[rank], order)) {
      orders[rank] = order;
      if (!ends_in_all_orders(ranks, orders, rank + 1)) {
        return false;
      }
    }
  } while (std::ranges::next_permutation(order).found);
  return true;
}

TEST(QueueAgreement, WithExecutionInEveryOrderOfAGraph) {
  Random random(2);
  int dead = 0;
  int alive = 0;
  for (int i = 0; i < trials(400, 60); ++i) {
    const Ranks ranks = random_ranks(random, 2 + pick(random, 2), 2 + pick(random, 2), 2, false);
    if (!check_queues(ranks, kOwn).ok()) {
      continue;
    }
    auto orders = orders_of_issue(ranks);
    const bool all = ends_in_all_orders(ranks, orders);
    ASSERT_EQ(check_queues(ranks, kOneAnyOrder).ok(), all) << "case " << i;
    (all ? alive : dead) += 1;
  }
  EXPECT_GT(dead, 10);
  EXPECT_GT(alive, 10);
}

// Threads of one process, whose calls wait at a launch with the lock of all: every order in which
// they can come.
class Hosts {
 public:
  Hosts(const Ranks& ranks) : ranks_(ranks), issued_(ranks.size()) {}

  bool end_in_all_orders() {
    if (!seen_.insert(issued_).second) {
      return true;
    }
    bool has_ended = true;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (issued_[rank] == ranks_[rank].steps.size()) {
        continue;
      }
      has_ended = false;
      if (!may_launch(rank)) {
        return false;  // with the lock, so that nobody else goes on
      }
      ++issued_[rank];
      const bool all = end_in_all_orders();
      --issued_[rank];
      if (!all) {
        return false;
      }
    }
    return !has_ended || ends(ranks_, orders_of_issue(ranks_));
  }

 private:
  // Whether all that the rank has issued ends with what all have issued.
  [[nodiscard]] bool may_launch(std::size_t rank) const {
    if (ranks_[rank].steps[issued_[rank]].kind != Kind::kLaunch) {
      return true;
    }
    QueueExecution execution(ranks_, orders_of_issue(ranks_));
    execution.run([&](std::size_t r, std::size_t place) { return place < issued_[r]; });
    for (std::size_t place = 0; place < issued_[rank]; ++place) {
      if (!execution.has_ended(rank, place)) {
        return false;
      }
    }
    return true;
  }

  const Ranks& ranks_;
  std::vector<std::size_t> issued_;
  std::set<std::vector<std::size_t>> seen_;
};

TEST(QueueAgreement, WithEveryOrderOfHostsThatShareALock) {
  Random random(3);
  int dead = 0;
  int alive = 0;
  const HostModel locked{.waits = HostModel::Waits::kAtLaunch, .locks_process = true};
  for (int i = 0; i < trials(4'000, 400); ++i) {
    const Ranks ranks = random_ranks(random, 2 + pick(random, 2), 1 + pick(random, 3), 2, true);
    if (!check_queues(ranks, kOne).ok()) {
      continue;
    }
    const bool all = Hosts(ranks).end_in_all_orders();
    ASSERT_EQ(check_hosts(ranks, kOne, locked).ok(), all) << "case " << i;
    (all ? alive : dead) += 1;
  }
  EXPECT_GT(dead, trials(100, 10));
  EXPECT_GT(alive, trials(100, 10));
}

}  // namespace
}  // namespace sennit
