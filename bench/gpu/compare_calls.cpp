#include "compare_calls.hpp"

#include <algorithm>

namespace sennit_bench {
namespace {

bool messages(const CallArgs& a,
              const sennit_call_options_t& options,
              sennit_comm_t comm,
              cudaStream_t stream) {
  const Exchange& exchange = *a.exchange;
  bool good = true;
  for (int begin = 0; begin < exchange.window; begin += exchange.in_group) {
    good &= sennit_group_start() == SENNIT_OK;
    for (int i = begin; i < std::min(begin + exchange.in_group, exchange.window); ++i) {
      for (const int peer : exchange.to) {
        good &=
            sennit_send(a.send, a.count, SENNIT_FLOAT32, peer, comm, stream, &options) == SENNIT_OK;
      }
      for (const int peer : exchange.from) {
        good &=
            sennit_recv(a.recv, a.count, SENNIT_FLOAT32, peer, comm, stream, &options) == SENNIT_OK;
      }
    }
    good &= sennit_group_end() == SENNIT_OK;
  }
  return good;
}

}  // namespace

bool call_sennit(std::string_view collective,
                 const CallArgs& a,
                 const sennit_call_options_t& options,
                 sennit_comm_t comm,
                 cudaStream_t stream) {
  constexpr auto kType = SENNIT_FLOAT32;
  constexpr auto kOp = SENNIT_SUM;
  if (collective == "all_reduce") {
    return sennit_all_reduce(a.send, a.recv, a.count, kType, kOp, comm, stream, &options) ==
           SENNIT_OK;
  }
  if (collective == "reduce_scatter") {
    return sennit_reduce_scatter(a.send, a.recv, a.count, kType, kOp, comm, stream, &options) ==
           SENNIT_OK;
  }
  if (collective == "reduce") {
    return sennit_reduce(a.send, a.recv, a.count, kType, kOp, 0, comm, stream, &options) ==
           SENNIT_OK;
  }
  if (collective == "all_gather") {
    return sennit_all_gather(a.send, a.recv, a.count, kType, comm, stream, &options) == SENNIT_OK;
  }
  if (collective == "all_to_all") {
    return sennit_all_to_all(a.send, a.recv, a.count, kType, comm, stream, &options) == SENNIT_OK;
  }
  if (collective == "broadcast") {
    return sennit_broadcast(a.send, a.recv, a.count, kType, 0, comm, stream, &options) == SENNIT_OK;
  }
  return messages(a, options, comm, stream);
}

}  // namespace sennit_bench
