// One call of a communicator: prepared, then started, then waited for.
#pragma once

#include "buffer.hpp"
#include "comm.hpp"
#include "errors.hpp"
#include "rms_norm.hpp"

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit::python {

enum class Collective {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kRecv,
  kAllGatherV,
  kAllToAllV,
  kGatherV,
  kScatterV,
};

// The blocks of one buffer where lengths vary; empty: not used, or one after the other.
struct Blocks {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> displacements;

  [[nodiscard]] const std::size_t* places() const {
    return displacements.empty() ? nullptr : displacements.data();
  }
};

// What may be asked of any one call. `stream` is what the program names; none: that of the library
// that made the buffers, on GPU ranks.
struct CallOptions {
  std::optional<std::string> algorithm;
  double deadline_s = 0.0;  // 0: the communicator's; negative: none
  bool reproducible = false;
  std::optional<std::string> codec;
  std::optional<Stream> stream;
  std::int32_t tag = 0;                       // of a send or recv
  std::shared_ptr<const RmsNorm> rms_norm{};  // of an all_reduce; null: none
};

// What a C function of the ABI takes, besides the communicator.
struct CallArguments {
  Collective collective;
  std::shared_ptr<const Buffer> send{};  // null: the call takes none on this rank
  std::shared_ptr<const Buffer> recv{};  // the same as `send`: in place
  std::size_t count = 0;
  int op = SENNIT_SUM;   // sennit_redop_t; ignored where nothing is reduced
  int root = 0;          // or the peer of a send or recv; ignored elsewhere
  std::string scalar{};  // not empty: the operator is a premultiplied sum with this element
  CallOptions options{};
  Blocks input{};
  Blocks output{};
};

// Keeps communicator and buffers alive until the call has ended.
class Work {
 public:
  Work(nanobind::object comm, CallArguments arguments);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Starts the call; inside a group of the C ABI it is only posted.
  void start();
  // Makes the call, giving the GIL up once: on host ranks it has ended then, on GPU ranks it is
  // enqueued.
  void run();
  // Whether the call, made in a group, needs no wait at its end: it is only enqueued then.
  bool is_ended_by_stream();
  // True when the call has ended, false when timeout_s (negative: none) is over first. Raises the
  // call's error; on Ctrl-C aborts the communicator and raises KeyboardInterrupt.
  bool wait(double timeout_s);
  bool test();
  // The other rank of a send or recv that has ended well.
  int peer();

  // The status of the C call; needs no GIL.
  sennit_status_t post();

 private:
  void find_stream();
  sennit_status_t post_with(sennit_redop_t op);
  sennit_status_t post_varying(const sennit_call_options_t& options);
  bool end_with(sennit_status_t status);
  [[nodiscard]] bool is_message() const;
  void interrupt_if_asked();
  // What the C library says of "send" and "recv", in terms of the arguments.
  ErrorRecord record_of_call(sennit_status_t status) const;

  nanobind::object comm_object_;
  CallArguments arguments_;
  Comm* comm_;
  sennit_comm_t handle_;
  const void* send_ = nullptr;
  void* recv_ = nullptr;
  sennit_dtype_t dtype_ = SENNIT_UINT8;
  bool is_on_gpu_;
  void* stream_ = nullptr;
  bool has_work_ = true;  // false: nobody waits for the call, which its stream orders
  sennit_work_t work_ = nullptr;
  bool has_ended_ = false;
  int peer_ = SENNIT_ANY_RANK;  // of a send or recv that has ended well
  ErrorRecord error_;
};

void bind_work(nanobind::module_& module);

}  // namespace sennit::python
