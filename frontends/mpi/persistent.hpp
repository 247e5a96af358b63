// Persistent: collectives that are made once and started many times, and what the MPI runs on
// shadows in such a way.
//
// Collectives match by the order in which they are made, and each rank may start them in another
// one. So each has an engine of its own, made in its MPI_X_init, which may synchronize, or taken
// over from one that all ranks have freed. For the program it is a persistent receive of the MPI,
// of a message that this rank sends to itself when the call has ended: the program waits for it
// with whatever else it waits for.
#pragma once

#include "abi.hpp"
#include "counted_call.hpp"
#include "functions.hpp"
#include "guard.hpp"
#include "requests.hpp"
#include "share.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sennit_mpi {

// A call with its buffers, and the engine that no other call has, or a request of the MPI.
class Startable : public Outstanding {
 public:
  // Reads what the program wants to send now. Returns the MPI's error.
  virtual int read_again() = 0;
  virtual sennit_status_t start(const sennit_call_options_t* options) = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  // Null: the MPI's.
  [[nodiscard]] virtual sennit_comm_t comm() const { return nullptr; }
};

template <class Abi>
class Persistent {
 public:
  using Request = typename Abi::Request;
  using Comm = typename Abi::Comm;
  // Raises an error of the library, or one of the MPI, and returns the code for it.
  struct Errors {
    std::function<int(sennit_status_t)> of_library;
    std::function<int(int)> of_mpi;
  };

  Persistent(const Abi& abi,
             const Functions<Abi>& functions,
             Requests<Abi>& requests,
             Comm own_comm,
             Share& share)
      : abi_(abi), functions_(functions), requests_(requests), own_comm_(own_comm), share_(share) {}

  [[nodiscard]] bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // An engine takes memory and descriptors, so there are not many.
  [[nodiscard]] bool has_room() const {
    const std::scoped_lock lock(mutex_);
    return std::ranges::count_if(entries_, [](const auto& entry) {
             return entry != nullptr && entry->call->engine != nullptr;
           }) < kMostEngines;
  }

  // A request for the call. Returns what the MPI says.
  int make(std::unique_ptr<Startable> call, Errors errors, Request* request) {
    auto entry = std::make_unique<Entry>(*this, std::move(call), std::move(errors));
    const std::scoped_lock lock(mutex_);
    auto place = std::find(entries_.begin(), entries_.end(), nullptr);
    if (place == entries_.end()) {
      if (entries_.size() == kMost) {
        return entry->errors.of_mpi(Abi::kErrOther);
      }
      entries_.emplace_back();
      place = std::prev(entries_.end());
    }
    entry->tag = static_cast<int>(place - entries_.begin()) + kFirstTag;
    const int code = functions_.mpi.recv_init(
        nullptr, 0, abi_.byte(), 0, entry->tag, own_comm_, &entry->request);
    if (code == 0) {
      *request = entry->request;
      by_request_[entry->request] = entry.get();
      *place = std::move(entry);
      ++count_;
    }
    return code;
  }
  // Starts one of these requests, or one of the MPI.
  int start(Request* request) {
    Entry* const entry = find(*request);
    return entry != nullptr ? entry->start() : functions_.start(request);
  }
  int start_all(int count, Request* requests) {
    int code = 0;
    for (int i = 0; i < count && code == 0; ++i) {
      code = start(&requests[i]);
    }
    return code;
  }
  // The program frees a request; a call that runs goes on.
  void forget(Request request) {
    const std::scoped_lock lock(mutex_);
    const auto known = by_request_.find(request);
    if (known != by_request_.end()) {
      auto& entry = entries_[static_cast<std::size_t>(known->second->tag - kFirstTag)];
      by_request_.erase(known);
      entry->is_freed = true;
      drop_if_over(entry);
    }
  }
  // True: it is one of these.
  bool cancel(Request request) {
    Entry* const entry = find(request);
    if (entry != nullptr && entry->is_active) {
      entry->call->cancel();
    }
    return entry != nullptr;
  }
  // A wait for the request has returned: `status`, unless it is to be ignored, becomes that of the
  // message, if it is one that has ended since.
  void give_status(Request request, void* status) {
    if (Entry* const entry = find(request)) {
      if (entry->has_status.exchange(false)) {
        entry->call->has_status(status);
      }
    }
  }
  // The same, and the program will wait for it yet.
  void show_status(Request request, void* status) {
    if (Entry* const entry = find(request)) {
      if (entry->has_status) {
        entry->call->has_status(status);
      }
    }
  }
  // Before MPI_Finalize: engines of requests that were not freed end.
  void finish() {
    const std::scoped_lock lock(mutex_);
    for (auto& entry : entries_) {
      if (entry != nullptr) {
        entry->is_freed = true;
        drop_if_over(entry);
      }
    }
  }

