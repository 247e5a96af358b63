// Front: the front end for one ABI. One a process, made at the first call and never freed.
#pragma once

#include "abi.hpp"
#include "buffers.hpp"
#include "call_in_mpi.hpp"
#include "communicators.hpp"
#include "cuda.hpp"
#include "datatypes.hpp"
#include "functions.hpp"
#include "guard.hpp"
#include "library.hpp"
#include "own_comm.hpp"
#include "persistent.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "settings.hpp"
#include "shadows.hpp"
#include "share.hpp"
#include "type_rows.hpp"

#include "sennit/sennit.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sennit_mpi {

// Who handles the errors of a call: the handler of a communicator, a window or a file.
template <class Handle>
struct Errors {
  int (*call_handler)(Handle handle, int code);
  Handle handle;

  int operator()(int code) const {
    if (call_handler != nullptr) {
      call_handler(handle, code);
    }
    return code;
  }
};

template <class Abi>
class Front {
 public:
  // What needs an initialized MPI.
  struct Running {
    Running(const Front& front, Share& share)
        : own_comm(front.abi, front.functions),
          packer(front.functions, front.abi.byte(), own_comm.get()),
          datatypes(front.abi, front.library, front.functions),
          progress(front.library, front.functions, front.abi.world()),
          requests(front.abi, front.library, front.functions),
          persistent(front.abi, front.functions, requests, own_comm.get(), share),
          type_rows(front.functions),
          communicators(front.abi, front.functions, front.settings, progress, share) {}

    OwnComm<Abi> own_comm;
    Packer<Abi> packer;
    Datatypes<Abi> datatypes;
    Progress<Abi> progress;
    Requests<Abi> requests;
    Persistent<Abi> persistent;
    TypeRows<Abi> type_rows;
    Communicators<Abi> communicators;
  };

  Front(Library found, Settings given)
      : library(found), abi(library), functions(library), settings(given) {}

  // Null before MPI_Init and after MPI_Finalize, where a program has sessions alone, and where it
  // is not wanted.
  Running* running() {
    Running* const made = running_.load(std::memory_order_acquire);
    return made != nullptr ? made : start();
  }

  // The member on whose engine a collective runs; null, and counted: it is passed on.
  Member<Abi>* taking(typename Abi::Comm comm, Call call, bool is_blocking) {
    Running* const behind = running();
    if (behind == nullptr) {
      share.pass(settings.is_off ? "SENNIT_MPI=off" : "outside of MPI_Init and MPI_Finalize");
      return nullptr;
    }
    if (!is_blocking && !behind->requests.can_run()) {
      share.pass("a nonblocking call, and the MPI calls nobody back");
      return nullptr;
    }
    return behind->communicators.taking(comm, call, is_blocking);
  }

  // As taking(), for a persistent one: it may wait, but runs like a nonblocking one.
  Member<Abi>* taking_persistent(typename Abi::Comm comm, Call call) {
    Running* const behind = running();
    if (behind != nullptr && !behind->requests.can_run()) {
      share.pass("a persistent call, and the MPI calls nobody back");
      return nullptr;
    }
    return taking(comm, call, true);
  }

  // Runs a call that was taken, and returns what the MPI returns for it.
  template <class Call>
  int run(Member<Abi>& member, Call& call) {
    if (const Trouble trouble = call.trouble()) {
      return report(member, trouble);
    }
    const sennit_status_t status = call.start({member.engine}, nullptr);
    count(member, call.bytes(), member.engine);
    const int code = status == SENNIT_OK ? call.finish() : 0;
    // Programs expect the MPI to move whatever they call; a call that did not have to wait for
    // others has not let it. A barrier may be all that they call, other calls come in numbers.
    if (call.bytes() == 0 || member.calls % kCallsAPoke == 0) {
      running_.load(std::memory_order_relaxed)->progress.poke();
    }
    if (status != SENNIT_OK) {
      return report(member.handle, status);
    }
    return code == 0 ? 0 : raise(member.handle, code);
  }

