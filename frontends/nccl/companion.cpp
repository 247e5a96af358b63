#include "companion.hpp"

#include "fallback.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace sennit_nccl {
namespace {

// What each rank announces before any of them starts.
struct Offer {
  int version = 0;             // 0: it has no NCCL
  bool keeps_windows = false;  // it named the library, so that memory and windows are NCCL's
  ncclUniqueId id{};           // of rank 0
};

// The same ranks in host memory, on which a few bytes pass that no GPU has to see.
class HostRanks {
 public:
  ~HostRanks() { sennit_comm_destroy(comm_); }
  HostRanks() = default;
  HostRanks(const HostRanks&) = delete;
  HostRanks& operator=(const HostRanks&) = delete;

  sennit_status_t join(ncclComm_t like) {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.name = "companion";
    config.device = "host";
    config.paths = "shm,cma";  // not those of `like`, which may join GPUs alone
    sennit_comm_rank(like->comm, &rank_);
    sennit_comm_size(like->comm, &size_);
    return sennit_comm_split(like->comm, 0, rank_, &comm_, &config);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  template <typename Value>
  sennit_status_t gather(const Value& mine, std::vector<Value>& all) {
    all.resize(static_cast<std::size_t>(size_));
    return sennit_all_gather(
        &mine, all.data(), sizeof(Value), SENNIT_UINT8, comm_, nullptr, nullptr);
  }

 private:
  sennit_comm_t comm_ = nullptr;
  int rank_ = -1;
  int size_ = 0;
};

Offer my_offer(int rank, bool has_nccl) {
  Offer offer;
  if (!has_nccl) {
    return offer;
  }
  offer.version = fallback().version;
  offer.keeps_windows = is_fallback_named();
  if (rank == 0 && fallback().handle != nullptr) {
    auto* const get_id = fallback().function<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
    if (get_id == nullptr || get_id(&offer.id) != ncclSuccess) {
      offer.version = 0;
    }
  }
  return offer;
}

// Why what the ranks have does not make a communicator; the same on all ranks, but for a rank's own
// reason.
std::string objection(const std::vector<Offer>& all, bool has_nccl) {
  if (!has_nccl) {
    return std::string(why_not_named());
  }
  if (!fallback().why_not.empty()) {
    return fallback().path + (fallback().path.empty() ? "" : ": ") + fallback().why_not;
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const int version = all[rank].version;
    if (version == 0) {
      return "rank " + std::to_string(rank) + " has no NCCL to pass it on to";
    }
    if (version != fallback().version) {
      return "rank " + std::to_string(rank) + " has NCCL " + version_text(version) + ", not " +
             version_text(fallback().version);
    }
  }
  return {};
}

// Ends a communicator of NCCL's. No call of the program can answer what it says.
void end_theirs(ncclComm_t comm, ncclComm_t theirs, const char* name) {
  const ncclResult_t ended =
      on_device(comm, [&] { return fallback().function<decltype(ncclCommDestroy)>(name)(theirs); });
  if (ended != ncclSuccess) {
    const std::string line =
        std::string(name) + " of a companion answered " + std::to_string(ended);
    sennit_tool_log("nccl", line.c_str());
  }
}

// Joins NCCL's ranks; if one fails, none has a companion. If it fails before NCCL's ranks have met,
// the others wait in there for as long as NCCL does.
sennit_status_t join_nccl(ncclComm_t comm, HostRanks& ranks, const ncclUniqueId& id) {
  ncclComm_t made = nullptr;
  const ncclResult_t joined = on_device(comm, [&] {
    auto* const init = fallback().function<decltype(ncclCommInitRank)>("ncclCommInitRank");
    return init != nullptr ? init(&made, ranks.size(), id, ranks.rank()) : ncclInternalError;
  });
  std::vector<int> results;
  const sennit_status_t status = ranks.gather(static_cast<int>(joined), results);
  const auto failed =
      std::ranges::find_if(results, [](int result) { return result != ncclSuccess; });
  if (status != SENNIT_OK) {
    comm->why_no_companion =
        std::string("the ranks could not exchange how they joined NCCL's: ") + last_error();
  } else if (failed != results.end()) {
    comm->why_no_companion = "NCCL's rank " + std::to_string(failed - results.begin()) +
                             " answered " + std::to_string(*failed) + " to ncclCommInitRank";
  }
  if (comm->why_no_companion.empty()) {
    comm->companion = made;
  } else if (joined == ncclSuccess) {
    end_theirs(comm, made, "ncclCommAbort");
  }
  return status;
}

// Our registration of each window that NCCL made, and whose companion it is a window of.
struct Window {
  ncclComm_t comm = nullptr;
  void* registration = nullptr;
};
std::mutex windows_mutex;
std::map<ncclWindow_t, Window>& windows() {
  static auto* const all = new std::map<ncclWindow_t, Window>;
  return *all;
}

ncclResult_t end_nvidias_window(ncclComm_t comm, ncclWindow_t window) {
  const ncclResult_t ended = on_device(comm, [&] {
    return fallback().function<decltype(ncclCommWindowDeregister)>("ncclCommWindowDeregister")(
        comm->companion, window);
  });
  return answer_of("ncclCommWindowDeregister", ended, comm->companion);
}

ncclResult_t register_here(
    ncclComm_t comm, void* buffer, std::size_t bytes, int flags, void** registration) {
  const bool is_symmetric = (flags & SENNIT_NCCL_WIN_COLL_SYMMETRIC) != 0;
  return result_of(is_symmetric
                       ? sennit_comm_register_symmetric(comm->comm, buffer, bytes, registration)
                       : sennit_comm_register(comm->comm, buffer, bytes, registration));
}

// Takes the library's registration along, for collectives on the window's memory.
ncclResult_t make_nvidias_window(
    ncclComm_t comm, void* buffer, std::size_t bytes, ncclWindow_t* window, int flags) {
  ncclWindow_t theirs = nullptr;
  const ncclResult_t made = on_device(comm, [&] {
    return fallback().function<decltype(ncclCommWindowRegister)>("ncclCommWindowRegister")(
        comm->companion, buffer, bytes, &theirs, flags);
  });
  if (made != ncclSuccess) {
    return answer_of("ncclCommWindowRegister", made, comm->companion);
  }
  void* registration = nullptr;
  const ncclResult_t registered = register_here(comm, buffer, bytes, flags, &registration);
  if (registered != ncclSuccess) {
    end_nvidias_window(comm, theirs);
    return registered;
  }
  const std::scoped_lock lock(windows_mutex);
  windows()[theirs] = {comm, registration};
  *window = theirs;
  return ncclSuccess;
}

// What a rank has found out about a companion.
void tell_of_companion(ncclComm_t comm) {
  const std::string keeps = comm->nvidia_keeps_windows ? "windows and " : "";
  const std::string what = comm->companion != nullptr
                               ? "NCCL " + version_text(fallback().version) + " (" +
                                     fallback().path + ") keeps the " + keeps +
                                     "device communicators of a communicator"
                               : "windows are hints on a communicator: " + comm->why_no_companion;
  sennit_tool_log("nccl", what.c_str());
}

}  // namespace

void say_what_is_ours() {
  static std::once_flag said;
  std::call_once(said, [] {
    if (std::getenv("SENNIT_DEBUG") == nullptr) {
      return;  // finding the library reads the search paths of all that is loaded
    }
    std::string rest;
    for (const std::string& file : fallback_files()) {
      rest += (rest.empty() ? "would be passed on to the NCCL in " : " or ") + file;
    }
    rest = rest.empty() ? "refused: " + open_fallback({}).why_not : rest;
    sennit_tool_log(
        "nccl",
        ("communicators, collectives, sends, receives and operators are Sennit's; what "
         "kernels of a program's own need (windows, device communicators, signals) is " +
         rest)
            .c_str());
  });
}

ncclResult_t answer_of(const char* name, ncclResult_t result, ncclComm_t theirs) {
  if (result == ncclSuccess || result == ncclInProgress) {
    return result;
  }
  auto* const words = fallback().function<decltype(ncclGetLastError)>("ncclGetLastError");
  const char* const said = words != nullptr ? words(theirs) : nullptr;
  return refuse(result,
                std::string(name) + " was passed on to NCCL " + version_text(fallback().version) +
                    " (" + fallback().path + "), which answered " + std::to_string(result) + ": " +
                    (said != nullptr ? said : ""));
}

ncclResult_t seek_companion(ncclComm_t comm, bool has_nccl) {
  if (comm->companion_sought) {
    return ncclSuccess;
  }
  HostRanks ranks;
  std::vector<Offer> all;
  sennit_status_t status = ranks.join(comm);
  status = status == SENNIT_OK ? ranks.gather(my_offer(ranks.rank(), has_nccl), all) : status;
  if (status == SENNIT_OK) {
    comm->why_no_companion = objection(all, has_nccl);
    comm->nvidia_keeps_windows = std::ranges::all_of(all, &Offer::keeps_windows);
    // If two ranks differ, each differs from one: all object, or none.
    status = comm->why_no_companion.empty() ? join_nccl(comm, ranks, all.front().id) : status;
  } else {
    comm->why_no_companion =
        std::string("the ranks could not exchange which NCCL they have: ") + last_error();
  }
  comm->companion_sought = has_nccl && status == SENNIT_OK;
  tell_of_companion(comm);
  return result_of(status);
}

ncclResult_t seek_companion_for_kernels(ncclComm_t comm) {
  if (comm->companion != nullptr || comm->has_had_windows) {
    return ncclSuccess;
  }
  return seek_companion(comm, true);
}

void end_companion(ncclComm_t comm, bool abort) {
  if (comm->companion == nullptr) {
    return;
  }
  {
    const std::scoped_lock lock(windows_mutex);
    std::erase_if(windows(), [&](const auto& entry) { return entry.second.comm == comm; });
  }
  end_theirs(comm, comm->companion, abort ? "ncclCommAbort" : "ncclCommDestroy");
  comm->companion = nullptr;
}

ncclResult_t make_window(
    ncclComm_t comm, void* buffer, std::size_t bytes, ncclWindow_t* window, int flags) {
  if (comm->companion == nullptr && !comm->has_had_windows) {
    const ncclResult_t sought = seek_companion(comm, is_fallback_named());
    if (sought != ncclSuccess) {
      return sought;
    }
  }
  const bool is_first = !std::exchange(comm->has_had_windows, true);
  if (comm->companion != nullptr && comm->nvidia_keeps_windows) {
    return make_nvidias_window(comm, buffer, bytes, window, flags);
  }
  if (comm->companion != nullptr && is_first) {
    sennit_tool_warn("nccl",
                     "windows are hints, which the kernels of this communicator's device "
                     "communicators cannot use: SENNIT_NCCL_FALLBACK_LIB is not set on all ranks");
  }
  void* registration = nullptr;
  const ncclResult_t registered = register_here(comm, buffer, bytes, flags, &registration);
  *window = static_cast<ncclWindow_t>(registration);
  return registered;
}

ncclResult_t end_window(ncclComm_t comm, ncclWindow_t window) {
  std::unique_lock lock(windows_mutex);
  const auto found = windows().find(window);
  if (found == windows().end()) {
    return result_of(sennit_comm_deregister(comm->comm, window));
  }
  if (found->second.comm != comm) {
    return refuse(ncclInvalidArgument, "the window is one of another communicator");
  }
  // Out of the table before NCCL ends it and may give its address to a window of another thread.
  auto taken = windows().extract(found);
  lock.unlock();
  if (const ncclResult_t ended = end_nvidias_window(comm, window); ended != ncclSuccess) {
    lock.lock();
    windows().insert(std::move(taken));
    return ended;
  }
  return result_of(sennit_comm_deregister(comm->comm, taken.mapped().registration));
}

bool is_nvidias(ncclWindow_t window) {
  const std::scoped_lock lock(windows_mutex);
  return windows().contains(window);
}

}  // namespace sennit_nccl
