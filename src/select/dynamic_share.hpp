// DynamicShare: which percent of messages go through host memory next to NVLink, by what both
// strands of earlier ones took. No clock and no threads: who measures reports it, and what it
// advises is for whoever decides about the next message.
//
//   DynamicShare share(6);
//   share.pass();                          // a message has come, measured or not
//   share.learn({.share = 6, .bytes = bytes, .direct_us = 700, .host_us = 520});
//   share.advice().base;                   // of all messages but those of trials
//
// A share costs what its slower strand takes, and kBesideUs or kBesideKernelsUs unless it is none.
// It keeps the base while trials of other shares cost no less: the share at which both strands
// would take as long as each other, the neighbours, none at all, and the one that it began with.
// Each trial is one message, and one more as long as it looks cheaper, up to kSamples: what is
// cheaper by more than kGain then is the base. Trials in vain become rarer. Where messages begin to
// take much longer at the base, smaller shares are tried at once. A larger share that did not last
// is not tried so soon again: others may load the wire to the host now and then.
//
// docs/decisions/0033-shares-that-follow-the-load.md says why.
#pragma once

#include <cstdint>
#include <optional>

namespace sennit {

class DynamicShare {
 public:
  static constexpr int kGrid = 2;   // shares are multiples, in percent
  static constexpr int kMost = 98;  // next to NVLink
  // What it takes beyond the slower strand that there are two: streams that part and meet again. 4,
  // 6 and 8 percent of 256 MB took 10, 9 and 12 us more than 96, 94 and 92 percent of the time over
  // NVLink alone (`h200x4-message-puts`).
  static constexpr double kBesideUs = 10;
  // Where kernels have the rest: 4, 6 and 8 percent of 64 MB took 15 to 18 us more than that part
  // of what all of it takes (`first, rest by kernels` in `h200x2-lines`).
  static constexpr double kBesideKernelsUs = 20;
  // While nothing goes through the host, one message of so many is to be measured, and counts for
  // as many: ends that meet so that one can be timed take up to 10 us (64 MB both ways took 206 us,
  // and 196 where none was timed; `first` in `h200x2-lines`).
  static constexpr int kIdleMessages = 8;

  // `first`: the share to begin with.
  explicit DynamicShare(int first);

  struct Measurement {
    int share = 0;
    std::int64_t bytes = 0;
    // From when both ends had begun; 0 where nothing went that way.
    double direct_us = 0;
    double host_us = 0;
    bool by_kernels = false;  // what does not go through the host
  };
  void learn(const Measurement& measurement);

  // A message has come. A trial that is never measured is given up after many.
  void pass();

  struct Advice {
    int base = 0;
    // For one message, once for each number.
    std::optional<int> trial{};
    std::uint32_t trial_number = 0;
  };
  [[nodiscard]] Advice advice() const;

 private:
  struct Trial {
    int share = 0;
    double costs = 0;  // of all samples together
    int samples = 0;
    int passed = 0;  // messages since it was asked for
  };

  void note_rates(const Measurement& measurement);
  void learn_of_base(double cost);
  void learn_of_trial(double cost);
  void adopt(const Trial& trial);
  void forget(double cost);
  void start_trial();
  // `ratio`: of what it took to what the base does.
  void end_trial(double ratio);
  void end_round();
  [[nodiscard]] int candidate(int index) const;
  [[nodiscard]] bool is_worth_a_trial(int share) const;

  int first_;
  int base_;
  double base_cost_ = 0;  // smoothed, in us per byte; 0: not known
  int samples_ = 0;       // of base_cost_, up to those that count
  int surges_ = 0;        // of the last messages at the base, one after the other
  int settled_ = 0;       // messages since the base changed
  // Percent of a byte in a us; 0: not known.
  double direct_rate_ = 0;
  double host_rate_ = 0;

  std::optional<Trial> trial_;
  std::uint32_t trial_number_ = 0;
  int next_candidate_ = 0;
  int distance_;  // messages at the base between trials
  int until_trial_;
  int patience_;             // the distance to begin with
  bool has_gained_ = false;  // in this round of candidates
  bool is_falling_ = false;  // smaller shares first
};

}  // namespace sennit
