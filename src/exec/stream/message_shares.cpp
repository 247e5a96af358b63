#include "exec/stream/message_shares.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <utility>

namespace sennit {
namespace {

// The last one is kept for trials, of which there are few.
constexpr std::size_t kStopwatches = 4;

std::size_t class_of(std::int64_t bytes) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(bytes)));
}

// In one word: whether there is advice and a trial, both shares, and the trial's number.
constexpr std::uint64_t kHasAdvice = 1;
constexpr std::uint64_t kHasTrial = 2;
constexpr int kBaseAt = 8;
constexpr int kTrialAt = 16;
constexpr int kNumberAt = 32;
constexpr std::uint64_t kShareMask = 0xff;

std::uint64_t word_of(const DynamicShare::Advice& advice) {
  return kHasAdvice | (advice.trial ? kHasTrial : 0) |
         static_cast<std::uint64_t>(advice.base) << kBaseAt |
         static_cast<std::uint64_t>(advice.trial.value_or(0)) << kTrialAt |
         std::uint64_t{advice.trial_number} << kNumberAt;
}

// Others have written it: no share is beyond what there is a plan for.
int share_at(std::uint64_t word, int at) {
  return std::min(static_cast<int>(word >> at & kShareMask), DynamicShare::kMost);
}

}  // namespace

MessageShares::Next MessageShares::next(const MessageLine& theirs,
                                        std::int64_t bytes,
                                        int first,
                                        bool can_be_timed) {
  const std::size_t size_class = class_of(bytes);
  // The word is all that is read of it: it orders nothing.
  const std::uint64_t word = theirs.shares[size_class].load(std::memory_order_relaxed);
  if ((word & kHasAdvice) == 0) {
    return {first, can_be_timed};
  }
  const auto number = static_cast<std::uint32_t>(word >> kNumberAt);
  if (can_be_timed && (word & kHasTrial) != 0 && tried_[size_class] != number) {
    tried_[size_class] = number;
    return {share_at(word, kTrialAt), true};
  }
  const int base = share_at(word, kBaseAt);
  const auto is_due = [&] {
    return base > 0 || ++idle_[size_class] % DynamicShare::kIdleMessages == 0;
  };
  return {base, can_be_timed && is_due()};
}

stream::Stopwatch* MessageShares::take(const Arrival& arrival, MessageLine& mine) {
  learn();
  const std::size_t size_class = class_of(arrival.bytes);
  auto known = shares_.find(size_class);
  if (known == shares_.end()) {
    if (!arrival.is_timed) {
      return nullptr;
    }
    known = shares_.try_emplace(size_class, arrival.first).first;
  }
  known->second.pass();
  for (const auto& [advised, share] : shares_) {
    mine.shares[advised].store(word_of(share.advice()), std::memory_order_relaxed);
  }
  const std::optional<int> trial = known->second.advice().trial;
  return arrival.is_timed ? start(arrival, arrival.share == trial) : nullptr;
}

void MessageShares::learn() {
  using State = stream::Stopwatch::Reading::State;
  for (Watch& watch : watches_) {
    if (!watch.is_running) {
      continue;
    }
    const stream::Stopwatch::Reading reading = watch.stopwatch->read();
    watch.is_running = reading.state == State::kUnderWay;
    if (reading.state == State::kDone) {
      shares_.at(class_of(watch.bytes))
          .learn({.share = watch.share,
                  .bytes = watch.bytes,
                  .direct_us = reading.direct_us,
                  .host_us = reading.host_us,
                  .by_kernels = watch.by_kernels});
    }
  }
}

stream::Stopwatch* MessageShares::start(const Arrival& arrival, bool is_trial) {
  while (watches_.size() < kStopwatches && !has_failed_) {
    Watch watch{.stopwatch = std::make_unique<stream::Stopwatch>(events_)};
    if (const Status opened = watch.stopwatch->open(); !opened.ok()) {
      SENNIT_INFO("device", "shares that do not follow the load: {}", opened.message());
      has_failed_ = true;
      watches_.clear();
    } else {
      watches_.push_back(std::move(watch));
    }
  }
  const auto end = watches_.end() - (is_trial || watches_.empty() ? 0 : 1);
  const auto free =
      std::find_if(watches_.begin(), end, [](const Watch& watch) { return !watch.is_running; });
  if (free == end) {
    return nullptr;
  }
  free->stopwatch->reset();
  free->bytes = arrival.bytes;
  free->share = arrival.share;
  free->by_kernels = arrival.by_kernels;
  free->is_running = true;
  return free->stopwatch.get();
}

}  // namespace sennit
