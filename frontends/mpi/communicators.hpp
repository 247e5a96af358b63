// Communicators: which of the program's communicators run on the library.
//
// A communicator gets an engine, a communicator of the library, in one of its first blocking
// collectives, which may synchronize its ranks: they exchange what each knows, and all come
// to one answer. What cannot be taken is passed on for good, by all ranks. The state of a
// communicator ends with it, by an attribute whose delete callback the MPI calls.
#pragma once

#include "abi.hpp"
#include "agreement.hpp"
#include "buffers.hpp"
#include "cuda.hpp"
#include "engine.hpp"
#include "functions.hpp"
#include "guard.hpp"
#include "progress.hpp"
#include "settings.hpp"
#include "share.hpp"

#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sennit_mpi {

// An engine, and what it holds.
struct KeptEngine {
  SharedEngine shared;
  sennit_comm_t engine = nullptr;
};

// The engine of a communicator whose ranks are GPUs. It is made at the first call that has its
// buffers there on all ranks, which only the ranks together know: they ask each other, all in the
// same calls.
struct GpuEngine {
  KeptEngine on;
  int device = -1;
  void* stream = nullptr;   // null: the default one, which orders a call behind the program's work
  bool is_refused = false;  // it could not be made
  // Blocking calls, so equally many on all ranks; and which of them asks next.
  std::uint64_t calls = 0;
  std::uint64_t next_question = 1;
  std::uint64_t asked_until = 0;  // a call not long ago ran there: up to this one all ask

  bool is_asked() { return ++calls == next_question; }
  // To ask takes as long as a small call does, so programs that have nothing there seldom do.
  void plan_question(bool has_run_there) {
    constexpr std::uint64_t kSeldom = 256;
    if (has_run_there) {
      asked_until = calls + kSeldom;
    }
    const std::uint64_t pause = calls < asked_until ? 1 : std::min(calls, kSeldom);
    next_question = is_refused ? 0 : calls + pause;
  }
};

// One of the program's communicators. Its calls come one after the other, as MPI demands.
template <class Abi>
struct Member {
  std::atomic<typename Abi::Comm> handle{};
  SharedEngine shared;             // null: calls are passed on
  sennit_comm_t engine = nullptr;  // what it holds
  GpuEngine gpus;
  bool is_settled = false;  // whether it has one does not change any more
  std::string why;          // it has none
  // Of its persistent requests: those that their successors may take over, equal on all ranks.
  std::vector<KeptEngine> kept;
  int rank = 0;
  int size = 0;
  int nodes = 1;
  int seen = 0;             // blocking collectives before it was settled
  bool may_wait = false;    // the call at hand
  std::uint64_t calls = 0;  // since they were last added to the share
  std::uint64_t bytes = 0;

  // Calls on all ranks end with an error.
  void abort() const {
    for (const SharedEngine& one : {shared, gpus.on.shared}) {
      if (one != nullptr) {
        one->abort();
      }
    }
  }
};

template <class Abi>
class Communicators {
 public:
  using Comm = typename Abi::Comm;

  Communicators(const Abi& abi,
                const Functions<Abi>& functions,
                const Settings& settings,
                Progress<Abi>& progress,
                Share& share)
      : abi_(abi), functions_(functions), settings_(settings), progress_(progress), share_(share) {
    functions_.mpi.comm_create_keyval(&never_copied<Comm>, &removed, &key_, this);
  }

  // The communicator's member if this collective runs on its engine, which is made now if its time
  // has come and the call may wait for the other ranks. Null, and counted as passed on: it does
  // not.
  Member<Abi>* taking(Comm comm, Call call, bool may_wait) {
    Member<Abi>* const member = find(comm);
    if (member == nullptr) {
      share_.pass("no communicator of this MPI_COMM_WORLD");
      return nullptr;
    }
    member->may_wait = may_wait;
    if (!member->is_settled && may_wait) {
      settle(*member);
    }
    if (member->engine != nullptr && !settings_.passes(call)) {
      return member;
    }
    share_.pass(member->engine != nullptr ? "SENNIT_MPI_PASS" : member->why.c_str());
    return nullptr;
  }

