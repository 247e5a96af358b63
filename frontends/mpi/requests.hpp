// Requests: nonblocking calls that have not ended.
//
// For the program each is a generalized request of the MPI, so that it waits for it with whatever
// else it waits for. The MPI's own progress advances them: it calls back wherever it waits, also in
// MPI_Recv, for which others may have to see their calls of the library end.
#pragma once

#include "abi.hpp"
#include "engine.hpp"
#include "functions.hpp"
#include "guard.hpp"
#include "library.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sennit_mpi {

// A call that runs, with its buffers: on the library, whose work it has, or in the MPI.
class Outstanding {
 public:
  virtual ~Outstanding() = default;
  Outstanding() = default;
  Outstanding(const Outstanding&) = delete;
  Outstanding& operator=(const Outstanding&) = delete;

  // Of one in the MPI, by the MPI's own progress.
  [[nodiscard]] virtual bool has_ended_in_mpi() { return false; }
  // What the program gets as its status; true: that. False: an empty one.
  [[nodiscard]] virtual bool has_status(void* /*status*/) const { return false; }
  virtual void cancel() {}
  // It has ended well, or in the MPI in any way: what was received goes where the program wants it.
  // Returns the MPI's error.
  virtual int finish() = 0;

  sennit_work_t work = nullptr;
  SharedEngine engine;
};

// What the MPI's progress advances, until its work has ended.
class Watched {
 public:
  virtual ~Watched() = default;
  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  [[nodiscard]] virtual sennit_work_t work() const = 0;
  // Without a work: whether it has ended in the MPI.
  [[nodiscard]] virtual bool has_ended_in_mpi() { return false; }
  // The program frees the request at `handle`; true: it is the one of this, which goes on.
  virtual bool abandon(const void* /*handle*/) { return false; }
  // It has ended. When this returns the program may have freed it.
  virtual void ended() = 0;
};

template <class Abi>
class Requests {
 public:
  using Request = typename Abi::Request;

  // After MPI_Init: Open MPI forgets what was registered earlier.
  Requests(const Abi& abi, const Library& library, const Functions<Abi>& functions)
      : abi_(abi),
        functions_(functions),
        in_openmpi_(
            reinterpret_cast<RegisterInOpenMpi>(library.function("opal_progress_register"))),
        out_of_openmpi_(
            reinterpret_cast<RegisterInOpenMpi>(library.function("opal_progress_unregister"))),
        in_mpich_(reinterpret_cast<StartInMpich>(library.function("PMPIX_Async_start"))),
        is_complete_in_mpich_(
            reinterpret_cast<IsCompleteInMpich>(library.function("MPIX_Request_is_complete"))) {
    only = this;
    if (in_openmpi_ != nullptr) {
      in_openmpi_(&called_by_openmpi);
    }
  }

  // Whether the MPI calls back; all ranks have the same MPI.
  [[nodiscard]] bool can_run() const { return in_openmpi_ != nullptr || in_mpich_ != nullptr; }

  // Whether a request of the MPI itself has ended. For the MPI's callbacks, from which MPICH does
  // not want to be called for progress.
  [[nodiscard]] bool has_ended(Request request) const {
    if (is_complete_in_mpich_ != nullptr) {
      return is_complete_in_mpich_(request) != 0;
    }
    int flag = 0;
    functions_.request_get_status(request, &flag, Abi::status_ignore());
    return flag != 0;
  }

  // A call that has begun; `report` reports its failure and gives the code for it. Returns what the
  // MPI says.
  int start(std::unique_ptr<Outstanding> call,
            const std::function<int(sennit_status_t)>& report,
            Request* request) {
    auto* const entry = new Entry(*this, std::move(call), report);
    const int code = functions_.mpi.grequest_start(&queried, &released, &cancelled, entry, request);
    if (code != 0) {
      wait_for(*entry);
      released(entry);
      return code;
    }
    entry->request = *request;
    watch(entry);
    return 0;
  }

  // The program frees the request of a call that still runs in the MPI, as it may with a message:
  // true, and the call goes on.
  bool forget(Request request) {
    if (count_.load(std::memory_order_relaxed) == 0) {
      return false;
    }
    const std::scoped_lock lock(mutex_);
    return std::ranges::any_of(in_mpi_, [&](Watched* entry) {
      return entry->abandon(static_cast<const void*>(&request));
    });
  }

  // From now on the MPI's progress advances it.
  void watch(Watched* entry) {
    bool has_to_register = false;
    {
      const std::scoped_lock lock(mutex_);
      has_to_register = in_mpich_ != nullptr && !is_registered_;
      is_registered_ = is_registered_ || has_to_register;
      (entry->work() != nullptr ? entries_ : in_mpi_).push_back(entry);
      ++count_;
    }
    if (has_to_register) {
      in_mpich_(&called_by_mpich, nullptr, kMpichStreamNull);
    }
    advance();
  }

  // Lets all calls go on, and completes the requests of those that have ended. Does nothing while
  // it runs already: what it calls may come here again. True when a request was completed.
  bool advance() {
    if (count_.load(std::memory_order_relaxed) == 0 ||
        is_advancing_.exchange(true, std::memory_order_acquire)) {
      return false;
    }
    std::vector<Watched*> ended;
    const int thrown = guarded_callback([&] { ended = take_ended(); });
    for (Watched* const entry : ended) {
      entry->ended();
    }
    is_advancing_.store(false, std::memory_order_release);
    return thrown == 0 && !ended.empty();
  }

  // Before MPI_Finalize, after which nobody calls back. MPICH waits there for callbacks that go on,
  // which those of requests that the program has given up would do for ever.
  void finish() {
    if (in_openmpi_ != nullptr && out_of_openmpi_ != nullptr) {
      out_of_openmpi_(&called_by_openmpi);
    }
    const std::scoped_lock lock(mutex_);
    is_finished_ = true;
  }

