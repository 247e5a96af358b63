// Communicator: ranks that joined, their shared memory, and the calls they make in one order: how
// they are checked, and which plan they get. How they run is up to its Calls.
//
// Everything here but abort() is called under the lock of the ProgressEngine.
#pragma once

#include "codec/codec_rules.hpp"
#include "comm/allowed_paths.hpp"
#include "comm/calls.hpp"
#include "comm/comm_config.hpp"
#include "comm/plan_cache.hpp"
#include "comm/quick_calls.hpp"
#include "comm/scaled_ops.hpp"
#include "comm/work.hpp"
#include "world/control_star.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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
  [[nodiscard]] Calls& calls() { return calls_; }
  [[nodiscard]] const Calls& calls() const { return calls_; }
  // Why the communicator has failed; ok while it works.
  [[nodiscard]] const Status& failure() const { return calls_.failure(); }
  [[nodiscard]] ScaledOps& ops() { return ops_; }

  // kInvalidUsage in a child of the process that made the communicator.
  [[nodiscard]] Status check_process() const;

  // Checks the arguments and finds the program, without telling anybody.
  Result<std::shared_ptr<Work>> prepare(const Operation& operation);
  // A plain call that has been made before, if nothing is outstanding: it begins without a Work,
  // and either ends so or goes on as one. Nothing: it has to be prepared and posted.
  std::optional<QuickRun> begin_quick(const PlainCall& call);
  void end_quick(const QuickRun& quick);
  std::shared_ptr<Work> go_on_as_work(const QuickRun& quick);

  // From any thread: ends all waiting here and on the other ranks.
  void abort();
  // This rank makes no more calls. Outstanding works must have ended.
  void finalize();

  // The communicators that a split makes, by the number of the call that all ranks make for it:
  // also where some of them fail in that call, the others agree about every later name.
  [[nodiscard]] std::string name_split(std::uint64_t call) const;
  // That of the next shrink, which survivors alone call.
  std::string name_shrink();

 private:
  Communicator(Membership membership, CommConfig config, const World::Layout& layout);

  Status probe_memory(const AllowedPaths& paths);
  Status open_rails(std::unique_ptr<rail::MirroredRings> rails, const shm::RingGeometry& geometry);
  Status greet_peers(const JoinInterruption& interruption);
  Status check(const Operation& operation);
  Result<std::shared_ptr<Work>> make_work(const Operation& operation);
  Result<const BoundProgram*> find_program(const Operation& operation);
  void learn(const Work& work);

  CommConfig config_;
  World world_;
  std::unique_ptr<rail::MirroredRings> rails_;  // of rings in the world's memory
  std::unique_ptr<ControlStar> star_;  // of the lowest rank of a node, where there are several
  HostFacts facts_;
  PathPolicy path_policy_;
  CodecRules codec_rules_;
  std::unique_ptr<PlanCache> plans_;
  QuickCalls quick_calls_;
  bool finalized_ = false;
  std::uint64_t shrinks_ = 0;  // so far
  ScaledOps ops_;
  Calls calls_{world_, config_};
};

}  // namespace sennit
