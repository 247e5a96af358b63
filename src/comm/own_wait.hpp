// OwnWait: the wait that this rank is in, as far as it can make no other call before it has ended,
// and what its status line says of it. Used under the engine's lock.
#pragma once

#include "comm/work.hpp"
#include "world/deadlock.hpp"

#include <cstdint>

namespace sennit {

class OwnWait {
 public:
  // Calls that have waited so long are reported.
  static constexpr Clock::duration kLong = std::chrono::milliseconds(300);

  explicit OwnWait(StatusLine& line) : line_(line) {}

  // Around a wait that begins now: until the work has ended (`for_good`), or for a time.
  void begin(const Work& work, bool for_good, Clock::time_point now);
  void end();
  // Whether a wait for this work has been the last thing done.
  [[nodiscard]] bool continues(const Work& work) const { return work_ == &work; }
  // Something else is done in between. False: there is no wait that a later one could continue.
  bool touch();
  // The communicator has failed: the line keeps saying why.
  void keep() { is_kept_ = true; }

  // The work that is waited for until it ends; null: there is none, or it has ended.
  [[nodiscard]] const Work* work(Clock::time_point now) const;

  // Says in the line what the work waits for, after an attempt to go on.
  void report(const LongWait& wait);
  // Whether the line says that `work` is waited for.
  [[nodiscard]] bool has_reported(const Work& work) const;

 private:
  StatusLine& line_;
  const Work* work_ = nullptr;
  bool is_on_ = false;
  bool for_good_ = false;
  bool is_kept_ = false;
  // Of the waits for this work with nothing else between them.
  Clock::time_point first_;     // when the first began
  Clock::time_point last_;      // when the last did
  Clock::duration spent_{};     // in those before it
  std::uint64_t reported_ = 0;  // what stands in the line while the wait is on
};

}  // namespace sennit
