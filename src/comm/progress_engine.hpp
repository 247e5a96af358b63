// ProgressEngine: makes progress for the communicators that one thread made, while any thread
// waits.
//
// There is no thread of its own. Whoever waits for a work drives all calls of all communicators of
// the engine, so that a rank which waits on one communicator still serves its peers on another.
// Communicators without outstanding calls are not even asked: hundreds of them cost nothing. The
// lock is released whenever the waiting thread yields, sleeps or runs the communicator's idle hook,
// so several threads take turns.
//
// Waiting goes from polling to yielding to sleeping on the rank's doorbell. Where ranks outnumber
// the cores, polling would keep the awaited rank from running, so it begins with yielding.
#pragma once

#include "comm/communicator.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sennit {

class ProgressEngine {
 public:
  // The engine of the calling thread; made at first use.
  static std::shared_ptr<ProgressEngine> of_this_thread();

  void attach(const std::shared_ptr<Communicator>& comm);
  void detach(const Communicator& comm);

  // Holds off all progress; for posting and for reading works.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Adds a prepared work to the calls of `comm`; under the lock.
  void post(Communicator& comm, std::shared_ptr<Work> work);
  // Drives until `work`, of `comm`, has ended or `limit` is over; true when it has ended.
  bool run_until(Communicator& comm, const Work& work, Clock::duration limit);
  // Makes one call of the library's own on host memory, and waits for it; its number.
  Result<std::uint64_t> run(Communicator& comm, const Operation& operation);
  // The same for an all_gather of `bytes` of each rank.
  Status gather(Communicator& comm, const void* mine, void* all, std::size_t bytes);
  // Makes a plain call of `comm` that has been made before and waits for it. Nothing where it has
  // to be prepared and posted.
  std::optional<Status> run_quick(Communicator& comm, const PlainCall& call);
  // After a call was posted that is not waited for: all communicators with outstanding calls go on
  // as far as they can, within limits. The rank may be away for long now, and must not say that it
  // waits for others.
  void push();
  // The same, and a look at what the others do.
  void poke();
  // And for this one in any case: what another thread's abort means for it shows then.
  void poke(Communicator& comm);

 private:
  // Of the waits that sleep at once after a costly yield. Few at first, as another rank may just
  // have copied a large message; twice as many each time that the next yield is costly again.
  static constexpr int kFewestSleeps = 4;
  static constexpr int kMostSleeps = 256;

  struct Attached {
    std::shared_ptr<Communicator> comm;
    int crowd = 1;  // ranks a core, when it was attached: each rank is asked for its cores
  };

  struct Patience {
    int rounds = 1;          // of progress between two looks at the clock
    int crowd = 1;           // ranks a core
    Clock::duration spin{};  // without progress, until the core is offered to others
    Clock::duration poll{};  // without progress, until this thread sleeps
  };

  [[nodiscard]] Patience patience() const;
  void drive(Communicator& comm);
  bool progress();
  // Until nothing moves, but not for longer than a call that does not wait may take.
  void progress_until_idle();
  void remember_wait(Calls& calls);
  void touch();
  // Up to patience_.rounds rounds, until something moves or `work` has ended.
  bool run_rounds(const Work& work);
  // As long as a message takes between two ranks that run; true when `quick` has ended.
  bool poll(QuickRun& quick);
  void look();
  [[nodiscard]] Clock::time_point next_look() const;
  // If its time has come; `guard` holds the lock before and after. True: something moved.
  static bool run_hook(const IdleHook& idle,
                       Clock::duration waited,
                       std::unique_lock<std::mutex>& guard);
  void yield_core(Clock::time_point now);
  void sleep(Communicator& comm, const Work& work, Clock::time_point until);

  std::mutex mutex_;
  std::vector<Attached> comms_;
  // Those of them that may have outstanding calls.
  std::vector<Calls*> busy_;
  // And those with a wait that a later one may continue.
  std::vector<Calls*> waited_;
  Patience patience_;
  bool has_rails_ = false;  // one of them has, or had
  unsigned rounds_ = 0;
  // Waits that sleep at once, since yielding has proved costly; written by waiting threads without
  // the lock, as it only guides them.
  std::atomic<int> waits_without_yield_{0};
  std::atomic<int> sleeps_after_yield_{kFewestSleeps};  // how many the next costly yield demands
};

}  // namespace sennit
