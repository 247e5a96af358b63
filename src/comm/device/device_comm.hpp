// DeviceComm: the calls of one communicator on GPU memory, in stream order.
//
// A call checks its arguments, finds its proved plan (made at first use) and launches one kernel;
// nothing waits. What goes wrong later stands on the board (exec/sm/arena.hpp) and is told by
// failure(), by the next call, or by sennit_comm_async_error. A thread watches the other ranks, so
// that kernels leave when one of them has died.
#pragma once

#include "comm/device/device_memory.hpp"
#include "comm/operation.hpp"
#include "comm/world.hpp"
#include "exec/sm/direct_program.hpp"
#include "exec/sm/geometry.hpp"
#include "select/device_choice.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace sennit {

class DeviceComm {
 public:
  struct Options {
    std::string name = "world";
    double deadline_s = 30.0;  // negative: none
    int blocks = 128;          // of a call, at most
  };

  // All ranks together. `world` outlives the result.
  static Result<std::unique_ptr<DeviceComm>> create(int device,
                                                    World& world,
                                                    const Options& options,
                                                    const Exchange& exchange);
  ~DeviceComm();
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  [[nodiscard]] int device() const { return device_; }

  // Puts calls into the streams, in their order; sends and recvs of one stream together.
  struct Call {
    Operation operation;
    void* stream = nullptr;
  };
  Status enqueue(std::span<const Call> calls);

  // Why the communicator has failed; ok while it works.
  [[nodiscard]] Status failure();
  // Makes waiting kernels leave.
  void abort();

 private:
  struct Key {
    Collective collective;
    int root;
    DeviceChoice choice;

    auto operator<=>(const Key&) const = default;
  };
  struct Program {
    sm::DirectProgram direct;
    std::uint64_t plan_hash = 0;
    sm::Packets packets = sm::Packets::kLl;
  };

  DeviceComm(CudaDriver& driver, int device, World& world, Options options);

  Status preload();
  Status check(const Operation& operation) const;
  Result<const Program*> find(const Operation& operation);
  Status collective(const Call& call);
  Status barrier(void* stream);
  Status pairs(std::span<const Call> calls, void* stream);
  [[nodiscard]] sm::PairCall pair_call(const Operation& operation) const;
  [[nodiscard]] Status explain(sm::Trouble trouble) const;
  void watch(const std::stop_token& stop);

  CudaDriver& driver_;
  int device_;
  World& world_;
  Options options_;
  std::unique_ptr<DeviceMemory> memory_;
  void* token_ = nullptr;  // device bytes that a barrier exchanges
  std::map<Key, Program> programs_;
  std::mutex mutex_;
  Status failure_;
  std::vector<int> dead_;
  std::jthread watcher_;
};

}  // namespace sennit
