// Communicator: ranks that joined, their shared memory, and the calls they make in one order.
//
// Calls are posted and make progress inside Communicator::progress, which the ProgressEngine of the
// thread that waits drives. Everything here but abort() is called under the engine's lock.
#pragma once

#include "base/fork_guard.hpp"
#include "codec/codec_rules.hpp"
#include "comm/allowed_paths.hpp"
#include "comm/comm_config.hpp"
#include "comm/moves.hpp"
#include "comm/own_wait.hpp"
#include "comm/plan_cache.hpp"
#include "comm/quick_calls.hpp"
#include "comm/work.hpp"
#include "world/control_star.hpp"
#include "world/deadlock.hpp"
#include "world/watch.hpp"
#include "world/world.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sennit {

class Communicator {
 public:
  // Joins the other ranks of `identity`; blocks until all are there, or `interruption` says why it
  // cannot come to that.
  static Result<std::shared_ptr<Communicator>> create(const Identity& identity,
                                                      const CommConfig& config,
                                                      const JoinInterruption& interruption = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int size() const { return world_.size(); }
  [[nodiscard]] const CommConfig& config() const { return config_; }
  [[nodiscard]] World& world() { return world_; }
  // Why the communicator has failed; ok while it works.
  [[nodiscard]] const Status& failure() const { return failure_; }

  // kInvalidUsage in a child of the process that made the communicator. There nothing is ever
  // outstanding and nothing advances: the calls are the parent's.
  [[nodiscard]] Status check_process() const;

  // Checks the arguments and finds the program, without telling anybody.
  Result<std::shared_ptr<Work>> prepare(const Operation& operation);
  // Appends a prepared work to the communicator's calls. Only the engine calls it, which then has
  // to drive this communicator.
  void post(std::shared_ptr<Work> work);

  // A plain call that has been made before, if nothing is outstanding: it begins without a Work,
  // and either ends so or goes on as one. Nothing: it has to be prepared and posted.
  std::optional<QuickRun> begin_quick(const PlainCall& call);
  void end_quick(const QuickRun& quick);
  std::shared_ptr<Work> go_on_as_work(const QuickRun& quick);

  // Lets every running call advance; true when anything moved or ended.
  bool progress();
  // Deadlines, failures of others, warnings. `now` is taken once for many calls.
  void look(Clock::time_point now);
  // No call is outstanding, so progress() and look() have nothing to do but to notice an abort.
  [[nodiscard]] bool is_idle() const { return collectives_.empty() && pairs_.empty(); }
  // A call that has not ended, or null.
  [[nodiscard]] std::shared_ptr<Work> outstanding() const;
  // The wait for a work of this communicator, which whoever waits tells.
  [[nodiscard]] OwnWait& own_wait() { return wait_; }
  // When look() has to be called next, at the latest.
  [[nodiscard]] Clock::time_point next_look() const;

  // Who carries messages to and from other nodes; null: nobody.
  [[nodiscard]] rail::MirroredRings* rails() const { return rails_.get(); }

  // The program of the last call posted, or null.
  [[nodiscard]] const BoundProgram* last_program() const { return last_program_; }

  // From any thread: ends all waiting here and on the other ranks.
  void abort();
  // This rank makes no more calls. Outstanding works must have ended.
  void finalize();

  // The communicators that a split makes, by the number of the call that all ranks make for it:
  // also where some of them fail in that call, the others agree about every later name.
  [[nodiscard]] std::string name_split(std::uint64_t call) const;
  // That of the next shrink, which survivors alone call.
  std::string name_shrink();
  // Operators with a scalar of this rank (premul_sum), by the numbers that programs know them by.
  static constexpr int kFirstScaledOp = 1024;
  struct ScaledOp {
    Dtype dtype = Dtype::kFloat32;
    Scaling scaling;
    const void* scalar_on_device = nullptr;  // of GPU ranks: what `scaling` says otherwise
  };
  int create_op(const ScaledOp& op);
  Result<ScaledOp> find_op(int number) const;
  Status destroy_op(int number);

 private:
  Communicator(Membership membership, CommConfig config, const World::Layout& layout);

  using PairKey = std::pair<int, bool>;  // peer, is_send
  using Queue = std::deque<std::shared_ptr<Work>>;

  Status probe_memory(const AllowedPaths& paths);
  Status open_rails(std::unique_ptr<rail::MirroredRings> rails, const shm::RingGeometry& geometry);
  [[nodiscard]] bool is_inherited() const { return fork_generation() != generation_; }
  Status check(const Operation& operation) const;
  Result<const BoundProgram*> find_program(const Operation& operation);
  void learn(const Work& work);
  void set_times(Work& work) const;
  std::optional<Verdict> find_unexpected_message();
  [[nodiscard]] MessageLog::Way& way_of(const Work& work) const;
  [[nodiscard]] DieAt* die_at(std::uint64_t sequence);
  void start(Work& work);
  bool advance_front(Queue& queue);
  void end(Work& work, Status status);
  void fail(const Work& work, const Verdict& verdict);
  void fail_all(const Status& status, const Work* cause);
  bool may_end_well(Work& work, Clock::time_point now);
  [[nodiscard]] bool needs(const Work& work, int peer) const;
  bool flush_rails(const Work& work);
  std::optional<Verdict> find_broken(Work& work, Clock::time_point now);
  void warn(Work& work, Clock::time_point now);
  [[nodiscard]] CallView view_of(const Work& work) const;
  [[nodiscard]] LongWait long_wait(Clock::time_point now) const;

  CommConfig config_;
  std::uint64_t generation_ = fork_generation();
  World world_;
  std::unique_ptr<rail::MirroredRings> rails_;  // of rings in the world's memory
  std::unique_ptr<ControlStar> star_;  // of the lowest rank of a node, where there are several
  HostFacts facts_;
  PathPolicy path_policy_;
  CodecRules codec_rules_;
  std::unique_ptr<PlanCache> plans_;
  QuickCalls quick_calls_;
  Status failure_;
  std::atomic<bool> aborted_{false};
  bool finalized_ = false;
  std::uint64_t posted_ = 0;   // collectives so far
  std::uint64_t shrinks_ = 0;  // so far
  const BoundProgram* last_program_ = nullptr;
  std::uint32_t alarms_seen_ = 0;
  std::map<int, ScaledOp> ops_;
  int next_op_ = kFirstScaledOp;
  Clock::time_point next_process_look_;
  DeadlockWatch deadlocks_{world_};
  OwnWait wait_{world_.my_line()};
  Moves moves_;
  Queue collectives_;
  std::map<PairKey, Queue> pairs_;
  // By peer, the last recv of no elements whose send has not been seen: it has ended all the same.
  std::map<int, std::uint64_t> empty_recvs_;
};

}  // namespace sennit
