#include "comm/nodes/crossing.hpp"

#include "schedule/problem.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Parts of ranks begin where GPUs load and store whole lines.
constexpr std::int64_t kLineBytes = 128;

std::int64_t element_bytes(const Operation& op) {
  return static_cast<std::int64_t>(size_bytes(op.dtype));
}

// What is an input is only read.
std::byte* bytes_of(const void* buffer) {
  return static_cast<std::byte*>(const_cast<void*>(buffer));  // NOLINT(*-const-cast)
}

std::byte* at(const Operation& op, const void* buffer, std::int64_t element) {
  return bytes_of(buffer) + element * element_bytes(op);
}

// The same call, without its buffers.
Operation bare(const Operation& op) {
  Operation result = op;
  result.send = nullptr;
  result.recv = nullptr;
  result.count = 0;
  result.inputs.clear();
  result.outputs.clear();
  result.rms_norm.reset();
  return result;
}

class Divider {
 public:
  Divider(const Operation& op, const NodeShape& shape)
      : op_(op),
        shape_(shape),
        places_(shape.ranks_a_node()),
        place_(places_ > 0 ? shape.rank % places_ : 0),
        nodes_(places_ > 0 ? shape.ranks() / places_ : 0) {}

  [[nodiscard]] bool divides(bool in_rank_order) const {
    switch (op_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduceScatter:
      case Collective::kAllGather:
      case Collective::kBroadcast:
      case Collective::kAllToAll:
        break;
      default:
        return false;
    }
    const bool keeps_order = !is_reduction(op_.collective) || !in_rank_order;
    return places_ > 0 && !op_.varying && keeps_order && op_.request.algorithm.empty() &&
           !op_.request.name_a_way();
  }

  [[nodiscard]] std::int64_t scratch_elements() const {
    return op_.collective == Collective::kReduceScatter && reduces_in_node() ? nodes_ * op_.count
                                                                             : 0;
  }

  Crossing divide(std::byte* scratch) const {
    switch (op_.collective) {
      case Collective::kAllReduce:
        return all_reduce();
      case Collective::kReduceScatter:
        return reduce_scatter(scratch);
      case Collective::kAllGather:
        return all_gather();
      case Collective::kBroadcast:
        return broadcast();
      default:
        return all_to_all();
    }
  }

  // Between all ranks, as if they were host ranks.
  [[nodiscard]] Crossing whole() const {
    HostCall call{.operation = bare(op_), .elements = op_.count, .most_blocks = most_blocks()};
    const BufferUse use = buffer_use(op_, shape_.rank, shape_.ranks());
    if (op_.varying) {
      call.can_be_cut = false;  // not all ranks know all lengths
      call.inputs = varying_blocks(op_.send, op_.inputs);
      call.outputs = varying_blocks(op_.recv, op_.outputs);
    } else {
      const Problem problem{
          .collective = op_.collective, .ranks = shape_.ranks(), .root = op_.root};
      call.inputs = equal_blocks(op_.send, use.send ? problem.input_blocks(shape_.rank) : 0);
      call.outputs = equal_blocks(op_.recv, use.recv ? problem.output_blocks(shape_.rank) : 0);
    }
    return {.calls = {std::move(call)}};
  }

 private:
  // The part of a vector that each rank of a node has, and the rest, which all of them have.
  struct Parts {
    std::int64_t part = 0;
    std::int64_t rest_at = 0;
    std::int64_t rest = 0;
  };

  // Some operators scale each contribution, which the GPU does.
  [[nodiscard]] bool reduces_in_node() const { return places_ > 1 || scales_contributions(op_.op); }

  [[nodiscard]] int most_blocks() const {
    const Problem problem{.collective = op_.collective, .ranks = shape_.ranks(), .root = op_.root};
    int most = 0;
    for (int rank = 0; rank < shape_.ranks(); ++rank) {
      most = std::max(most, problem.input_blocks(rank) + problem.output_blocks(rank));
    }
    return most;
  }

  [[nodiscard]] Parts parts() const {
    const std::int64_t line = kLineBytes / element_bytes(op_);
    const bool is_whole = op_.bytes() <= kWholeBytes || places_ == 1;
    const std::int64_t part = is_whole ? 0 : op_.count / places_ / line * line;
    return {.part = part, .rest_at = part * places_, .rest = op_.count - part * places_};
  }

  [[nodiscard]] DeviceBlock own_part(const void* buffer, const Parts& parts) const {
    return {{.memory = at(op_, buffer, place_ * parts.part), .elements = parts.part},
            {.memory = at(op_, buffer, parts.rest_at), .elements = parts.rest}};
  }