  // An engine for one persistent request on the communicator of `parent`, on all ranks or on none:
  // that of a request which all have freed, or a new one.
  bool has_engine(Member<Abi>& own, Member<Abi>& parent, bool has_room) {
    own.rank = parent.rank;
    own.size = parent.size;
    if (const KeptEngine* const idle = idle_on_all(parent)) {
      own.shared = idle->shared;
      own.engine = idle->engine;
      return true;
    }
    if (!agree(own, parent.handle, has_room).empty()) {
      return false;
    }
    if (parent.kept.size() < kMostKept) {
      parent.kept.push_back({own.shared, own.engine});
    }
    return true;
  }

  // Whether all ranks have the buffers of this call on GPUs, and an engine there.
  bool can_run_on_gpus(Member<Abi>& member, int gpu) {
    GpuEngine& gpus = member.gpus;
    const bool is_ready = gpu >= 0 && (gpus.device < 0 || gpus.device == gpu);
    bool are_all_ready = is_true_on_all(member, is_ready);
    if (are_all_ready && gpus.device < 0) {
      const std::string why = join_gpus(member, gpu);
      are_all_ready = is_true_on_all(member, why.empty());
      if (are_all_ready) {
        gpus.device = gpu;
      } else {
        gpus.is_refused = true;
        gpus.on = {};
        const std::string said = why.empty() ? "another rank could not join" : why;
        sennit_tool_log("mpi", ("GPU buffers go through host memory: " + said).c_str());
      }
    }
    gpus.plan_question(are_all_ready);
    return are_all_ready;
  }

  // This rank cannot take part in a call of the communicator: it fails on all ranks.
  void abort(Comm comm) {
    const std::scoped_lock lock(mutex_);
    const auto known = members_.find(comm);
    if (known != members_.end()) {
      known->second->abort();
    }
  }

  // Before MPI_Finalize: all engines end, and callbacks within it are passed on.
  void finish() {
    const std::scoped_lock lock(mutex_);
    is_finished_ = true;
    for (auto& [comm, member] : members_) {
      end(*member);
      member->is_settled = true;
      member->why = "MPI_Finalize";
    }
  }

 private:
  static constexpr const char* kNoneYet = "one of the first calls of a communicator";
  // Seconds.
  static constexpr double kFirstWarning = 60;  // programs are out of step for longer than 5 s
  // They take memory and descriptors until the communicator ends.
  static constexpr std::size_t kMostKept = 8;

  static int removed(Comm comm, int /*key*/, void* /*value*/, void* extra) {
    return guarded_callback([&] { static_cast<Communicators*>(extra)->forget(comm); });
  }
  static int poke(void* progress) {
    return static_cast<const Progress<Abi>*>(progress)->poke() ? 1 : 0;
  }