  // Whether a call runs on the GPUs of all ranks; this rank has its buffers on `gpu`, -1: not so.
  bool can_run_on_gpus(Member<Abi>& member, int gpu) {
    return running_.load(std::memory_order_relaxed)->communicators.can_run_on_gpus(member, gpu);
  }
  // Runs a call that does.
  template <class Call>
  int run_on_gpus(const Cuda& cuda, Member<Abi>& member, Call& call) {
    if (const Trouble trouble = call.trouble()) {
      return report(member, trouble);
    }
    const Cuda::Scope scope(cuda, {.device = member.gpus.device});
    void* const stream = member.gpus.stream;
    if (stream != nullptr) {
      scope.wait_for_program();
    }
    sennit_status_t status = call.start({member.gpus.on.engine, stream}, nullptr);
    count(member, call.bytes(), member.gpus.on.engine);
    share.take_on_gpus();
    if (status == SENNIT_OK) {
      const Progress<Abi>& progress = running_.load(std::memory_order_relaxed)->progress;
      const auto idle_from = std::chrono::steady_clock::now() + kBeforeProgress;
      while (!scope.is_idle(stream)) {
        if (std::chrono::steady_clock::now() > idle_from) {
          progress.poke();
        }
      }
      sennit_comm_async_error(member.gpus.on.engine, &status);
    }
    return status == SENNIT_OK ? 0 : report(member.handle, status);
  }
  // A call that the MPI has begun or made, in place of `request`: the program gets a request that
  // ends when the shadows have been copied back. `raise` is for one that is started later.
  template <class Raise>
  int follow(const Raise& raise_later,
             Shadows<Abi> shadows,
             RequestKind kind,
             typename Abi::Request* request) {
    Running& behind = *running_.load(std::memory_order_relaxed);
    auto call = std::make_unique<CallInMpi<Abi>>(
        functions, behind.requests, std::move(shadows), *request, kind, abi.byte());
    if (!kind.is_persistent) {
      return behind.requests.start(
          std::move(call), [](sennit_status_t /*failure*/) { return 0; }, request);
    }
    return behind.persistent.make(
        std::move(call),
        {.of_library = [raise_later](sennit_status_t) { return raise_later(Abi::kErrOther); },
         .of_mpi = raise_later},
        request);
  }
  // A call that the MPI would have to run, after which nobody would copy what it has received.
  template <class Raise>
  int refuse_device_memory(const Raise& raise_it, const char* call, const char* what_to_do) const {
    return raise_it(new_code(Abi::kErrOther,
                             std::string(call) +
                                 " has a buffer in GPU memory, which the MPI cannot read; " +
                                 what_to_do));
  }

  // Begins one; the MPI gets a request for it.
  template <class Call>
  int begin(Member<Abi>& member,
            Call call,
            typename Abi::Request* request,
            std::optional<Shadows<Abi>> shadows) {
    Trouble trouble = call.trouble();
    if (!trouble) {
      trouble.code = call.keep();
    }
    if (trouble) {
      return report(member, trouble);
    }
    auto outstanding = std::make_unique<OutstandingCall<Call>>(std::move(call), std::move(shadows));
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = &outstanding->work;
    outstanding->engine = member.shared;
    const sennit_status_t status = outstanding->call.start({member.engine}, &options);
    count(member, outstanding->call.bytes(), member.engine);
    const typename Abi::Comm comm = member.handle;
    if (status != SENNIT_OK) {
      return report(comm, status);
    }
    const auto report_later = [this, comm, engine = member.shared](sennit_status_t failure) {
      const int code = error_of(failure);
      // Without it, the MPI's own wait raises the code.
      return engine->is_left() ? code : raise(comm, code);
    };
    return running_.load(std::memory_order_relaxed)
        ->requests.start(std::move(outstanding), report_later, request);
  }

