#include "rival.hpp"

#include <dlfcn.h>

namespace sennit::bench {
namespace {

constexpr int kMissing = 4;
constexpr int kFailed = 3;

void check_text(const char* wrong, int code) {
  if (wrong != nullptr) {
    exit_with_error(code, std::string("the rival: ") + wrong);
  }
}

void check_code(int code) {
  if (code != 0) {
    exit_with_error(kFailed, "a call of the rival failed with code " + std::to_string(code));
  }
}

bool has_call(const sennit_rival_t& rival, Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return rival.all_reduce != nullptr;
    case Kind::kReduce:
      return rival.reduce != nullptr;
    case Kind::kBroadcast:
      return rival.broadcast != nullptr;
    case Kind::kAllGather:
      return rival.all_gather != nullptr;
    case Kind::kReduceScatter:
      return rival.reduce_scatter != nullptr;
    case Kind::kAllToAll:
      return rival.all_to_all != nullptr;
    case Kind::kGather:
      return rival.gather != nullptr;
    case Kind::kScatter:
      return rival.scatter != nullptr;
    case Kind::kBarrier:
      return rival.barrier != nullptr;
    case Kind::kSendRecv:
      return rival.exchange != nullptr;
  }
  return false;
}

}  // namespace

Rival::Rival(const Job& job, int rank, int ranks) {
  // Global: an MPI may load parts of itself that look for its symbols. It is never unloaded.
  void* object = ::dlopen(job.rival.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* symbol = object == nullptr ? nullptr : ::dlsym(object, SENNIT_RIVAL_SYMBOL);
  if (symbol == nullptr) {
    exit_with_error(kMissing, std::string("the rival cannot be loaded: ") + ::dlerror());
  }
  table_ = reinterpret_cast<decltype(&sennit_rival)>(symbol)();
  check_text(table_->start(job.rendezvous.c_str(), rank, ranks), kFailed);
}

RivalCalls::RivalCalls(const WorkOrder& order, const Rival& rival, int rank, int ranks)
    : order_(order), rival_(rival.table()), rank_(rank), ranks_(ranks) {
  if (!has_call(rival_, order.kind)) {
    exit_with_error(kMissing, "the rival has no " + order.collective);
  }
  check_text(
      rival_.prepare(order.dtype_name.c_str(), order.op_name.c_str(), order.in_place ? 1 : 0),
      kMissing);
}

void RivalCalls::call(const Buffers& buffers, std::size_t count, int root) {
  const void* send = buffers.send(root);
  void* recv = buffers.recv(root);
  switch (order_.kind) {
    case Kind::kAllReduce:
      return check_code(rival_.all_reduce(send, recv, count));
    case Kind::kReduce:
      return check_code(rival_.reduce(send, recv, count, root));
    case Kind::kBroadcast:
      return check_code(rival_.broadcast(send, recv, count, root));
    case Kind::kAllGather:
      return check_code(rival_.all_gather(send, recv, count));
    case Kind::kReduceScatter:
      return check_code(rival_.reduce_scatter(send, recv, count));
    case Kind::kAllToAll:
      return check_code(rival_.all_to_all(send, recv, count));
    case Kind::kGather:
      return check_code(rival_.gather(send, recv, count, root));
    case Kind::kScatter:
      return check_code(rival_.scatter(send, recv, count, root));
    case Kind::kBarrier:
      return check_code(rival_.barrier());
    case Kind::kSendRecv:
      return check_code(
          rival_.exchange(send, (rank_ + 1) % ranks_, recv, (rank_ + ranks_ - 1) % ranks_, count));
  }
}

void RivalCalls::settle() { check_code(rival_.barrier()); }

}  // namespace sennit::bench
