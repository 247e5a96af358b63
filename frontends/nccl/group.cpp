#include "group.hpp"

#include "companion.hpp"
#include "fallback.hpp"
#include "several_nodes.hpp"
#include "stopwatch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace sennit_nccl {
namespace {

bool is_error(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// The first that is neither success nor progress; progress before success.
ncclResult_t worse(ncclResult_t first, ncclResult_t second) {
  if (is_error(first) || second == ncclSuccess) {
    return first;
  }
  return second;
}

using Act = std::function<ncclResult_t()>;

// Of one communicator, in their order.
struct Acts {
  ncclComm_t comm = nullptr;
  std::vector<Act> acts;

  ncclResult_t run() const {
    ncclResult_t result = ncclSuccess;
    for (const Act& act : acts) {
      result = worse(result, act());
      if (is_error(result)) {
        break;
      }
    }
    return result;
  }
};

struct Group {
  int depth = 0;
  // Of the first call that was refused, and why.
  ncclResult_t refused = ncclSuccess;
  std::string why;
  std::vector<Use> held;
  std::vector<ncclComm_t> joining;
  std::vector<Acts> acts;
  std::vector<Act> after_calls;
  std::vector<ncclComm_t> ending;  // with the group
  bool is_nvidias_open = false;
};

Group& group() {
  thread_local Group open;
  return open;
}

// How the joining of one communicator ended, which it does within SENNIT_JOIN_TIMEOUT_S; of one
// that does not block, how far it is.
ncclResult_t await(ncclComm_t comm) {
  sennit_status_t state = SENNIT_IN_PROGRESS;
  while (sennit_comm_async_error(comm->comm, &state) == SENNIT_OK && state == SENNIT_IN_PROGRESS &&
         comm->blocking && !comm->aborted.load()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (state != SENNIT_OK && comm->aborted.load()) {
    return refuse(ncclInvalidUsage, "the communicator was aborted before all ranks had come");
  }
  return result_of(state);
}

// Side by side, for each may wait for another; and separate from this thread, whose group of the
// library is still open: a call that an act makes would wait there for the group's end.
ncclResult_t run_all(const std::vector<Acts>& all) {
  std::vector<ncclResult_t> results(all.size(), ncclSuccess);
  std::vector<std::string> errors(all.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < all.size(); ++i) {
      threads.emplace_back([&, i] {
        results[i] = all[i].run();
        errors[i] = results[i] == ncclSuccess ? "" : last_error();
      });
    }
  }
  ncclResult_t worst = ncclSuccess;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ncclResult_t before = std::exchange(worst, worse(worst, results[i]));
    if (worst != before) {
      refuse(worst, errors[i]);  // reported by this thread from now on
    }
  }
  return worst;
}

// Ends the library's group without its calls.
void abandon_calls() {
  sennit_barrier(nullptr, nullptr, nullptr);  // one call that fails stops all of the group
  sennit_group_end();
}

// What the group has gathered, at its end, but for the calls that the library has.
ncclResult_t run_gathered() {
  const ncclResult_t refused = std::exchange(group().refused, ncclSuccess);
  const auto acts = std::exchange(group().acts, {});
  const auto joining = std::exchange(group().joining, {});
  if (refused != ncclSuccess) {
    // What joins is not waited for: its other ranks may be what was refused.
    return refuse(refused, std::move(group().why));
  }
  ncclResult_t result = ncclSuccess;
  std::vector<Acts> decisions;
  for (ncclComm_t comm : joining) {
    const ncclResult_t joined = await(comm);
    result = worse(result, joined);
    if (is_error(result)) {
      return result;  // what else joins may need the very rank that is missing
    }
    if (joined == ncclSuccess) {
      decisions.push_back({.comm = comm, .acts = {[comm] { return decide_who_calls(comm); }}});
    }
  }
  result = worse(result, run_all(decisions));
  if (is_error(result)) {
    return result;
  }
  return worse(result, run_all(acts));
}

// Also where ours was refused: it has the calls already.
ncclResult_t end_nvidias_group() {
  if (!std::exchange(group().is_nvidias_open, false)) {
    return ncclSuccess;
  }
  return answer_of(
      "ncclGroupEnd", fallback().function<decltype(ncclGroupEnd)>("ncclGroupEnd")(), nullptr);
}

void drop_nvidias_group() {
  auto* const simulate =
      fallback().function<decltype(ncclGroupSimulateEnd)>("ncclGroupSimulateEnd");
  if (group().is_nvidias_open && simulate != nullptr) {
    simulate(nullptr);
    group().is_nvidias_open = false;
  }
  end_nvidias_group();
}

// The outermost.
ncclResult_t end_group() {
  const std::vector<Use> held = std::exchange(group().held, {});
  const std::vector<Act> after_calls = std::exchange(group().after_calls, {});
  const ncclResult_t gathered = run_gathered();
  const ncclResult_t nvidias = end_nvidias_group();
  if (is_error(gathered)) {
    abandon_calls();
    return gathered;
  }
  ncclResult_t result = worse(worse(gathered, nvidias), result_of(sennit_group_end()));
  for (const Act& act : after_calls) {
    if (is_error(result)) {
      break;
    }
    result = worse(result, act());
  }
  return result;
}

// Once nothing of the group is held.
ncclResult_t destroy_ending() {
  ncclResult_t result = ncclSuccess;
  for (ncclComm_t comm : std::exchange(group().ending, {})) {
    result = worse(result, ncclCommDestroy(comm));
  }
  return result;
}

}  // namespace

