#include "select/dynamic_share.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace sennit {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20;

struct Times {
  double direct_us = 0;
  double host_us = 0;

  [[nodiscard]] double all() const {
    return std::max(direct_us, host_us) + (host_us > 0 ? DynamicShare::kBesideUs : 0);
  }
};

// What both strands of message `index` take at a share.
using Paths = std::function<Times(int share, int index)>;

// A hundredth of the message takes so long over either path; the host needs a while to begin.
Paths paths(double direct_us, double host_us) {
  constexpr double kBeginUs = 30;
  return [=](int share, int) {
    return Times{(100 - share) * direct_us, share > 0 ? kBeginUs + share * host_us : 0};
  };
}

double best_of(const Paths& model) {
  double best = std::numeric_limits<double>::max();
  for (int share = 0; share <= DynamicShare::kMost; share += DynamicShare::kGrid) {
    best = std::min(best, model(share, 0).all());
  }
  return best;
}

// Messages of one sender, each measured when `lag` more are on their way.
class Sender {
 public:
  struct Options {
    int lag = 0;
    double noise = 0;
    unsigned seed = 1;
    int first = 6;
    bool by_kernels = false;
  };
  Sender(Paths model, const Options& options)
      : model_(std::move(model)), options_(options), share_(options.first), random_(options.seed) {}

  // How long it took.
  double send() {
    const int share = next_share();
    Times times = model_(share, sent_++);
    times.direct_us *= noise();
    times.host_us *= noise();
    share_.pass();
    // Void where it is not measured.
    under_way_.push_back(
        {share, is_measured_ ? kBytes : 0, times.direct_us, times.host_us, options_.by_kernels});
    if (static_cast<int>(under_way_.size()) > options_.lag) {
      share_.learn(under_way_.front());
      under_way_.pop_front();
    }
    return times.all();
  }

  double send_many(int count) {
    double us = 0;
    for (int i = 0; i < count; ++i) {
      us += send();
    }
    return us / count;
  }

  [[nodiscard]] int base() const { return share_.advice().base; }

 private:
  int next_share() {
    const DynamicShare::Advice advice = share_.advice();
    if (advice.trial && advice.trial_number != tried_) {
      tried_ = advice.trial_number;
      is_measured_ = true;
      return *advice.trial;
    }
    is_measured_ = advice.base > 0 || ++idle_ % DynamicShare::kIdleMessages == 0;
    return advice.base;
  }

  double noise() {
    return options_.noise > 0 ? std::normal_distribution<>(1, options_.noise)(random_) : 1;
  }

  Paths model_;
  Options options_;
  DynamicShare share_;
  std::mt19937 random_;
  std::deque<DynamicShare::Measurement> under_way_;
  std::uint32_t tried_ = 0;
  int sent_ = 0;
  int idle_ = 0;  // messages of share 0 but trials
  bool is_measured_ = true;
};

// As between two H200s: 8 percent are best.
Paths quiet() { return paths(7.27, 80); }
// NVLink by one thread block: half.
Paths one_block() { return paths(58.8, 58.8); }
// Next to a program that loads the wire to the host: 4 percent take longer than none.
Paths loaded() { return paths(7.38, 250); }

TEST(DynamicShare, BeginsWithWhatItIsGivenOnItsGrid) {
  EXPECT_EQ(DynamicShare(7).advice().base, 8);
  EXPECT_EQ(DynamicShare(100).advice().base, 98);
  EXPECT_EQ(DynamicShare(-3).advice().base, 0);
  EXPECT_FALSE(DynamicShare(6).advice().trial);
}

