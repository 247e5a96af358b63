#include "calls.hpp"

namespace sennit::bench {

RowSize row_size(const WorkOrder& order, int ranks, std::size_t bytes) {
  std::size_t parts = 1;
  switch (order.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
    case Kind::kGather:
    case Kind::kScatter:
      parts = static_cast<std::size_t>(ranks);
      break;
    case Kind::kBarrier:
      return {};
    default:
      break;
  }
  const std::size_t unit = parts * order.element_bytes;
  const std::size_t count = (bytes + unit - 1) / unit;
  return {.count = count, .bytes = count * unit};
}

double bus_factor(const WorkOrder& order, int ranks) {
  const double n = ranks;
  switch (order.kind) {
    case Kind::kAllReduce:
      return 2 * (n - 1) / n;
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
    case Kind::kGather:
    case Kind::kScatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

int calls_of_all_roots(const WorkOrder& order, int ranks) {
  const bool has_root = order.kind == Kind::kReduce || order.kind == Kind::kBroadcast ||
                        order.kind == Kind::kGather || order.kind == Kind::kScatter;
  return has_root && order.root < 0 ? ranks : 1;
}

int root_of(const WorkOrder& order, int ranks, std::size_t index) {
  return order.root >= 0 ? order.root : static_cast<int>(index % static_cast<std::size_t>(ranks));
}

bool takes_part(const WorkOrder& order, int rank) {
  return !order.pair || rank == order.pair->second ||
         (order.bidirectional && rank == order.pair->first);
}

OwnCalls::OwnCalls(const WorkOrder& order, sennit_comm_t comm, int rank, int ranks)
    : order_(order), comm_(comm), rank_(rank), ranks_(ranks) {
  const auto request = [](const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
  };
  options_.algorithm = request(order.algorithm);
  options_.path = request(order.path);
  options_.protocol = request(order.protocol);
  options_.tile_bytes = order.tile_bytes;
  options_.codec = request(order.codec);
}

void OwnCalls::request(const Try& one) {
  options_.algorithm = one.algorithm.empty() ? nullptr : one.algorithm.c_str();
  options_.protocol = one.protocol.empty() ? nullptr : one.protocol.c_str();
  options_.tile_bytes = one.tile_bytes;
}

void OwnCalls::call(const Buffers& buffers, std::size_t count, int root) {
  check(attempt(buffers, count, root));
}

sennit_status_t OwnCalls::attempt(const Buffers& buffers, std::size_t count, int root) const {
  const void* send = buffers.send(root);
  void* recv = buffers.recv(root);
  const auto dtype = order_.dtype;
  const auto op = order_.op;
  switch (order_.kind) {
    case Kind::kAllReduce:
      return sennit_all_reduce(send, recv, count, dtype, op, comm_, nullptr, &options_);
    case Kind::kReduce:
      return sennit_reduce(send, recv, count, dtype, op, root, comm_, nullptr, &options_);
    case Kind::kBroadcast:
      return sennit_broadcast(send, recv, count, dtype, root, comm_, nullptr, &options_);
    case Kind::kAllGather:
      return sennit_all_gather(send, recv, count, dtype, comm_, nullptr, &options_);
    case Kind::kReduceScatter:
      return sennit_reduce_scatter(send, recv, count, dtype, op, comm_, nullptr, &options_);
    case Kind::kAllToAll:
      return sennit_all_to_all(send, recv, count, dtype, comm_, nullptr, &options_);
    case Kind::kGather:
      return sennit_gather(send, recv, count, dtype, root, comm_, nullptr, &options_);
    case Kind::kScatter:
      return sennit_scatter(send, recv, count, dtype, root, comm_, nullptr, &options_);
    case Kind::kBarrier:
      return sennit_barrier(comm_, nullptr, &options_);
    case Kind::kSendRecv:
      return exchange(buffers, count);
  }
  return SENNIT_INVALID_ARGUMENT;
}

// The ring of all ranks, or one pair with a window of messages in flight.
sennit_status_t OwnCalls::exchange(const Buffers& buffers, std::size_t count) const {
  int to = (rank_ + 1) % ranks_;
  int from = (rank_ + ranks_ - 1) % ranks_;
  bool sends = true;
  bool receives = true;
  if (order_.pair) {
    const auto [first, second] = *order_.pair;
    if (rank_ != first && rank_ != second) {
      return SENNIT_OK;
    }
    to = from = rank_ == first ? second : first;
    sends = rank_ == first || order_.bidirectional;
    receives = rank_ == second || order_.bidirectional;
  }
  check(sennit_group_start());  // its end tells what failed in it
  for (int message = 0; message < order_.window; ++message) {
    if (sends) {
      sennit_send(buffers.send(0), count, order_.dtype, to, comm_, nullptr, &options_);
    }
    if (receives) {
      sennit_recv(buffers.recv(0), count, order_.dtype, from, comm_, nullptr, &options_);
    }
  }
  return sennit_group_end();
}

}  // namespace sennit::bench