 private:
  static constexpr std::ptrdiff_t kMostEngines = 64;
  static constexpr int kFirstTag = 1;          // 0 is the packer's
  static constexpr std::size_t kMost = 32767;  // tags that every MPI has

  struct Entry final : Watched {
    Entry(Persistent& its_owner, std::unique_ptr<Startable> its_call, Errors its_errors)
        : owner(its_owner), call(std::move(its_call)), errors(std::move(its_errors)) {}

    int start() {
      const CountedCall counted("MPI_Start");
      if (const int code = call->read_again(); code != 0) {
        return errors.of_mpi(code);
      }
      if (const int code = owner.functions_.start(&request); code != 0) {
        return code;
      }
      is_active = true;
      has_status = false;
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.work = &call->work;
      const sennit_status_t status = call->start(&options);
      if (call->work != nullptr) {
        owner.share_.take(1, call->bytes());
        CountedCall::take(call->bytes(), call->comm());
      }
      if (status != SENNIT_OK) {
        const int code = errors.of_library(status);
        is_active = false;
        owner.complete(tag, code);
        return code;
      }
      owner.requests_.watch(this);
      return 0;
    }
    [[nodiscard]] sennit_work_t work() const override { return call->work; }
    [[nodiscard]] bool has_ended_in_mpi() override { return call->has_ended_in_mpi(); }
    void ended() override {
      sennit_status_t status = SENNIT_OK;
      if (call->work != nullptr) {
        status = sennit_work_wait(call->work, -1);
        sennit_work_destroy(std::exchange(call->work, nullptr));
      }
      const int code = guarded(
          [&] {
            if (status != SENNIT_OK) {
              return errors.of_library(status);
            }
            const int of_mpi = call->finish();
            return of_mpi == 0 ? 0 : errors.of_mpi(of_mpi);
          },
          [](const char* /*what*/) { return Abi::kErrOther; });
      Persistent& its_owner = owner;
      const int its_tag = tag;
      has_status = true;
      {
        const std::scoped_lock lock(its_owner.mutex_);
        is_active = false;
        its_owner.drop_if_over(its_owner.entries_[static_cast<std::size_t>(its_tag - kFirstTag)]);
      }
      // From now on the program may start or free it.
      its_owner.complete(its_tag, code);
    }

    Persistent& owner;
    std::unique_ptr<Startable> call;
    Errors errors;
    Request request{};
    int tag = 0;
    std::atomic<bool> is_active{false};
    std::atomic<bool> has_status{false};  // of a message, which no wait has returned yet
    bool is_freed = false;
  };

  Entry* find(Request request) {
    const std::scoped_lock lock(mutex_);
    const auto known = by_request_.find(request);
    return known != by_request_.end() ? known->second : nullptr;
  }
  void drop_if_over(std::unique_ptr<Entry>& entry) {
    if (entry->is_freed && !entry->is_active) {
      entry.reset();
      --count_;
    }
  }
  // The message that ends a request. With an error it does not fit, so that the wait fails as well.
  void complete(int tag, int code) const {
    const char data = 0;
    functions_.mpi.send(&data, code == 0 ? 0 : 1, abi_.byte(), 0, tag, own_comm_);
  }

  const Abi& abi_;
  const Functions<Abi>& functions_;
  Requests<Abi>& requests_;
  Comm own_comm_;
  Share& share_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by tag
  std::unordered_map<Request, Entry*> by_request_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace sennit_mpi
