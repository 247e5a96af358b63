// Engine: a communicator of the library for one of the program's. Calls that have not ended keep
// it.
#pragma once

#include "sennit/sennit.h"

#include <atomic>
#include <memory>

namespace sennit_mpi {

class Engine {
 public:
  explicit Engine(sennit_comm_t comm) : comm_(comm) {}
  ~Engine() { sennit_comm_destroy(comm_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Calls on all ranks end with an error.
  void abort() {
    fail();
    sennit_comm_abort(comm_);
  }
  // A call has failed, as all later ones will.
  void fail() { has_failed_ = true; }
  [[nodiscard]] bool has_failed() const { return has_failed_; }
  // The program has freed its communicator; the handle may be that of another one by now.
  void leave() { is_left_ = true; }
  [[nodiscard]] bool is_left() const { return is_left_; }

 private:
  sennit_comm_t comm_;
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> is_left_{false};
};

using SharedEngine = std::shared_ptr<Engine>;

// Where a call runs: a communicator of the library and, of GPU ranks, a stream.
struct Runner {
  sennit_comm_t comm = nullptr;
  void* stream = nullptr;
};

}  // namespace sennit_mpi
