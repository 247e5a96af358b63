// Calls: the outstanding calls of a communicator on host ranks, from the moment they are posted.
//
// They make progress inside progress(), which the ProgressEngine of the thread that waits drives.
// Everything here but abort() is called under the engine's lock. In a child of the process that
// made the communicator nothing is ever outstanding and nothing advances: the calls are the
// parent's.
#pragma once

#include "base/fork_guard.hpp"
#include "comm/call_watch.hpp"
#include "comm/comm_config.hpp"
#include "comm/inbox.hpp"
#include "comm/work.hpp"
#include "comm/work_queues.hpp"
#include "world/world.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace sennit {

// Where nothing waits for a card: an idle round of one costs more than one of a call.
inline constexpr unsigned kRoundsPerRails = 16;

class Calls {
 public:
  // Both outlive the calls.
  Calls(World& world, CommConfig& config) : world_(world), config_(config) {}
  // Who carries messages to and from other nodes.
  void use(rail::MirroredRings* rails) { rails_ = rails; }
  [[nodiscard]] rail::MirroredRings* rails() const { return rails_; }

  // Why the communicator has failed; ok while it works.
  [[nodiscard]] const Status& failure() const { return failure_; }
  [[nodiscard]] Inbox& inbox() { return inbox_; }
  [[nodiscard]] bool is_inherited() const { return fork_generation() != generation_; }

  // Appends a prepared work. Only the engine calls it, which then has to drive these calls.
  void post(std::shared_ptr<Work> work);
  // The number of a collective that begins without a Work.
  std::uint64_t begin(const BoundProgram* program) {
    last_program_ = program;
    return ++posted_;
  }
  // The same collective becomes a work that has begun.
  void go_on(std::shared_ptr<Work> work);
  // Whether a collective may begin without a Work.
  [[nodiscard]] bool is_quiet() const;
  // For tests: where this rank ends in the collective; null: it does not.
  [[nodiscard]] DieAt* die_at(std::uint64_t sequence);

  // Lets every running call advance; true when anything moved or ended.
  bool progress();
  // Deadlines, failures of others, warnings. `now` is taken once for many calls.
  void look(Clock::time_point now);
  // When look() has to be called next, at the latest.
  [[nodiscard]] Clock::time_point next_look() const;
  // No call is outstanding, so progress() and look() have nothing to do but to notice an abort.
  [[nodiscard]] bool is_idle() const { return queues_.are_empty(); }
  // A call that has not ended, or null.
  [[nodiscard]] std::shared_ptr<Work> outstanding() const;
  // The program of the last call, or null.
  [[nodiscard]] const BoundProgram* last_program() const { return last_program_; }
  // The wait for a work of this communicator; the thread that waits reports it.
  [[nodiscard]] OwnWait& own_wait() { return watch_.own_wait(); }

  // From any thread: progress() ends all calls.
  void abort() { aborted_.store(true, std::memory_order_release); }

 private:
  [[nodiscard]] bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  void start(Work& work);
  void start_front(WorkQueues::Queue& queue);
  bool start_matched(const std::shared_ptr<Work>& recv);
  void hand_over(const Work& message, const std::shared_ptr<Work>& recv);
  bool notice_abort();
  bool advance_front(WorkQueues::Queue& queue);
  void fail(const Work& work, const Verdict& verdict);
  void fail_all(const Status& status, const Work* cause);
  bool flush_rails(const Work& work);
  [[nodiscard]] Status broken(const Work& work) const;

  World& world_;
  CommConfig& config_;
  rail::MirroredRings* rails_ = nullptr;
  unsigned rounds_without_rails_ = 0;
  std::uint64_t generation_ = fork_generation();
  Status failure_;
  std::atomic<bool> aborted_{false};
  std::uint64_t posted_ = 0;  // collectives so far
  const BoundProgram* last_program_ = nullptr;
  std::uint64_t messages_ = 0;  // sends and recvs so far
  WorkQueues queues_;
  Inbox inbox_{world_, queues_};
  CallWatch watch_{world_, config_, queues_, inbox_};
};

}  // namespace sennit
