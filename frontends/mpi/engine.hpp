// Engine: a communicator of the library for one of the program's. Calls that have not ended keep
// it.
#pragma once

#include "sennit/sennit.h"

#include <memory>

namespace sennit_mpi {

class Engine {
 public:
  explicit Engine(sennit_comm_t comm) : comm_(comm) {}
  ~Engine() { sennit_comm_destroy(comm_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

 private:
  sennit_comm_t comm_;
};

using SharedEngine = std::shared_ptr<const Engine>;

}  // namespace sennit_mpi
