#include "companion.hpp"

#include "fallback.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace sennit_nccl {
namespace {

// What each rank tells the others before any of them starts.
struct Offer {
  int version = 0;    // 0: it has no NCCL
  ncclUniqueId id{};  // of rank 0
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

Offer my_offer(int rank, bool offers) {
  Offer offer;
  if (!offers) {
    return offer;
  }
  offer.version = fallback().version;
  if (rank == 0 && fallback().handle != nullptr) {
    auto* const get_id = fallback().function<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
    if (get_id == nullptr || get_id(&offer.id) != ncclSuccess) {
      offer.version = 0;
    }
  }
  return offer;
}

// Why these offers do not make a communicator; the same on all ranks, but for a rank's own reason.
std::string objection(const std::vector<Offer>& all, bool offers) {
  if (!offers) {
    return std::string(why_not_named());
  }
  if (!fallback().why_not.empty()) {
    return fallback().path + (fallback().path.empty() ? "" : ": ") + fallback().why_not;
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const int version = all[rank].version;
    if (version == 0) {
      return "rank " + std::to_string(rank) + " offers no NCCL to pass it on to";
    }
    if (version != fallback().version) {
      return "rank " + std::to_string(rank) + " has NCCL " + version_text(version) + ", not " +
             version_text(fallback().version);
    }
  }
  return {};
}

// Joins NCCL's ranks; if one fails, none has a companion.
sennit_status_t join_nccl(ncclComm_t comm, HostRanks& ranks, const ncclUniqueId& id) {
  ncclComm_t made = nullptr;
  const ncclResult_t joined = on_device(comm, [&] {
    auto* const init = fallback().function<decltype(ncclCommInitRank)>("ncclCommInitRank");
    return init != nullptr ? init(&made, ranks.size(), id, ranks.rank()) : ncclInternalError;
  });
  std::vector<int> results;
  const sennit_status_t told = ranks.gather(static_cast<int>(joined), results);
  for (std::size_t rank = 0; rank < results.size() && comm->why_no_companion.empty(); ++rank) {
    if (told == SENNIT_OK && results[rank] != ncclSuccess) {
      comm->why_no_companion = "NCCL's rank " + std::to_string(rank) + " answered " +
                               std::to_string(results[rank]) + " to ncclCommInitRank";
    }
  }
  if (told == SENNIT_OK && comm->why_no_companion.empty()) {
    comm->companion = made;
  } else if (joined == ncclSuccess) {
    fallback().function<decltype(ncclCommAbort)>("ncclCommAbort")(made);
  }
  return told;
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

}  // namespace

void say_what_is_ours() {
  static std::once_flag said;
  std::call_once(said, [] {
    if (std::getenv("SENNIT_DEBUG") == nullptr) {
      return;  // finding the library reads the search paths of all that is loaded
    }
    const std::string path = fallback_path();
    const std::string rest = path.empty() || path == "none"
                                 ? "refused: " + open_fallback(path).why_not
                                 : "passed on to the NCCL in " + path;
    sennit_tool_log(
        "nccl",
        ("communicators, collectives, sends, receives and operators are Sennit's; what "
         "kernels of a program's own need (windows, device communicators, signals) is " +
         rest)
            .c_str());
  });
}

void say_what_ran(ncclComm_t comm) {
  const std::string line = "a communicator ends: " + std::to_string(comm->calls) + " calls of " +
                           std::to_string(comm->bytes) + " bytes ran on Sennit, " +
                           std::to_string(comm->passed_on) + " were passed on";
  sennit_tool_log("nccl", line.c_str());
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

ncclResult_t seek_companion(ncclComm_t comm, bool offers) {
  if (comm->companion_sought) {
    return ncclSuccess;
  }
  HostRanks ranks;
  std::vector<Offer> all;
  sennit_status_t status = ranks.join(comm);
  status = status == SENNIT_OK ? ranks.gather(my_offer(ranks.rank(), offers), all) : status;
  if (status == SENNIT_OK) {
    comm->why_no_companion = objection(all, offers);
    // If two ranks differ, each differs from one: all object, or none.
    status = comm->why_no_companion.empty() ? join_nccl(comm, ranks, all.front().id) : status;
  }
  comm->companion_sought = offers && status == SENNIT_OK;
  const std::string what =
      comm->companion != nullptr
          ? "NCCL " + version_text(fallback().version) + " (" + fallback().path +
                ") keeps the windows and device communicators of a communicator"
          : "windows are hints on a communicator: " + comm->why_no_companion;
  sennit_tool_log("nccl", what.c_str());
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
  on_device(comm, [&] {
    const char* const name = abort ? "ncclCommAbort" : "ncclCommDestroy";
    return fallback().function<decltype(ncclCommDestroy)>(name)(comm->companion);
  });
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
  comm->has_had_windows = true;
  ncclWindow_t theirs = nullptr;
  if (comm->companion != nullptr) {
    const ncclResult_t made = on_device(comm, [&] {
      return fallback().function<decltype(ncclCommWindowRegister)>("ncclCommWindowRegister")(
          comm->companion, buffer, bytes, &theirs, flags);
    });
    if (made != ncclSuccess) {
      return answer_of("ncclCommWindowRegister", made, comm->companion);
    }
  }
  void* registration = nullptr;
  const ncclResult_t registered =
      result_of(sennit_comm_register(comm->comm, buffer, bytes, &registration));
  *window = theirs != nullptr ? theirs : static_cast<ncclWindow_t>(registration);
  if (theirs != nullptr) {
    const std::scoped_lock lock(windows_mutex);
    windows()[theirs] = {comm, registration};
  }
  return registered;
}

ncclResult_t end_window(ncclComm_t comm, ncclWindow_t window) {
  void* registration = window;
  if (is_nvidias(window)) {
    {
      const std::scoped_lock lock(windows_mutex);
      registration = windows().at(window).registration;
      windows().erase(window);
    }
    const ncclResult_t ended = on_device(comm, [&] {
      return fallback().function<decltype(ncclCommWindowDeregister)>("ncclCommWindowDeregister")(
          comm->companion, window);
    });
    if (ended != ncclSuccess) {
      return answer_of("ncclCommWindowDeregister", ended, comm->companion);
    }
  }
  return result_of(sennit_comm_deregister(comm->comm, registration));
}

bool is_nvidias(ncclWindow_t window) {
  const std::scoped_lock lock(windows_mutex);
  return windows().contains(window);
}

}  // namespace sennit_nccl
