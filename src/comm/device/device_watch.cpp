#include "comm/device/device_watch.hpp"

#include "comm/error_contract.hpp"
#include "exec/stream/copy_engines.hpp"
#include "world/watch.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace sennit {
namespace {

// A dead rank must be reported within seconds; asking is one system call.
constexpr std::chrono::milliseconds kWatchInterval{50};
// A ring that nobody empties any more takes a release for each turn of its slots.
constexpr std::chrono::milliseconds kReleaseInterval{1};

}  // namespace

DeviceWatch::DeviceWatch(World& world, GpuContext& context, std::string name)
    : world_(world),
      context_(context),
      name_(std::move(name)),
      comparison_(world),
      message_comparison_(world) {
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  stopped_at_exit_.emplace([this] { stop(); });
}

DeviceWatch::~DeviceWatch() {
  stopped_at_exit_.reset();
  stop();
}

void DeviceWatch::stop() {
  watcher_.request_stop();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

bool DeviceWatch::is_watching() const {
  const std::stop_token watching = watcher_.get_stop_token();
  return watching.stop_possible() && !watching.stop_requested();
}

void DeviceWatch::abandon_at(Clock::time_point when) {
  const std::scoped_lock lock(mutex_);
  finalize_by_ = when;
}

Status DeviceWatch::end_of_finalize(bool had_failed, Status drained) {
  Status failed = [this] {
    const std::scoped_lock lock(mutex_);
    finalize_by_.reset();
    return find_failure();
  }();
  if (had_failed || failed.ok()) {
    return drained;
  }
  tell_others();  // where kernels have ended before the thread looked
  return failed;
}

Status DeviceWatch::give_up(const Status& status) {
  const Status why = [&] {
    const std::scoped_lock lock(mutex_);
    failure_ = cause_.ok() ? status : cause_;
    return failure_;
  }();
  abort();
  return why;
}

Status DeviceWatch::trouble() {
  SENNIT_RETURN_IF_ERROR(failure());
  if (std::atomic_ref(error_word().abort).load(std::memory_order_acquire) == 0) {
    return {};
  }
  // A kernel says why before it says that others shall leave.
  const auto trouble = std::atomic_ref(error_word().trouble).load(std::memory_order_acquire);
  const std::scoped_lock lock(mutex_);
  failure_ = explain(trouble == sm::Trouble::kNone ? sm::Trouble::kAborted : trouble);
  return failure_;
}

Status DeviceWatch::explain_deadline(const Operation& operation) const {
  return error_of(operation.collective == Collective::kSendRecv ? explain_absence_of(operation)
                                                                : explain_absence());
}

Status DeviceWatch::failure() {
  const std::scoped_lock lock(mutex_);
  return find_failure();
}

Status DeviceWatch::find_failure() {
  if (failure_.ok()) {
    const auto trouble = std::atomic_ref(error_word().trouble).load(std::memory_order_acquire);
    failure_ = trouble == sm::Trouble::kNone ? Status() : explain(trouble);
  }
  return failure_;
}

Status DeviceWatch::error_of(const Verdict& verdict) const {
  return gpu_error_contract(verdict, world_, name_);
}

// Of a call whose deadline has passed: who has not made it, as far as the lines say.
Verdict DeviceWatch::explain_absence() const {
  Verdict verdict{.code = Code::kDeadlineExceeded,
                  .evidence = "its deadline has passed, with all ranks in it"};
  const std::uint64_t calls =
      world_.device_line(world_.rank()).collectives.entered.load(std::memory_order_acquire);
  std::string absent;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (world_.device_line(rank).collectives.entered.load(std::memory_order_acquire) < calls) {
      verdict.blamed_ranks.push_back(rank);
      absent += (absent.empty() ? "" : ", ") + world_.peers().describe(rank);
    }
  }
  if (!absent.empty()) {
    verdict.evidence =
        fmt::format("its deadline has passed; alive, but has not made this call: {}", absent);
  }
  return verdict;
}