  // Makes a request that starts the call; nothing, and counted as passed on: no rank does, and the
  // call stays as it was.
  template <class Call>
  std::optional<int> make_persistent(Member<Abi>& parent,
                                     Call& call,
                                     typename Abi::Request* request,
                                     std::optional<Shadows<Abi>>& shadows) {
    Running* const behind = running_.load(std::memory_order_relaxed);
    Member<Abi> own;
    if (!behind->communicators.has_engine(own, parent, behind->persistent.has_room())) {
      share.pass("a persistent call that cannot have an engine");
      return std::nullopt;
    }
    own.handle = parent.handle.load();
    Trouble trouble = call.trouble();
    if (!trouble) {
      trouble.code = call.keep();
    }
    if (!trouble) {
      trouble.code = call.keep_input();
    }
    if (trouble) {
      return report(own, trouble);
    }
    // The communicator may be gone when a call fails.
    const auto raise_later = [this, comm = own.handle.load(), engine = parent.shared](int failure) {
      return engine->is_left() ? failure : raise(comm, failure);
    };
    const auto of_library = [this, raise_later, engine = own.shared](sennit_status_t failure) {
      engine->fail();
      return raise_later(error_of(failure));
    };
    const auto of_mpi = [raise_later, engine = own.shared](int failure) {
      engine->abort();
      return raise_later(failure);
    };
    auto made =
        std::make_unique<StartableCall<Call>>(std::move(call), std::move(shadows), own.engine);
    made->engine = own.shared;
    return behind->persistent.make(std::move(made), {of_library, of_mpi}, request);
  }

  // Until the end of the process.
  void keep(std::shared_ptr<const void> memory) {
    const std::scoped_lock lock(keeping_);
    kept_.push_back(std::move(memory));
  }

  // Runs the body of a collective's entry; what is thrown in it becomes an error of the
  // communicator, on all ranks.
  template <class Body>
  int guard(typename Abi::Comm comm, Body&& body) {
    return guard_alone(errors_of(comm), [&] {
      try {
        return body();
      } catch (...) {
        if (Running* const behind = running_.load(std::memory_order_acquire)) {
          behind->communicators.abort(comm);
        }
        throw;
      }
    });
  }
  // Of another call's: on this rank.
  template <class Raise, class Body>
  int guard_alone(const Raise& raise_it, Body&& body) {
    return guarded(std::forward<Body>(body), [&](const char* what) {
      return guarded([&] { return raise_it(new_code(Abi::kErrOther, what)); },
                     [&](const char* /*what*/) { return raise_it(Abi::kErrOther); });
    });
  }
  [[nodiscard]] Errors<typename Abi::Comm> errors_of(typename Abi::Comm comm) const {
    return {functions.mpi.comm_call_errhandler, comm};
  }
  // Of a call without a communicator.
  [[nodiscard]] Errors<typename Abi::Comm> errors_of_world() const {
    return errors_of(abi.world());
  }
  [[nodiscard]] Errors<typename Abi::Window> errors_of_window(typename Abi::Window window) const {
    return {functions.mpi.win_call_errhandler, window};
  }
  [[nodiscard]] Errors<typename Abi::File> errors_of_file(typename Abi::File file) const {
    return {functions.mpi.file_call_errhandler, file};
  }
  // By the communicator's error handler, which by default ends the job.
  int raise(typename Abi::Comm comm, int code) const {
    functions.mpi.comm_call_errhandler(comm, code);
    return code;
  }

  int finalize() {
    Running* const behind = running_.exchange(nullptr);
    is_over_ = true;
    if (behind != nullptr) {
      behind->persistent.finish();
      behind->requests.finish();
      behind->communicators.finish();
    }
    guarded_callback([&] {
      int rank = -1;
      if (settings.tells_share && functions.mpi.comm_rank(abi.world(), &rank) == 0 && rank == 0) {
        std::fprintf(stderr, "sennit: mpi: rank 0: %s\n", share.text().c_str());
      }
    });
    return functions.finalize();
  }

  const Library library;
  const Abi abi;
  const Functions<Abi> functions;
  const Settings settings;
  Share share;