  Member<Abi>* find(Comm comm) {
    if (comm == Comm{} || comm == abi_.comm_null()) {
      return nullptr;
    }
    // Members are never freed, so one that ends meanwhile on another thread may be looked at; a
    // handle that is in use is that of one member alone.
    Member<Abi>* const last = last_.load(std::memory_order_acquire);
    if (last != nullptr && last->handle.load(std::memory_order_relaxed) == comm) {
      return last;
    }
    Member<Abi>* found = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      const auto known = members_.find(comm);
      found = known != members_.end() ? known->second.get() : nullptr;
    }
    if (found == nullptr) {
      found = enter(comm);
    }
    if (found != nullptr) {
      last_.store(found, std::memory_order_release);
    }
    return found;
  }

  // A communicator that is seen for the first time; null where there is none behind the handle.
  Member<Abi>* enter(Comm comm) {
    int is_inter = 0;
    int rank = 0;
    int size = 0;
    if (functions_.mpi.comm_test_inter(comm, &is_inter) != 0 ||
        functions_.mpi.comm_rank(comm, &rank) != 0 || functions_.mpi.comm_size(comm, &size) != 0) {
      return nullptr;
    }
    Member<Abi>* member = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      std::unique_ptr<Member<Abi>> fresh;
      if (unused_.empty()) {
        fresh = std::make_unique<Member<Abi>>();
      } else {
        fresh = std::move(unused_.back());
        unused_.pop_back();
      }
      member = fresh.get();
      members_[comm] = std::move(fresh);
    }
    member->rank = rank;
    member->size = size;
    member->seen = 0;
    member->why = why_not(is_inter != 0, size);
    member->is_settled = !member->why.empty();
    if (member->is_settled) {
      log(*member);
    } else {
      member->why = kNoneYet;
    }
    member->handle.store(comm, std::memory_order_relaxed);
    functions_.mpi.comm_set_attr(comm, key_, member);
    return member;
  }

  // What all ranks know without asking.
  [[nodiscard]] std::string why_not(bool is_inter, int size) const {
    if (is_finished_) {
      return "MPI_Finalize";
    }
    if (is_inter) {
      return "an intercommunicator";
    }
    if (size == 1) {
      return "one rank";
    }
    return size > kMostRanks ? "more than " + std::to_string(kMostRanks) + " ranks" : "";
  }

  void forget(Comm comm) {
    const std::scoped_lock lock(mutex_);
    const auto known = members_.find(comm);
    if (known == members_.end()) {
      return;
    }
    std::unique_ptr<Member<Abi>> member = std::move(known->second);
    members_.erase(known);
    member->handle.store(Comm{}, std::memory_order_relaxed);
    end(*member);
    unused_.push_back(std::move(member));
  }

  void end(Member<Abi>& member) {
    share_.take(std::exchange(member.calls, 0), std::exchange(member.bytes, 0));
    member.engine = nullptr;
    member.gpus = {};
    member.kept.clear();
    if (member.shared != nullptr) {
      member.shared->leave();
    }
    member.shared.reset();
  }

  // All ranks of the communicator are in the same of its blocking collectives.
  void settle(Member<Abi>& member) {
    const Comm comm = member.handle.load(std::memory_order_relaxed);
    if (comm == abi_.world() || ++member.seen > settings_.after) {
      member.is_settled = true;
      member.why = agree(member, comm);
      log(member);
    }
  }
  // At level INFO, once a communicator.
  static void log(const Member<Abi>& member) {
    if (member.rank == 0) {
      const std::string who = "a communicator of " + std::to_string(member.size) + " ranks ";
      const bool is_passed = member.engine == nullptr;
      const std::string what = is_passed ? "is passed on: " + member.why : "runs on Sennit";
      sennit_tool_log("mpi", (who + what).c_str());
    }
  }

  // A kept engine that no request has on any rank. Null: there is none.
  const KeptEngine* idle_on_all(const Member<Abi>& parent) const {
    const std::size_t count = parent.kept.size();
    std::vector<char> mine(count);
    std::ranges::transform(parent.kept, mine.begin(), [](const KeptEngine& kept) {
      return kept.shared.use_count() == 1 && !kept.shared->has_failed() ? 1 : 0;
    });
    std::vector<char> all(count * static_cast<std::size_t>(parent.size));
    const auto bytes = static_cast<int>(count);
    if (count == 0 ||
        functions_.mpi.all_gather(
            mine.data(), bytes, abi_.byte(), all.data(), bytes, abi_.byte(), parent.handle) != 0) {
      return nullptr;
    }
    for (std::size_t at = 0; at < count; ++at) {
      bool is_idle = true;
      for (std::size_t of = at; of < all.size(); of += count) {
        is_idle = is_idle && all[of] != 0;
      }
      if (is_idle) {
        return &parent.kept[at];
      }
    }
    return nullptr;
  }

  // Makes the engine on all ranks or on none; why there is none.
  std::string agree(Member<Abi>& member, Comm comm, bool has_room = true) {
    const auto size = static_cast<std::size_t>(member.size);
    Facts mine = facts_of_process(member.size, settings_.shared());
    mine.has_room = has_room ? 1 : 0;
    mine.is_of_job = is_of_job(comm, member.size) ? 1 : 0;
    sennit_unique_id_create(&mine.id);
    std::vector<Facts> all(size);
    constexpr auto kBytes = static_cast<int>(sizeof(Facts));
    if (functions_.mpi.all_gather(
            &mine, kBytes, abi_.byte(), all.data(), kBytes, abi_.byte(), comm) != 0) {
      return "MPI_Allgather failed";
    }
    std::string why = obstacle(all, settings_.takes_nodes);
    if (!why.empty()) {
      return why;
    }
    KeptEngine joined_one;
    why = join(joined_one, member, all.front().id, "host");
    member.engine = joined_one.engine;
    member.shared = std::move(joined_one.shared);
    if (why.empty()) {
      why = lack_of_rails(member);
    }
    if (!why.empty()) {
      member.abort();  // others may have joined, and wait in a call
    }
    int joined = why.empty() ? 1 : 0;
    int all_joined = 0;
    if (functions_.mpi.all_reduce(&joined, &all_joined, 1, abi_.integer(), abi_.min(), comm) != 0) {
      all_joined = 0;
    }
    if (all_joined == 0) {
      member.engine = nullptr;
      member.shared.reset();
      return why.empty() ? "another rank could not join" : why;
    }
    return {};
  }

  // Whether all ranks of the communicator are of this MPI_COMM_WORLD: others, spawned or connected,
  // may be without this library.
  bool is_of_job(Comm comm, int size) const {
    typename Abi::Group world{};
    typename Abi::Group group{};
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::vector<int> in_world(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    functions_.mpi.comm_group(abi_.world(), &world);
    functions_.mpi.comm_group(comm, &group);
    functions_.mpi.group_translate_ranks(group, size, ranks.data(), world, in_world.data());
    functions_.mpi.group_free(&world);
    functions_.mpi.group_free(&group);
    return std::ranges::count(in_world, Abi::kUndefined) == 0;
  }

  // Why the ranks of several nodes cannot call each other, as all of them find at once.
  static std::string lack_of_rails(Member<Abi>& member) {
    const bool is_right =
        sennit_tool_nodes(member.engine, &member.nodes) == SENNIT_OK &&
        (member.nodes == 1 || sennit_barrier(member.engine, nullptr, nullptr) == SENNIT_OK);
    return is_right ? "" : sennit_last_error_message();
  }

  // Whether it is so on all ranks of a member that has an engine.
  static bool is_true_on_all(const Member<Abi>& member, bool is_true) {
    const std::uint8_t mine = is_true ? 1 : 0;
    std::uint8_t all = 0;
    const sennit_status_t status = sennit_all_reduce(
        &mine, &all, 1, SENNIT_UINT8, SENNIT_MIN, member.engine, nullptr, nullptr);
    return status == SENNIT_OK && all != 0;
  }

  // Of this rank with its GPU; why it could not. All ranks join or none begins to.
  std::string join_gpus(Member<Abi>& member, int gpu) {
    const Cuda& cuda = *Cuda::find();
    const std::string why = guarded(
        [&]() -> std::string {
          int level = 0;
          functions_.mpi.query_thread(&level);
          // Another thread may put work into the default stream, or into one that waits for it, for
          // which other ranks wait before they make this call.
          constexpr int kOneThread = 0;  // MPI_THREAD_SINGLE, in every ABI
          if (level != kOneThread) {
            member.gpus.stream = Cuda::Scope(cuda, {.device = gpu}).stream_for_calls();
          }
          return {};
        },
        [](const char* what) -> std::string { return what; });
    if (!is_true_on_all(member, why.empty())) {
      return why.empty() ? "another rank has no stream" : why;
    }
    sennit_unique_id_t id{};
    sennit_unique_id_create(&id);
    if (sennit_broadcast(&id, &id, sizeof(id), SENNIT_UINT8, 0, member.engine, nullptr, nullptr) !=
        SENNIT_OK) {
      return sennit_last_error_message();
    }
    const Cuda::Scope scope(cuda, {.device = gpu});
    return join(member.gpus.on, member, id, "cuda");
  }

  // Joins while the MPI goes on: others may wait for a message before they come here.
  std::string join(KeptEngine& into,
                   const Member<Abi>& member,
                   const sennit_unique_id_t& id,
                   const char* device) {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.name = "mpi";
    config.device = device;
    config.deadline_s = -1;
    config.non_blocking = 1;
    config.first_warning_s = kFirstWarning;
    config.idle_hook = &poke;
    config.idle_argument = &progress_;
    config.idle_after_s = std::chrono::duration<double>(kBeforeProgress).count();
    sennit_status_t state =
        sennit_comm_init_rank(&into.engine, member.size, &id, member.rank, &config);
    into.shared = std::make_shared<Engine>(into.engine);
    while (state == SENNIT_IN_PROGRESS) {
      progress_.poke_or_rest();
      sennit_comm_async_error(into.engine, &state);
    }
    if (state == SENNIT_OK) {
      return {};
    }
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    if (into.engine == nullptr || sennit_comm_last_error(into.engine, &error) != SENNIT_OK) {
      return sennit_last_error_message();
    }
    return error.message;
  }

  const Abi& abi_;
  const Functions<Abi>& functions_;
  const Settings& settings_;
  Progress<Abi>& progress_;
  Share& share_;
  int key_ = 0;
  std::atomic<bool> is_finished_{false};
  std::atomic<Member<Abi>*> last_{nullptr};
  std::mutex mutex_;
  std::unordered_map<Comm, std::unique_ptr<Member<Abi>>> members_;
  std::vector<std::unique_ptr<Member<Abi>>> unused_;
};

}  // namespace sennit_mpi