  [[nodiscard]] std::vector<DeviceBlock> equal_blocks(const void* buffer, int blocks) const {
    std::vector<DeviceBlock> result;
    for (int block = 0; block < blocks; ++block) {
      result.push_back({{.memory = at(op_, buffer, block * op_.count), .elements = op_.count}});
    }
    return result;
  }

  [[nodiscard]] std::vector<DeviceBlock> varying_blocks(
      const void* buffer, const std::vector<ElementRange>& blocks) const {
    std::vector<DeviceBlock> result;
    for (const ElementRange& block : blocks) {
      result.push_back({{.memory = at(op_, buffer, block.begin), .elements = block.length}});
    }
    return result;
  }

  // Of the ranks of this node.
  [[nodiscard]] Operation in_node(Collective collective,
                                  const std::byte* send,
                                  std::byte* recv,
                                  std::int64_t count) const {
    Operation op = bare(op_);
    op.collective = collective;
    op.send = send;
    op.recv = recv;
    op.count = count;
    op.root = place_of(op_.root);
    op.request = {};
    if (op.op == ReduceOp::kAvg) {
      op.op = ReduceOp::kSum;  // divided once, by the call between the nodes
    }
    return op;
  }

  // Between the nodes: of counterparts, which have sums of their nodes by then.
  [[nodiscard]] HostCall of_counterparts(bool is_reduced, std::int64_t elements) const {
    HostCall call{.operation = bare(op_), .among_counterparts = true, .elements = elements};
    call.operation.root = static_cast<int>(op_.root / places_);
    call.operation.averaged_over = shape_.ranks();
    if (is_reduced && scales_contributions(op_.op)) {
      call.operation.op = ReduceOp::kSum;
    }
    return call;
  }

  [[nodiscard]] int place_of(int rank) const { return static_cast<int>(rank % places_); }
  [[nodiscard]] std::int64_t node() const { return shape_.rank / places_; }

  [[nodiscard]] Crossing all_reduce() const {
    Crossing result;
    const Parts parts = this->parts();
    const void* input = op_.send;
    if (reduces_in_node()) {
      input = op_.recv;
      if (parts.part > 0) {
        result.before.push_back(in_node(Collective::kReduceScatter,
                                        bytes_of(op_.send),
                                        at(op_, op_.recv, place_ * parts.part),
                                        parts.part));
        result.after.push_back(in_node(Collective::kAllGather,
                                       at(op_, op_.recv, place_ * parts.part),
                                       bytes_of(op_.recv),
                                       parts.part));
      }
      if (parts.rest > 0) {
        result.before.push_back(in_node(Collective::kAllReduce,
                                        at(op_, op_.send, parts.rest_at),
                                        at(op_, op_.recv, parts.rest_at),
                                        parts.rest));
      }
    }
    HostCall call = of_counterparts(reduces_in_node(), parts.part + parts.rest);
    call.most_blocks = 2;
    call.inputs = {own_part(input, parts)};
    call.outputs = {own_part(op_.recv, parts)};
    result.calls.push_back(std::move(call));
    return result;
  }