 private:
  // A poke takes 20 to 40 ns, a small call less than 200.
  static constexpr std::uint64_t kCallsAPoke = 8;

  Running* start() {
    if (settings.is_off) {
      return nullptr;
    }
    int is_initialized = 0;
    int is_finalized = 0;
    functions.mpi.initialized(&is_initialized);
    functions.mpi.finalized(&is_finalized);
    if (is_initialized == 0 || is_finalized != 0 || is_over_) {
      return nullptr;
    }
    const std::scoped_lock lock(starting_);
    if (running_.load(std::memory_order_acquire) == nullptr) {
      // Never freed: the MPI's attributes point there.
      running_.store(new Running(*this, share), std::memory_order_release);
    }
    return running_.load(std::memory_order_acquire);
  }

  template <class Call>
  struct OutstandingCall final : Outstanding {
    OutstandingCall(Call&& begun, std::optional<Shadows<Abi>>&& its_shadows)
        : call(std::move(begun)), shadows(std::move(its_shadows)) {}
    int finish() override { return end_with(shadows, call.finish()); }

    Call call;
    std::optional<Shadows<Abi>> shadows;
  };

  template <class Call>
  struct StartableCall final : Startable {
    StartableCall(Call&& made, std::optional<Shadows<Abi>>&& its_shadows, sennit_comm_t on)
        : call(std::move(made)), shadows(std::move(its_shadows)), on_comm(on) {}
    int read_again() override {
      if (shadows) {
        shadows->copy_in_again();
      }
      return call.read_again();
    }
    sennit_status_t start(const sennit_call_options_t* options) override {
      return call.start({on_comm}, options);
    }
    int finish() override { return end_with(shadows, call.finish()); }
    [[nodiscard]] std::size_t bytes() const override { return call.bytes(); }
    [[nodiscard]] sennit_comm_t comm() const override { return on_comm; }

    Call call;
    std::optional<Shadows<Abi>> shadows;
    sennit_comm_t on_comm;
  };

  static void count(Member<Abi>& member, std::size_t bytes, sennit_comm_t comm) {
    ++member.calls;
    member.bytes += bytes;
    CountedCall::take(bytes, comm);
  }

  int report(typename Abi::Comm comm, sennit_status_t status) const {
    return raise(comm, error_of(status));
  }
  // The other ranks wait for this one, or will: their calls end with an error as well.
  int report(const Member<Abi>& member, const Trouble& trouble) const {
    member.abort();
    return raise(member.handle, trouble.code != 0 ? trouble.code : error_of(trouble));
  }

  // Codes of the MPI for an error of the library.
  [[nodiscard]] int error_of(sennit_status_t status) const {
    return new_code(status == SENNIT_MISMATCH ? Abi::kErrTruncate : Abi::kErrOther,
                    sennit_last_error_message());
  }
  [[nodiscard]] int error_of(const Trouble& trouble) const {
    return new_code(Abi::kErrTruncate,
                    "this rank sends blocks of " + std::to_string(trouble.sent) +
                        " bytes and receives the same blocks as " +
                        std::to_string(trouble.received) +
                        "; let counts and types of both describe as many");
  }
  [[nodiscard]] int new_code(int error_class, const std::string& why) const {
    constexpr std::size_t kMostText = 255;  // Open MPI takes no more
    const std::string text = "sennit: " + why;
    int code = error_class;
    if (functions.mpi.add_error_code(error_class, &code) == 0) {
      functions.mpi.add_error_string(code, text.substr(0, kMostText).c_str());
    }
    return code;
  }

  std::mutex starting_;
  std::mutex keeping_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::atomic<Running*> running_{nullptr};
  std::atomic<bool> is_over_{false};
};

// Makes the front end for the ABI, the one of this process.
template <class Abi>
void start_front(Library library, Settings settings);
// What stands before the MPI's function of a name, such as "PMPI_Bcast_c"; null: nothing does.
template <class Abi>
void* function_named(const std::string& name);

}  // namespace sennit_mpi
