// Gloo as a rival, as PyTorch has it: compiled against the headers of the PyTorch that is here, and
// called on the backend itself, without dispatcher and Python. gloo_rank.py has made the group.
#include "rival.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/version.h>
#include <utility>
#include <vector>

namespace {

using c10d::ReduceOp;

c10::intrusive_ptr<c10d::Backend> backend;
at::ScalarType type = at::kFloat;
ReduceOp::RedOpType operation = ReduceOp::SUM;
int own_rank = 0;
int rank_count = 1;
std::string wrong;

at::Tensor tensor(const void* data, std::size_t count) {
  return at::from_blob(
      const_cast<void*>(data), {static_cast<std::int64_t>(count)}, at::TensorOptions().dtype(type));
}

std::size_t all(std::size_t count) { return count * static_cast<std::size_t>(rank_count); }

// Exceptions must not reach the rank program.
template <typename Call>
int run(Call call) {
  try {
    call()->wait();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gloo: %s\n", e.what());
    return 1;
  }
}

const char* start(const char*, int rank, int ranks) {
  own_rank = rank;
  rank_count = ranks;
  try {
    backend = c10d::resolve_process_group("0")->getBackend(c10::DeviceType::CPU);
  } catch (const std::exception& e) {
    wrong = e.what();
    return wrong.c_str();
  }
  return nullptr;
}

const char* version() { return "Gloo of PyTorch " TORCH_VERSION; }

template <typename Value, std::size_t kSize>
bool find(const std::array<std::pair<const char*, Value>, kSize>& rows,
          const std::string& name,
          Value& value) {
  for (const auto& [key, found] : rows) {
    if (name == key) {
      value = found;
      return true;
    }
  }
  wrong = "Gloo has no " + name;
  return false;
}

const char* prepare(const char* dtype, const char* op, int) {
  using Type = std::pair<const char*, at::ScalarType>;
  using Operation = std::pair<const char*, ReduceOp::RedOpType>;
  static constexpr std::array kTypes = {Type{"float32", at::kFloat},
                                        Type{"float64", at::kDouble},
                                        Type{"float16", at::kHalf},
                                        Type{"bfloat16", at::kBFloat16},
                                        Type{"int8", at::kChar},
                                        Type{"uint8", at::kByte},
                                        Type{"int32", at::kInt},
                                        Type{"int64", at::kLong}};
  static constexpr std::array kOperations = {Operation{"sum", ReduceOp::SUM},
                                             Operation{"prod", ReduceOp::PRODUCT},
                                             Operation{"min", ReduceOp::MIN},
                                             Operation{"max", ReduceOp::MAX}};
  return find(kTypes, dtype, type) && find(kOperations, op, operation) ? nullptr : wrong.c_str();
}

int all_reduce(const void*, void* recv, std::size_t count) {
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  std::vector<at::Tensor> tensors{tensor(recv, count)};
  return run([&] { return backend->allreduce(tensors, options); });
}

int reduce(const void*, void* recv, std::size_t count, int root) {
  c10d::ReduceOptions options;
  options.reduceOp = operation;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{tensor(recv, count)};
  return run([&] { return backend->reduce(tensors, options); });
}

int broadcast(const void*, void* recv, std::size_t count, int root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{tensor(recv, count)};
  return run([&] { return backend->broadcast(tensors, options); });
}

int all_gather(const void* send, void* recv, std::size_t count) {
  at::Tensor input = tensor(send, count);
  at::Tensor output = tensor(recv, all(count));
  return run([&] { return backend->_allgather_base(output, input); });
}

int all_to_all(const void* send, void* recv, std::size_t count) {
  at::Tensor input = tensor(send, all(count));
  at::Tensor output = tensor(recv, all(count));
  std::vector<std::int64_t> even;
  return run([&] { return backend->alltoall_base(output, input, even, even); });
}

int barrier() {
  return run([] { return backend->barrier(); });
}

void stop() { backend.reset(); }

}  // namespace

extern "C" const sennit_rival_t* sennit_rival() {
  static const sennit_rival_t calls = {start,
                                       version,
                                       prepare,
                                       all_reduce,
                                       reduce,
                                       broadcast,
                                       all_gather,
                                       /*reduce_scatter=*/nullptr,
                                       all_to_all,
                                       /*gather=*/nullptr,
                                       /*scatter=*/nullptr,
                                       barrier,
                                       /*exchange=*/nullptr,
                                       stop};
  return &calls;
}