 private:
  struct Entry final : Watched {
    Entry(Requests& its_requests,
          std::unique_ptr<Outstanding> its_call,
          std::function<int(sennit_status_t)> its_report)
        : requests(its_requests), call(std::move(its_call)), report(std::move(its_report)) {}

    [[nodiscard]] sennit_work_t work() const override { return call->work; }
    [[nodiscard]] bool has_ended_in_mpi() override { return call->has_ended_in_mpi(); }
    bool abandon(const void* handle) override {
      const bool is_this = *static_cast<const Request*>(handle) == request;
      is_abandoned = is_abandoned || is_this;
      return is_this;
    }
    void ended() override {
      // Not used any more once it is complete: the program may free it at once on another thread.
      Request own = request;
      const bool is_for_us = is_abandoned;
      const auto& functions = requests.functions_;
      functions.mpi.grequest_complete(own);
      if (is_for_us) {
        functions.request_free(&own);
      }
    }

    Requests& requests;
    std::unique_ptr<Outstanding> call;
    std::function<int(sennit_status_t)> report;
    Request request{};
    bool is_abandoned = false;
    bool is_finished = false;
    int code = 0;
  };
  using ProgressOfOpenMpi = int (*)();
  using RegisterInOpenMpi = int (*)(ProgressOfOpenMpi);
  using ProgressOfMpich = int (*)(void* thing);
  using StartInMpich = int (*)(ProgressOfMpich, void* state, int stream);
  using IsCompleteInMpich = int (*)(Request);
  static constexpr int kMpichHasNoProgress = 0;
  static constexpr int kMpichIsDone = 1;

  // Neither MPI's callback says whose it is; there is one of these in a process.
  static inline Requests* only = nullptr;
  static int called_by_openmpi() { return only->advance() ? 1 : 0; }
  static int called_by_mpich(void* /*thing*/) {
    only->advance();
    const std::scoped_lock lock(only->mutex_);
    if (only->count_ > 0 && !only->is_finished_) {
      return kMpichHasNoProgress;
    }
    only->is_registered_ = false;
    return kMpichIsDone;
  }

  // The calls that have ended, which are none of the outstanding ones any more.
  std::vector<Watched*> take_ended() {
    // Not under the lock: Open MPI makes progress when it is asked.
    std::vector<Watched*> in_mpi;
    {
      const std::scoped_lock lock(mutex_);
      in_mpi = in_mpi_;
    }
    std::erase_if(in_mpi, [](Watched* entry) { return !entry->has_ended_in_mpi(); });
    const std::scoped_lock lock(mutex_);
    std::erase_if(in_mpi_, [&](Watched* entry) { return std::ranges::count(in_mpi, entry) > 0; });
    const std::size_t count = entries_.size();
    std::vector<Watched*> ended = std::move(in_mpi);
    ended.reserve(ended.size() + count);
    works_.resize(count);
    are_done_.resize(count);
    std::ranges::transform(
        entries_, works_.begin(), [](const Watched* entry) { return entry->work(); });
    if (sennit_works_test(works_.data(), count, are_done_.data()) != SENNIT_OK) {
      // Whoever waits for one gets the reason.
      std::ranges::fill(are_done_, 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (are_done_[i] != 0) {
        ended.push_back(entries_[i]);
        entries_[i] = nullptr;
      }
    }
    std::erase(entries_, nullptr);
    count_ = entries_.size() + in_mpi_.size();
    return ended;
  }

  static sennit_status_t wait_for(const Entry& entry) {
    return entry.call->work != nullptr ? sennit_work_wait(entry.call->work, -1) : SENNIT_OK;
  }
  // By the thread that waits, once the request is complete.
  static int queried(void* extra, void* status) {
    auto* const entry = static_cast<Entry*>(extra);
    const auto& mpi = entry->requests.functions_.mpi;
    if (!entry->is_finished) {
      entry->is_finished = true;
      const sennit_status_t ended = wait_for(*entry);
      entry->code =
          guarded([&] { return ended == SENNIT_OK ? entry->call->finish() : entry->report(ended); },
                  [](const char* /*what*/) { return Abi::kErrOther; });
    }
    if (!entry->call->has_status(status)) {
      mpi.status_set_elements(status, entry->requests.abi_.byte(), 0);
      mpi.status_set_cancelled(status, 0);
    }
    return entry->code;
  }
  static int released(void* extra) {
    const std::unique_ptr<Entry> entry(static_cast<Entry*>(extra));
    if (entry->call->work == nullptr && !entry->is_finished) {
      guarded_callback([&] { entry->call->finish(); });  // nobody asked how it ended
    }
    sennit_work_destroy(entry->call->work);
    return 0;
  }
  static int cancelled(void* extra, int is_complete) {
    if (is_complete == 0) {
      static_cast<Entry*>(extra)->call->cancel();
    }
    return 0;
  }

  const Abi& abi_;
  const Functions<Abi>& functions_;
  RegisterInOpenMpi in_openmpi_;
  RegisterInOpenMpi out_of_openmpi_;
  StartInMpich in_mpich_;
  IsCompleteInMpich is_complete_in_mpich_;
  std::mutex mutex_;
  std::vector<Watched*> entries_;  // with a work
  std::vector<Watched*> in_mpi_;   // without
  // Of take_ended().
  std::vector<sennit_work_t> works_;
  std::vector<int> are_done_;
  bool is_registered_ =
      false;  // with MPICH, which calls back until it is answered that there is no more
  bool is_finished_ = false;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> is_advancing_{false};
};

}  // namespace sennit_mpi