Verdict DeviceWatch::explain_absence_of(const Operation& operation) const {
  return {.code = Code::kDeadlineExceeded,
          .blamed_ranks = {operation.peer},
          .evidence = fmt::format("the deadline of a {} has passed; alive, but has not called for "
                                  "its other end: {}",
                                  name_of(operation),
                                  world_.peers().describe(operation.peer))};
}

Verdict DeviceWatch::explain_wait(const std::vector<int>& peers) const {
  std::string waited_for;
  for (const int peer : peers) {
    waited_for += (waited_for.empty() ? "" : ", ") + world_.peers().describe(peer);
  }
  return {.code = Code::kDeadlineExceeded,
          .blamed_ranks = peers,
          .evidence = fmt::format(
              "messages were waited for until the deadline, in streams, with {}", waited_for)};
}

Status DeviceWatch::explain(sm::Trouble trouble) const {
  if (!cause_.ok()) {
    return cause_;
  }
  if (trouble == sm::Trouble::kDeadline) {
    sm::ErrorWord& error = error_word();
    const auto peer = static_cast<int>(std::atomic_ref(error.peer).load());
    return error_of(
        {.code = Code::kDeadlineExceeded,
         .blamed_ranks = {peer},
         .evidence = fmt::format("{} was waited for until the deadline: its part of round "
                                 "{} of thread block {} did not come",
                                 world_.peers().describe(peer),
                                 error.round,
                                 error.block)});
  }
  return {Code::kAborted, fmt::format("communicator '{}' was aborted", name_)};
}

std::optional<int> DeviceWatch::find_quitter() const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    const RankState state = world_.line(rank).state.load(std::memory_order_acquire);
    if (state == RankState::kAborted || state == RankState::kFailed) {
      return rank;
    }
  }
  return std::nullopt;
}

// Of a rank that has given up.
Verdict DeviceWatch::retell(int rank) const {
  const StatusLine& line = world_.line(rank);
  Verdict verdict{.code = Code::kAborted,
                  .blamed_ranks = {rank},
                  .evidence = world_.peers().describe(rank) +
                              " gave the communicator up; its own error says why"};
  if (line.state.load(std::memory_order_acquire) == RankState::kAborted) {
    return verdict;
  }
  const auto code = static_cast<Code>(line.failure_code.load(std::memory_order_acquire));
  if (code != Code::kDeadlineExceeded) {
    verdict.evidence += "; its own error says why";
    return verdict;
  }
  // As this rank itself would have found soon.
  verdict.code = code;
  verdict.blamed_ranks.clear();
  verdict.evidence += " at its deadline";
  const int late = line.blamed.load(std::memory_order_acquire);
  if (late >= 0 && late < world_.size()) {
    verdict.blamed_ranks = {late};
    verdict.evidence += ", until which it waited for " + world_.peers().describe(late);
  }
  return verdict;
}

// Unless another rank has done so: they may wait for what this rank does not go on with, and are
// not to be surprised by what its streams do from now on.
void DeviceWatch::tell_others() {
  const std::scoped_lock lock(mutex_);
  const bool is_active =
      world_.my_line().state.load(std::memory_order_acquire) == RankState::kActive;
  if (!is_active || find_quitter()) {
    return;
  }
  const Status failure = find_failure();
  const Status& why = failure.ok() ? cause_ : failure;
  const std::vector<int>& blamed = why.detail().blamed_ranks;
  world_.my_line().fail(why.ok() ? Code::kAborted : why.code(),
                        blamed.size() == 1 ? blamed.front() : -1);
}

// Waits of kernels end by the error word, and these then say so themselves; those of streams by
// their words, as if what they waited for had come: so what is in the streams has failed from now
// on.
void DeviceWatch::abort() {
  std::uint32_t nobody = 0;
  std::atomic_ref(error_word().abort)
      .compare_exchange_strong(nobody, sm::kAbortedByHost, std::memory_order_acq_rel);
  if (context_.copy_engines() == nullptr) {
    tell_others();
    return;
  }
  context_.copy_engines()->close();
  if (context_.copy_engines()->has_calls()) {
    auto none = sm::Trouble::kNone;
    std::atomic_ref(error_word().trouble)
        .compare_exchange_strong(none, sm::Trouble::kAborted, std::memory_order_acq_rel);
  }
  tell_others();
  context_.copy_engines()->release();
}

