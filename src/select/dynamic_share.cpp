#include "select/dynamic_share.hpp"

#include <algorithm>
#include <cmath>

namespace sennit {
namespace {

constexpr int kCandidates = 5;
// A trial has to be cheaper by so much, and by kClearGain to count as a step on a way that leads
// further. Times of messages differ by 3 %, so the mean of kSamples does by less than two.
constexpr double kGain = 0.01;
constexpr double kClearGain = 0.05;
constexpr int kSamples = 3;
// What the base costs is smoothed over so many messages; one that takes kSurge times as long is
// kept separate, and two of them one after the other are something new.
constexpr int kSmoothed = 8;
constexpr double kSurge = 1.15;
// Messages at the base between trials; as many times as long as the last trial was slower than the
// base. So trials in vain cost no more than a 64th once they have become rare.
constexpr int kSoon = 2;
constexpr int kFirstDistance = 4;
constexpr int kLargestDistance = 64;
constexpr double kLongestPause = 8;
// A sender may be so many messages ahead, twice.
constexpr int kGivenUpAfter = 128;

int on_grid(double share) {
  constexpr double kGrid = DynamicShare::kGrid;
  return std::clamp(
      static_cast<int>(std::lround(share / kGrid)) * DynamicShare::kGrid, 0, DynamicShare::kMost);
}

}  // namespace

DynamicShare::DynamicShare(int first)
    : first_(on_grid(first)),
      base_(first_),
      distance_(kFirstDistance),
      until_trial_(kSoon),
      patience_(kFirstDistance) {}

DynamicShare::Advice DynamicShare::advice() const {
  return {.base = base_,
          .trial = trial_ ? std::optional(trial_->share) : std::nullopt,
          .trial_number = trial_number_};
}

void DynamicShare::pass() {
  if (trial_ && ++trial_->passed > kGivenUpAfter) {
    end_trial(1);
  }
}

void DynamicShare::learn(const Measurement& measurement) {
  const bool is_of_trial = trial_ && measurement.share == trial_->share;
  const double slower_us = std::max(measurement.direct_us, measurement.host_us);
  // What was on its way when the base changed says nothing that is asked for.
  if ((!is_of_trial && measurement.share != base_) || measurement.bytes <= 0 || slower_us <= 0) {
    return;
  }
  note_rates(measurement);
  const double beside_us = measurement.by_kernels ? kBesideKernelsUs : kBesideUs;
  const double us = slower_us + (measurement.share > 0 ? beside_us : 0);
  const double cost = us / static_cast<double>(measurement.bytes);
  if (is_of_trial) {
    learn_of_trial(cost);
  } else {
    learn_of_base(cost);
  }
}

void DynamicShare::note_rates(const Measurement& measurement) {
  const auto bytes = static_cast<double>(measurement.bytes);
  if (measurement.direct_us > 0) {
    direct_rate_ = (100 - measurement.share) * bytes / measurement.direct_us;
  }
  if (measurement.host_us > 0) {
    host_rate_ = measurement.share * bytes / measurement.host_us;
  }
}

void DynamicShare::learn_of_base(double cost) {
  const int messages = base_ == 0 ? kIdleMessages : 1;
  settled_ += messages;
  if (samples_ > 0 && cost > kSurge * base_cost_) {
    if (++surges_ == 2) {
      forget(cost);
    }
    return;
  }
  surges_ = 0;
  samples_ = std::min(samples_ + 1, kSmoothed);
  base_cost_ += (cost - base_cost_) / samples_;
  if (!trial_) {
    until_trial_ -= messages;
    if (until_trial_ <= 0) {
      start_trial();
    }
  }
}

void DynamicShare::learn_of_trial(double cost) {
  Trial& trial = *trial_;
  trial.costs += cost;
  ++trial.samples;
  const double ratio = trial.costs / trial.samples / base_cost_;
  const double gain = 1 - ratio;
  // Less through the host cannot be what others are about to spoil.
  const bool is_clear = trial.share < base_ && gain > kClearGain;
  if (gain <= kGain) {
    end_trial(ratio);
  } else if (is_clear || trial.samples == kSamples) {
    adopt(trial);
  } else {
    trial.passed = 0;
    ++trial_number_;
  }
}

void DynamicShare::adopt(const Trial& trial) {
  const double cost = trial.costs / trial.samples;
  const bool is_clear = cost < (1 - kClearGain) * base_cost_;
  is_falling_ = is_clear && trial.share < base_;
  base_ = trial.share;
  base_cost_ = cost;
  samples_ = trial.samples;
  surges_ = 0;
  settled_ = 0;
  has_gained_ = true;
  trial_.reset();
  if (is_clear) {
    next_candidate_ = 0;
  }
  until_trial_ = is_clear ? kSoon : distance_;
}

// What was known of other shares is of another time.
void DynamicShare::forget(double cost) {
  patience_ =
      settled_ < kLargestDistance ? std::min(2 * patience_, kLargestDistance) : kFirstDistance;
  distance_ = patience_;
  base_cost_ = cost;
  samples_ = 1;
  surges_ = 0;
  settled_ = 0;
  trial_.reset();
  next_candidate_ = 0;
  is_falling_ = true;
  has_gained_ = false;
  start_trial();
}

int DynamicShare::candidate(int index) const {
  switch (index) {
    case 0: {
      const double both = direct_rate_ + host_rate_;
      return both > 0 ? on_grid(100 * host_rate_ / both) : base_;
    }
    case 1:
      return base_ + kGrid;
    case 2:
      return base_ - kGrid;
    case 3:
      return 0;
    default:
      return first_;  // from none at all a way back that does not trust what the host took before
  }
}

bool DynamicShare::is_worth_a_trial(int share) const {
  return share != base_ && share >= 0 && share <= kMost && !(is_falling_ && share > base_);
}

void DynamicShare::start_trial() {
  for (int tried = 0; tried < kCandidates; ++tried) {
    const int share = candidate(next_candidate_);
    const bool is_worth_it = is_worth_a_trial(share);
    const bool is_last = ++next_candidate_ == kCandidates;
    if (is_last) {
      end_round();
    }
    if (is_worth_it) {
      trial_ = Trial{.share = share};
      ++trial_number_;
      return;
    }
    if (is_last) {
      break;  // larger shares may follow, but not as soon
    }
  }
  until_trial_ = distance_;
}

void DynamicShare::end_trial(double ratio) {
  trial_.reset();
  const double pause = (is_falling_ ? kSoon : distance_) * std::clamp(ratio, 1.0, kLongestPause);
  until_trial_ = static_cast<int>(pause);
}

void DynamicShare::end_round() {
  next_candidate_ = 0;
  if (!has_gained_ && !is_falling_) {
    distance_ = std::min(2 * distance_, kLargestDistance);
  }
  has_gained_ = false;
  is_falling_ = false;
}

}  // namespace sennit
