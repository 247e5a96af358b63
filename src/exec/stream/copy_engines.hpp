// CopyEngines: a communicator's collectives that copy engines run, from the agreement of all ranks
// to the streams, and its messages; and what a watcher can see and do about those that do not end.
#pragma once

#include "exec/stream/agreement.hpp"
#include "exec/stream/known_buffers.hpp"
#include "exec/stream/message_copies.hpp"
#include "exec/stream/stream_engine.hpp"
#include "memory/peer_buffers.hpp"
#include "memory/retries.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sennit {

class CopyEngines {
 public:
  // This rank's part; a failure says why this rank cannot, and the ranks then decide together.
  // `memory` and `world` outlive the result.
  static Result<std::unique_ptr<CopyEngines>> create(CudaDriver& driver,
                                                     const DeviceMemory& memory,
                                                     World& world,
                                                     bool copies_by_kernel);
  ~CopyEngines();
  CopyEngines(const CopyEngines&) = delete;
  CopyEngines& operator=(const CopyEngines&) = delete;

  struct Call {
    const Operation& operation;
    const stream::PlanProgram& program;
    bool is_uniform = false;  // see KnownBuffers
    void* stream = nullptr;
    std::uint32_t deadline_ms = 0;      // 0: none
    std::function<Status()> trouble{};  // see Agreement::Request
  };
  // All ranks together. False when they have agreed that copy engines do not run this call.
  Result<bool> run(const Call& call);

  // Memory in which the outputs of a collective lie at the same offset on all ranks. From the
  // second call at such a place on, ranks do not meet on the host before it.
  [[nodiscard]] SymmetricMemory& symmetric_memory() { return known_.memory(); }
  // Where the outputs of the call lie on all ranks, if that and all else for which they would meet
  // is known; window 0: it is not. The same on all ranks, as SymmetricMemory says.
  [[nodiscard]] WindowPlace known_place(const Call& call) const {
    return known_.known_place(for_known(call));
  }

  // All ranks together, before the first run with a strand through host memory. False when they
  // have agreed that they do not use their rings, for now: one cannot pin them, or its stream
  // captures. Takes nothing when the rings are there.
  Result<bool> open_rings(void* stream, const std::function<Status()>& trouble);

  [[nodiscard]] MessageCopies& messages() { return *messages_; }
  // What both ends of each message have decided.
  Status run(stream::MessageEngine::Group group);

  // For the watcher's thread. For how long the running call has been seen to run, its deadline (0:
  // none), and with whom it exchanges messages (nobody: a collective); none when no call has been
  // running all the time since the last question.
  struct Running {
    Clock::duration duration{};
    std::chrono::milliseconds deadline{};
    std::vector<int> peers{};
  };
  std::optional<Running> running();
  // Whether calls are in the streams, but for those of graphs that have not begun.
  [[nodiscard]] bool has_calls() const;
  // From now on no call begins.
  void close() { is_closed_ = true; }
  // Ends all waits, those of later calls as well: the communicator has failed. To be called until
  // nothing waits: behind waits for puts there are copies into the memory of others, who are given
  // time to see the failure, which has to be on this rank's line.
  void release();

 private:
  CopyEngines(CudaDriver& driver, const DeviceMemory& memory, World& world, bool copies_by_kernel);
  Result<std::vector<stream::RankWords*>> map_words();
  Status map_rings();
  Result<std::byte*> map_part(std::byte* memory, std::size_t bytes);
  Status probe(stream::RankWords& mine);
  Status preload_kernels();
  // The number of a call that is put into its stream next, or 0; fails where release() would end it
  // unseen.
  Result<std::uint64_t> begin_call(bool is_capturing);
  // A call that could not be put whole into its stream.
  void end_begun_call(std::uint64_t number, void* stream);
  // As far as this rank knows.
  bool can_run(const Call& call, bool is_capturing);
  bool can_reduce(const Call& call, bool is_capturing);
  [[nodiscard]] std::int64_t staging_needs(const Call& call) const;
  [[nodiscard]] stream::KnownBuffers::Call for_known(const Call& call) const;
  // The buffers of all ranks; none when copy engines do not run the call.
  Result<std::optional<Agreement::Reached>> reach(const Call& call, bool is_capturing);
  Result<std::optional<Agreement::Reached>> meet(const Call& call, bool is_capturing);
  // Whether the call's stream has nothing to do, or soon: programs put events before and behind
  // their calls, and the last call may be there still.
  bool becomes_idle(void* stream);
  // What all ranks have found.
  void note_idle(bool are_all_idle);
  // Of a call before which all streams were idle, with so many bytes of input and output on each
  // rank: whether the host has seen its end, so that its stream gets nothing.
  bool await_leader_on_host(std::uint64_t number, std::size_t bytes);

  CudaDriver& driver_;
  const DeviceMemory& memory_;
  World& world_;
  bool copies_by_kernel_;
  // Streams of threads of this process store into it as well.
  std::vector<std::shared_ptr<HeldMemory>> mapped_;
  stream::RankWords* own_words_ = nullptr;  // as this device sees them
  std::unique_ptr<stream::StreamEngine> engine_;
  std::unique_ptr<MessageCopies> messages_;
  PeerBuffers buffers_;
  Agreement agreement_;
  stream::KnownBuffers known_;
  Clock::time_point idle_by_;  // when the leader's last call should have ended
  int in_vain_ = 0;            // calls in a row for which hosts waited for their streams so
  int impatient_calls_ = 0;    // the next calls, for which they do not
  Clock::time_point seen_at_;
  std::atomic<std::uint64_t> calls_ = 0;  // so far, but of those in graphs
  std::atomic<bool> is_closed_ = false;
  bool has_rings_ = false;       // on all ranks
  bool has_rings_here_ = false;  // on this one
  Retries ring_retries_;
  Retries staging_retries_;
  std::optional<Clock::time_point> released_at_;  // first
  std::mutex release_mutex_;                      // by the watcher and by who aborts
};

}  // namespace sennit