// Of this rank's calls, what a rank that has been seen to have finalized has no part in.
std::optional<Verdict> DeviceWatch::find_missing_calls(int finalized) const {
  const std::uint64_t calls = calls_of(world_.rank());
  if (calls_of(finalized) < calls) {
    return Verdict{.code = Code::kMismatch,
                   .blamed_ranks = {finalized},
                   .evidence = fmt::format("{} finalized the communicator after {} collectives; "
                                           "this rank has called {}",
                                           world_.peers().describe(finalized),
                                           calls_of(finalized),
                                           calls)};
  }
  return message_comparison_.find_missing(finalized);
}

Status DeviceWatch::look() {
  const std::scoped_lock lock(mutex_);
  // Before anything else is looked at: who has given up may have found the same.
  const std::optional<int> quitter = find_quitter();
  SENNIT_RETURN_IF_ERROR(find_failure());
  if (finalize_by_ && Clock::now() > *finalize_by_) {
    failure_ = fail(Code::kInvalidUsage,
                    "finalize of communicator '{}' abandoned calls that had not ended",
                    name_);
    return failure_;
  }
  SENNIT_RETURN_IF_ERROR(cause_);
  auto verdict = comparison_.find_difference();
  if (!verdict) {
    verdict = message_comparison_.find_difference();
  }
  if (verdict) {
    failure_ = error_of(*verdict);
    return failure_;
  }
  const auto state_of = [&](int rank) {
    return world_.line(rank).state.load(std::memory_order_acquire);
  };
  std::vector<int> dead = world_.peers().dead();
  // What a rank has sent that ended in order is there, and what it has not sent is looked for
  // below.
  std::erase_if(dead, [&](int rank) { return state_of(rank) == RankState::kFinalized; });
  if (!dead.empty()) {
    return error_of({.code = Code::kRankFailed,
                     .blamed_ranks = dead,
                     .evidence = fmt::format("{} died", world_.peers().describe(dead.front()))});
  }
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (state_of(rank) == RankState::kFinalized) {
      if (const auto missing = find_missing_calls(rank)) {
        return error_of(*missing);
      }
    }
  }
  return quitter ? error_of(retell(*quitter)) : Status();
}

std::uint64_t DeviceWatch::calls_of(int rank) const {
  return world_.device_line(rank).collectives.entered.load(std::memory_order_acquire);
}

// Kernels wait for as long as their deadline allows, streams for ever; what cannot end is ended
// here, again and again, since calls that are still in the streams begin to wait later.
void DeviceWatch::watch(const std::stop_token& stop) {
  bool is_ending = false;
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(is_ending ? kReleaseInterval : kWatchInterval);
    Status trouble = look();
    if (!trouble.ok()) {
      {
        const std::scoped_lock lock(mutex_);
        cause_ = cause_.ok() ? std::move(trouble) : cause_;
      }
      abort();
    }
    is_ending = watch_streams();
  }
}

bool DeviceWatch::watch_streams() {
  if (context_.copy_engines() == nullptr) {
    return false;
  }
  const bool is_over = std::atomic_ref(error_word().abort).load(std::memory_order_acquire) != 0;
  const auto running = context_.copy_engines()->running();
  const bool is_late =
      running && running->deadline.count() > 0 && running->duration > running->deadline;
  if (is_late && !is_over) {
    const std::scoped_lock lock(mutex_);
    cause_ = error_of(running->peers.empty() ? explain_absence() : explain_wait(running->peers));
  }
  if (!is_over && !is_late) {
    return false;
  }
  abort();
  return context_.copy_engines()->has_calls();
}

}  // namespace sennit