TEST(DynamicShare, ComesToTheBestShareWithinHundredMessages) {
  for (const Paths& model : {quiet(), one_block(), loaded(), paths(2, 10'000)}) {
    for (const int lag : {0, 8}) {
      for (const int first : {0, 6, 50}) {
        Sender sender(model, {.lag = lag, .first = first});
        sender.send_many(lag == 0 ? 100 : 300);
        EXPECT_LT(model(sender.base(), 0).all(), 1.03 * best_of(model))
            << "base " << sender.base() << " from " << first << ", lag " << lag;
      }
    }
  }
}

TEST(DynamicShare, LosesLittleToTrialsInTheLongRun) {
  for (const double noise : {0.0, 0.03}) {
    for (const Paths& model : {quiet(), one_block(), loaded(), paths(2, 200)}) {
      double loss = 0;
      constexpr unsigned kSeeds = 20;
      for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        Sender sender(model, {.lag = 4, .noise = noise, .seed = seed});
        sender.send_many(200);
        loss += (sender.send_many(2000) / best_of(model) - 1) / kSeeds;
      }
      // The mean of the slower of two noisy strands alone is 1.7 % above what it is without noise.
      EXPECT_LT(loss, noise > 0 ? 0.025 : 0.02) << "noise " << noise;
    }
  }
}

TEST(DynamicShare, EndsAtNoneWhereTheHostDoesNotPay) {
  Sender sender(paths(7.38, 1000), {});
  sender.send_many(30);
  EXPECT_EQ(sender.base(), 0);
}

// As 64 MB between two H200s: 4 percent spare the wire 7 us, and with 6 percent, which fill a slot
// and then empty it, the host is slower.
TEST(DynamicShare, EndsAtNoneWhereTheHostSparesLessThanItCosts) {
  for (const double noise : {0.0, 0.02}) {
    const Paths model = paths(1.87, 28);
    Sender sender(model, {.noise = noise});
    sender.send_many(60);
    EXPECT_LE(sender.send_many(300), 1.02 * model(0, 0).all());
    EXPECT_EQ(sender.base(), 0);
  }
}

// Here 6 percent spare the direct way 15 us.
TEST(DynamicShare, EndsAtNoneSoonerBesideKernels) {
  const Paths model = paths(2.5, 30);
  for (const bool by_kernels : {false, true}) {
    Sender sender(model, {.by_kernels = by_kernels});
    sender.send_many(300);
    EXPECT_EQ(sender.base() > 0, !by_kernels) << sender.base();
  }
}

TEST(DynamicShare, FollowsALoadThatComesAndGoes) {
  constexpr int kPhase = 1000;
  const Paths model = [](int share, int index) {
    return index / kPhase % 2 == 1 ? loaded()(share, 0) : quiet()(share, 0);
  };
  for (const int lag : {0, 8}) {
    Sender sender(model, {.lag = lag});
    const double quiet_us = quiet()(0, 0).all();
    const double loaded_us = loaded()(0, 0).all();
    for (int cycle = 0; cycle < 3; ++cycle) {
      sender.send_many(300);
      EXPECT_LT(sender.send_many(kPhase - 300), 0.94 * quiet_us);
      // The first messages under load are slow before their measurements have arrived.
      sender.send_many(60);
      EXPECT_LE(sender.base(), 2);
      EXPECT_LT(sender.send_many(kPhase - 60), 1.01 * loaded_us);
    }
  }
}

// A larger share that pays now and does not with the next message is not tried for long.
TEST(DynamicShare, IsNoWorseThanOnePathUnderALoadThatFlickers) {
  for (const double duty : {0.25, 0.5, 0.75}) {
    for (const int together : {1, 4, 64}) {
      std::vector<bool> is_loaded;
      std::mt19937 random(7);
      std::bernoulli_distribution loads(duty);
      constexpr int kMessages = 10'000;
      while (static_cast<int>(is_loaded.size()) < kMessages) {
        is_loaded.insert(is_loaded.end(), static_cast<std::size_t>(together), loads(random));
      }
      const Paths model = [&](int share, int index) {
        return is_loaded[static_cast<std::size_t>(index)] ? loaded()(share, 0) : quiet()(share, 0);
      };
      double single_us = 0;
      for (int i = 0; i < kMessages; ++i) {
        single_us += model(0, i).all() / kMessages;
      }
      Sender sender(model, {.noise = 0.02});
      EXPECT_LT(sender.send_many(kMessages), 1.03 * single_us)
          << "duty " << duty << ", " << together << " together";
    }
  }
}

// Both directions at once, each with shares of its own, on wires that carry less together.
TEST(DynamicShare, TwoThatLoadEachOtherLoseNothing) {
  int other_share = 6;
  const Paths model = [&](int share, int) {
    const double host_us = 80.0 * (other_share > 0 && share > 0 ? 1.6 : 1);
    return Times{(100 - share) * 7.57, share > 0 ? 30 + share * host_us : 0};
  };
  Sender there(model, {.seed = 1});
  Sender back(model, {.seed = 2});
  double us = 0;
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i) {
    other_share = back.base();
    us += there.send();
    other_share = there.base();
    us += back.send();
  }
  EXPECT_LT(us / (2 * kMessages), 1.005 * 757);
}

TEST(DynamicShare, GivesUpATrialThatIsNeverMeasured) {
  DynamicShare share(6);
  for (int i = 0; i < 2; ++i) {
    share.learn({.share = 6, .bytes = kBytes, .direct_us = 700, .host_us = 400});
  }
  const auto first = share.advice();
  ASSERT_TRUE(first.trial);
  for (int i = 0; i < 128; ++i) {
    share.pass();
    ASSERT_EQ(share.advice().trial_number, first.trial_number);
    ASSERT_TRUE(share.advice().trial);
  }
  share.pass();
  EXPECT_FALSE(share.advice().trial);
  EXPECT_EQ(share.advice().base, 6);
  for (int i = 0; i < 64 && !share.advice().trial; ++i) {
    share.learn({.share = 6, .bytes = kBytes, .direct_us = 700, .host_us = 400});
  }
  EXPECT_NE(share.advice().trial, first.trial) << "the next one";
}

TEST(DynamicShare, TakesNoNoticeOfWhatItDidNotAskFor) {
  DynamicShare share(6);
  for (int i = 0; i < 100; ++i) {
    share.learn({.share = 40, .bytes = kBytes, .direct_us = 1, .host_us = 1});
    share.learn({.share = 6, .bytes = kBytes});
    share.learn({.share = 6, .bytes = 0, .direct_us = 1});
  }
  EXPECT_EQ(share.advice().base, 6);
  EXPECT_FALSE(share.advice().trial);
}

}  // namespace
}  // namespace sennit
