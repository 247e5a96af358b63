// Front: the front end for one ABI. One a process, made at the first call and never freed.
#pragma once

#include "abi.hpp"
#include "communicators.hpp"
#include "datatypes.hpp"
#include "functions.hpp"
#include "library.hpp"
#include "progress.hpp"
#include "settings.hpp"
#include "share.hpp"

#include "sennit/sennit.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace sennit_mpi {

template <class Abi>
class Front {
 public:
  // What needs an initialized MPI.
  struct Running {
    Running(const Front& front, Share& share)
        : datatypes(front.abi, front.library, front.functions),
          progress(front.abi, front.library, front.functions),
          communicators(front.abi, front.functions, front.settings, progress, share) {}

    Datatypes<Abi> datatypes;
    Progress<Abi> progress;
    Communicators<Abi> communicators;
  };

  Front(Library found, Settings given)
      : library(std::move(found)), abi(library), functions(library), settings(std::move(given)) {}

  // Null before MPI_Init and after MPI_Finalize, where a program has sessions alone, and where it
  // is not wanted.
  Running* running() {
    Running* const made = running_.load(std::memory_order_acquire);
    return made != nullptr ? made : start();
  }

  // A blocking collective: taken by `run`, which gets the member and what is behind it, and may
  // still decline by what all ranks share; else passed on.
  Member<Abi>* taking(typename Abi::Comm comm, Call call) {
    Running* const behind = running();
    if (behind == nullptr) {
      share.pass(settings.is_off ? "SENNIT_MPI=off" : "outside of MPI_Init and MPI_Finalize");
      return nullptr;
    }
    return behind->communicators.taking(comm, call);
  }

  // The end of a call that was taken: what the MPI returns for it.
  int finish(Member<Abi>& member, sennit_status_t status, std::size_t bytes) {
    ++member.calls;
    member.bytes += bytes;
    running_.load(std::memory_order_relaxed)->progress.poke();
    return status == SENNIT_OK ? 0 : report(member, status);
  }

  int finalize() {
    Running* const behind = running_.exchange(nullptr);
    is_over_ = true;
    if (behind != nullptr) {
      behind->communicators.finish();
      behind->progress.finish();
    }
    int rank = -1;
    if (settings.tells_share && functions.mpi.comm_rank(abi.world(), &rank) == 0 && rank == 0) {
      std::fprintf(stderr, "sennit: mpi: rank 0: %s\n", share.text().c_str());
    }
    return functions.finalize();
  }

  const Library library;
  const Abi abi;
  const Functions<Abi> functions;
  const Settings settings;
  Share share;

 private:
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

  // By the communicator's error handler, which by default ends the job.
  int report(Member<Abi>& member, sennit_status_t status) {
    const int error_class = status == SENNIT_MISMATCH ? Abi::kErrTruncate : Abi::kErrOther;
    constexpr std::size_t kMostText = 255;  // Open MPI takes no more
    const std::string text = std::string("sennit: ") + sennit_last_error_message();
    int code = error_class;
    if (functions.mpi.add_error_code(error_class, &code) == 0) {
      functions.mpi.add_error_string(code, text.substr(0, kMostText).c_str());
    }
    functions.mpi.comm_call_errhandler(member.handle.load(std::memory_order_relaxed), code);
    return code;
  }

  std::mutex starting_;
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
