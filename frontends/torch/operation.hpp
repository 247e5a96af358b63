// An operation of PyTorch: the calls of Sennit that it is made of.
#pragma once

#include "call_settings.hpp"
#include "tensors.hpp"

#include "sennit/sennit.h"

#include <chrono>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace sennit::pytorch {

// Where the calls of an operation are made: the communicator, the stream, and options for each.
class Calls {
 public:
  // `works`: where each call stores its work; null: calls have none. `settings` are those of the
  // operation, or null.
  Calls(sennit_comm_t comm,
        void* stream,
        double deadline_s,
        std::vector<sennit_work_t>* works,
        SharedSettings settings);

  [[nodiscard]] sennit_comm_t comm() const { return comm_; }
  [[nodiscard]] void* stream() const { return stream_; }
  // For one call: its work has a place of its own.
  const sennit_call_options_t* options(int tag = 0);

 private:
  sennit_comm_t comm_;
  void* stream_;
  sennit_call_options_t options_ = SENNIT_CALL_OPTIONS_INITIALIZER;
  std::vector<sennit_work_t>* works_;
  SharedSettings settings_;  // whose texts the options have
};

// Calls between its construction and end() are one group, if there is more than one. Without end()
// nobody learns how they came out: something else has failed.
class CallGroup {
 public:
  explicit CallGroup(std::size_t calls);
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  void end();

 private:
  bool is_open_;
};

struct Operation {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;           // for profiles
  std::chrono::milliseconds timeout{0};  // negative: that of the group; zero: none
  bool is_async = true;
  bool takes_settings = true;  // false: one of several steps, which the program does not know
  SharedSettings settings{};   // of its calls; null: nothing is asked
  Tensors inputs;              // as the program gave them, for profiles too
  Tensors buffers;             // whose memory the calls use besides that of inputs and outputs
  Tensors outputs;
  std::function<void(Calls&)> start;
  std::function<void()> finish;  // what remains to be done when the calls have ended; may be empty
};

template <typename Options>
Operation described(c10d::OpType type, const char* title, const Options& options) {
  Operation operation;
  operation.type = type;
  operation.title = title;
  operation.timeout = options.timeout;
  operation.is_async = options.asyncOp;
  return operation;
}

// A rank of a group, and how many there are.
struct Ranks {
  int rank = 0;
  int size = 0;
};

}  // namespace sennit::pytorch