  [[nodiscard]] Crossing reduce_scatter(std::byte* scratch) const {
    Crossing result;
    HostCall call = of_counterparts(reduces_in_node(), op_.count);
    call.most_blocks = static_cast<int>(nodes_) + 1;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      std::byte* input = at(op_, op_.send, node * places_ * op_.count);
      if (reduces_in_node()) {
        std::byte* const sum = at(op_, scratch, node * op_.count);
        result.before.push_back(in_node(Collective::kReduceScatter, input, sum, op_.count));
        input = sum;
      }
      call.inputs.push_back({{.memory = input, .elements = op_.count}});
    }
    call.outputs = equal_blocks(op_.recv, 1);
    result.calls.push_back(std::move(call));
    return result;
  }

  [[nodiscard]] Crossing all_gather() const {
    Crossing result;
    HostCall call = of_counterparts(/*is_reduced=*/false, op_.count);
    call.most_blocks = static_cast<int>(nodes_) + 1;
    call.inputs = equal_blocks(op_.send, 1);
    for (std::int64_t other = 0; other < nodes_; ++other) {
      std::byte* const of_node = at(op_, op_.recv, other * places_ * op_.count);
      std::byte* const of_counterpart = of_node + place_ * op_.count * element_bytes(op_);
      const bool is_own = other == node();
      call.outputs.push_back(
          {{.memory = is_own ? nullptr : of_counterpart, .elements = op_.count}});
      if (is_own || places_ > 1) {
        (is_own ? result.meanwhile : result.after)
            .push_back(in_node(Collective::kAllGather,
                               is_own ? bytes_of(op_.send) : of_counterpart,
                               of_node,
                               op_.count));
      }
    }
    result.calls.push_back(std::move(call));
    return result;
  }

  [[nodiscard]] Crossing broadcast() const {
    Crossing result;
    const Parts parts = this->parts();
    HostCall call = of_counterparts(/*is_reduced=*/false, parts.part + parts.rest);
    call.most_blocks = 2;
    const bool is_root = shape_.rank == op_.root;
    if (op_.root / places_ == node()) {
      result.before.push_back(
          in_node(Collective::kBroadcast, bytes_of(op_.send), bytes_of(op_.recv), op_.count));
      call.inputs = {own_part(is_root ? op_.send : op_.recv, parts)};
    } else if (parts.part > 0) {
      result.after.push_back(in_node(Collective::kAllGather,
                                     at(op_, op_.recv, place_ * parts.part),
                                     bytes_of(op_.recv),
                                     parts.part));
    }
    // The root of the counterparts writes its output, too.
    call.outputs = {op_.root / places_ == node()
                        ? DeviceBlock{{.memory = nullptr, .elements = parts.part + parts.rest}}
                        : own_part(op_.recv, parts)};
    result.calls.push_back(std::move(call));
    return result;
  }

  [[nodiscard]] Crossing all_to_all() const {
    Crossing result;
    HostCall call{.operation = bare(op_), .elements = op_.count, .most_blocks = 2 * shape_.ranks()};
    call.operation.varying = true;
    const std::int64_t own = node() * places_ * op_.count;
    result.meanwhile.push_back(
        in_node(Collective::kAllToAll, at(op_, op_.send, own), at(op_, op_.recv, own), op_.count));
    for (int peer = 0; peer < shape_.ranks(); ++peer) {
      const std::int64_t elements = peer / places_ == node() ? 0 : op_.count;
      const std::int64_t begin = peer * op_.count;
      call.inputs.push_back({{.memory = at(op_, op_.send, begin), .elements = elements}});
      call.outputs.push_back({{.memory = at(op_, op_.recv, begin), .elements = elements}});
    }
    result.calls.push_back(std::move(call));
    return result;
  }

  const Operation& op_;
  const NodeShape& shape_;
  std::int64_t places_;  // ranks a node
  std::int64_t place_;
  std::int64_t nodes_;
};

}  // namespace

std::vector<int> NodeShape::local() const {
  std::vector<int> ranks;
  for (int other = 0; other < this->ranks(); ++other) {
    if (nodes[static_cast<std::size_t>(other)] == node()) {
      ranks.push_back(other);
    }
  }
  return ranks;
}

int NodeShape::ranks_a_node() const {
  const auto on_first = static_cast<int>(std::ranges::count(nodes, nodes.front()));
  for (int other = 0; other < ranks(); ++other) {
    const int node = nodes[static_cast<std::size_t>(other)];
    const int first = other / on_first * on_first;  // of its node, if it is as it has to be
    if (node != nodes[static_cast<std::size_t>(first)] ||
        std::ranges::count(nodes, node) != on_first) {
      return 0;
    }
  }
  return on_first;
}

Crossing cross(const Operation& operation,
               const NodeShape& shape,
               bool in_rank_order,
               std::byte* scratch) {
  const Divider divider(operation, shape);
  return divider.divides(in_rank_order) ? divider.divide(scratch) : divider.whole();
}

std::size_t scratch_bytes(const Operation& operation, const NodeShape& shape, bool in_rank_order) {
  const Divider divider(operation, shape);
  return divider.divides(in_rank_order)
             ? static_cast<std::size_t>(divider.scratch_elements()) * size_bytes(operation.dtype)
             : 0;
}

Crossing cross_messages(const std::vector<const Operation*>& messages, const NodeShape& shape) {
  Crossing result;
  const std::vector<int> local = shape.local();
  for (const Operation* const message : messages) {
    const auto in_node = std::ranges::find(local, message->peer);
    if (in_node != local.end()) {
      result.meanwhile.push_back(*message);
      result.meanwhile.back().peer = static_cast<int>(in_node - local.begin());
      result.meanwhile.back().request.codec.clear();
      continue;
    }
    HostCall call{.operation = bare(*message),
                  .elements = message->count,
                  .most_blocks = 1,
                  .can_be_cut = false};
    const void* const buffer = message->is_send ? message->send : message->recv;
    (message->is_send ? call.inputs : call.outputs)
        .push_back({{.memory = bytes_of(buffer), .elements = message->count}});
    result.calls.push_back(std::move(call));
  }
  return result;
}

}  // namespace sennit
