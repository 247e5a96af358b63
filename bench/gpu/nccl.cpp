#include "nccl.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace sennit_bench {
namespace {

// Values of NCCL's enumerations.
constexpr int kSuccess = 0;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
constexpr int kSymmetricWindow = 1;

[[noreturn]] void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "compare: %s: %s\n", what, why);
  std::exit(4);
}

// Where NCCL is there, but does not do.
[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "compare: %s failed\n", what);
  std::exit(3);
}

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    give_up(name, "this NCCL does not have it");
  }
}

}  // namespace

struct Nccl::Functions {
  int (*get_unique_id)(RivalId*);
  int (*comm_init_rank)(void**, int, RivalId, int);
  int (*mem_alloc)(void**, std::size_t);
  int (*window_register)(void*, void*, std::size_t, void**, int);
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, cudaStream_t);
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, cudaStream_t);
  int (*all_gather)(const void*, void*, std::size_t, int, void*, cudaStream_t);
  int (*all_to_all)(const void*, void*, std::size_t, int, void*, cudaStream_t);
  int (*broadcast)(const void*, void*, std::size_t, int, int, void*, cudaStream_t);
  int (*reduce)(const void*, void*, std::size_t, int, int, int, void*, cudaStream_t);
  int (*send)(const void*, std::size_t, int, int, void*, cudaStream_t);
  int (*recv)(void*, std::size_t, int, int, void*, cudaStream_t);
  int (*group_start)();
  int (*group_end)();
};

Nccl::Nccl(const std::string& path) : functions_(std::make_unique<Functions>()) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    give_up("NCCL", dlerror());
  }
  Functions& f = *functions_;
  look_up(library, "ncclGetUniqueId", f.get_unique_id);
  look_up(library, "ncclCommInitRank", f.comm_init_rank);
  look_up(library, "ncclMemAlloc", f.mem_alloc);
  look_up(library, "ncclCommWindowRegister", f.window_register);
  look_up(library, "ncclAllReduce", f.all_reduce);
  look_up(library, "ncclReduceScatter", f.reduce_scatter);
  look_up(library, "ncclAllGather", f.all_gather);
  look_up(library, "ncclAlltoAll", f.all_to_all);
  look_up(library, "ncclBroadcast", f.broadcast);
  look_up(library, "ncclReduce", f.reduce);
  look_up(library, "ncclSend", f.send);
  look_up(library, "ncclRecv", f.recv);
  look_up(library, "ncclGroupStart", f.group_start);
  look_up(library, "ncclGroupEnd", f.group_end);
}

Nccl::~Nccl() = default;

void Nccl::make_id(RivalId* id) {
  if (functions_->get_unique_id(id) != kSuccess) {
    fail("ncclGetUniqueId");
  }
}

void Nccl::join(int ranks, int rank, const RivalId& id, cudaStream_t stream) {
  stream_ = stream;
  if (functions_->comm_init_rank(&comm_, ranks, id, rank) != kSuccess) {
    fail("ncclCommInitRank");
  }
}

void* Nccl::allocate(std::size_t bytes) {
  void* memory = nullptr;
  void* window = nullptr;
  if (functions_->mem_alloc(&memory, bytes) != kSuccess ||
      functions_->window_register(comm_, memory, bytes, &window, kSymmetricWindow) != kSuccess) {
    fail("ncclMemAlloc, ncclCommWindowRegister");
  }
  return memory;
}

bool Nccl::call(std::string_view collective, const CallArgs& a) {
  const Functions& f = *functions_;
  if (collective == "all_reduce") {
    return f.all_reduce(a.send, a.recv, a.count, kFloat32, kSum, comm_, stream_) == kSuccess;
  }
  if (collective == "reduce_scatter") {
    return f.reduce_scatter(a.send, a.recv, a.count, kFloat32, kSum, comm_, stream_) == kSuccess;
  }
  if (collective == "all_gather") {
    return f.all_gather(a.send, a.recv, a.count, kFloat32, comm_, stream_) == kSuccess;
  }
  if (collective == "all_to_all") {
    return f.all_to_all(a.send, a.recv, a.count, kFloat32, comm_, stream_) == kSuccess;
  }
  if (collective == "reduce") {
    return f.reduce(a.send, a.recv, a.count, kFloat32, kSum, 0, comm_, stream_) == kSuccess;
  }
  if (collective == "broadcast") {
    return f.broadcast(a.send, a.recv, a.count, kFloat32, 0, comm_, stream_) == kSuccess;
  }
  return messages(a);
}

bool Nccl::messages(const CallArgs& a) {
  const Functions& f = *functions_;
  const Exchange& exchange = *a.exchange;
  bool good = true;
  for (int begin = 0; begin < exchange.window; begin += exchange.in_group) {
    good &= f.group_start() == kSuccess;
    for (int i = begin; i < std::min(begin + exchange.in_group, exchange.window); ++i) {
      for (const int peer : exchange.to) {
        good &= f.send(a.send, a.count, kFloat32, peer, comm_, stream_) == kSuccess;
      }
      for (const int peer : exchange.from) {
        good &= f.recv(a.recv, a.count, kFloat32, peer, comm_, stream_) == kSuccess;
      }
    }
    good &= f.group_end() == kSuccess;
  }
  return good;
}

}  // namespace sennit_bench