bool in_group() { return group().depth > 0; }

void hold_until_end(ncclComm_t comm) {
  const std::vector<Use>& held = group().held;
  if (in_group() && (held.empty() || held.back().comm() != comm)) {
    group().held.emplace_back(comm);
  }
}

bool destroy_at_end(ncclComm_t comm) {
  if (std::ranges::find(group().held, comm, &Use::comm) == group().held.end()) {
    return false;
  }
  group().ending.push_back(comm);
  return true;
}

void join_at_end(ncclComm_t comm) {
  hold_until_end(comm);  // it has been handed out, so that another thread may abort it
  group().joining.push_back(comm);
}

ncclResult_t of_group(ncclResult_t result) {
  if (in_group() && is_error(result) && group().refused == ncclSuccess) {
    group().refused = result;
    group().why = last_error();
  }
  return result;
}

ncclResult_t now_or_at_end(ncclComm_t comm, Act act) {
  if (!in_group()) {
    return act();
  }
  hold_until_end(comm);
  std::vector<Acts>& all = group().acts;
  auto of_comm = std::ranges::find(all, comm, &Acts::comm);
  if (of_comm == all.end()) {
    of_comm = all.insert(all.end(), Acts{.comm = comm, .acts = {}});
  }
  of_comm->acts.push_back(std::move(act));
  return ncclSuccess;
}

ncclResult_t now_or_after_calls(ncclComm_t comm, Act act) {
  if (!in_group()) {
    return act();
  }
  hold_until_end(comm);
  group().after_calls.push_back(std::move(act));
  return ncclSuccess;
}

ncclResult_t begin_nvidias_group(ncclComm_t comm) {
  hold_until_end(comm);
  if (group().is_nvidias_open) {
    return ncclSuccess;
  }
  const ncclResult_t begun = fallback().function<decltype(ncclGroupStart)>("ncclGroupStart")();
  group().is_nvidias_open = begun == ncclSuccess;
  return answer_of("ncclGroupStart", begun, comm->companion);
}

}  // namespace sennit_nccl

using namespace sennit_nccl;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

ncclResult_t ncclGroupStart(void) {
  forget_refusal();
  ++group().depth;
  return result_of(sennit_group_start());
}

ncclResult_t ncclGroupEnd(void) {
  forget_refusal();
  if (group().depth == 0) {
    return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  }
  if (--group().depth > 0) {
    return result_of(sennit_group_end());
  }
  const Stopwatch watch("ncclGroupEnd");
  const ncclResult_t result = end_group();
  watch.count(0, nullptr);
  return group().ending.empty() ? result : worse(result, destroy_ending());
}

// Ends the group without its calls: how long they would take is not known here.
ncclResult_t ncclGroupSimulateEnd(void* /*info*/) {
  if (group().depth == 0) {
    return refuse(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
  }
  group().acts.clear();
  group().after_calls.clear();
  group().joining.clear();
  abandon_calls();
  if (--group().depth == 0) {
    drop_nvidias_group();
    group().refused = ncclSuccess;
    group().held.clear();
    destroy_ending();
  }
  return of_group(refuse(ncclInvalidUsage, "ncclGroupSimulateEnd is not among what Sennit does"));
}

}  // extern "C"

SENNIT_NCCL_TWIN(ncclGroupStart);
SENNIT_NCCL_TWIN(ncclGroupEnd);
SENNIT_NCCL_TWIN(ncclGroupSimulateEnd);
