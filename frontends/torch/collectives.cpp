#include "collectives.hpp"

#include "failures.hpp"

#include <utility>

namespace sennit::pytorch {
namespace {

using c10d::OpType;

// What the calls use of tensors in any dense order; they are copied back at the end.
Tensors put_in_order(Operation& operation, const Tensors& tensors) {
  Tensors buffers;
  buffers.reserve(tensors.size());
  bool are_copies = false;
  for (const at::Tensor& tensor : tensors) {
    buffers.push_back(in_order(tensor));
    are_copies = are_copies || !buffers.back().is_same(tensor);
  }
  operation.inputs = tensors;
  operation.buffers = buffers;
  operation.outputs = tensors;
  if (are_copies) {
    operation.finish = [buffers, tensors] {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        hand_back(buffers[i], tensors[i]);
      }
    };
  }
  return buffers;
}

}  // namespace

Operation broadcast(const Tensors& tensors, const c10d::BroadcastOptions& options) {
  Operation operation = described(OpType::BROADCAST, "sennit:broadcast", options);
  const at::Tensor buffer = only(put_in_order(operation, {only(tensors)}));
  operation.start = [buffer, root = static_cast<int>(options.rootRank)](Calls& calls) {
    void* const data = buffer.mutable_data_ptr();
    check(sennit_broadcast(data,
                           data,
                           count_of(buffer),
                           dtype_of(buffer),
                           root,
                           calls.comm(),
                           calls.stream(),
                           calls.options()));
  };
  return operation;
}

Operation all_reduce(const Tensors& tensors, const c10d::AllreduceOptions& options) {
  Operation operation = described(OpType::ALLREDUCE, "sennit:all_reduce", options);
  const at::Tensor buffer = only(put_in_order(operation, {only(tensors)}));
  operation.start = [buffer, op = operator_of(options.reduceOp)](Calls& calls) {
    void* const data = buffer.mutable_data_ptr();
    check(sennit_all_reduce(data,
                            data,
                            count_of(buffer),
                            dtype_of(buffer),
                            op,
                            calls.comm(),
                            calls.stream(),
                            calls.options()));
  };
  return operation;
}

Operation all_reduce_each(const Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  refuse_twice(tensors);
  Operation operation =
      described(OpType::ALLREDUCE_COALESCED, "sennit:all_reduce_coalesced", options);
  const Tensors buffers = put_in_order(operation, tensors);
  operation.start = [buffers, op = operator_of(options.reduceOp)](Calls& calls) {
    CallGroup group(buffers.size());
    for (const at::Tensor& buffer : buffers) {
      void* const data = buffer.mutable_data_ptr();
      check(sennit_all_reduce(data,
                              data,
                              count_of(buffer),
                              dtype_of(buffer),
                              op,
                              calls.comm(),
                              calls.stream(),
                              calls.options()));
    }
    group.end();
  };
  return operation;
}

Operation reduce(const Tensors& tensors, const c10d::ReduceOptions& options) {
  Operation operation = described(OpType::REDUCE, "sennit:reduce", options);
  const at::Tensor buffer = only(put_in_order(operation, {only(tensors)}));
  operation.start = [buffer,
                     op = operator_of(options.reduceOp),
                     root = static_cast<int>(options.rootRank)](Calls& calls) {
    void* const data = buffer.mutable_data_ptr();
    check(sennit_reduce(data,
                        data,
                        count_of(buffer),
                        dtype_of(buffer),
                        op,
                        root,
                        calls.comm(),
                        calls.stream(),
                        calls.options()));
  };
  return operation;
}

Operation all_gather(Ranks ranks,
                     const Tensors& outputs,
                     const Tensors& inputs,
                     const c10d::AllgatherOptions& options) {
  require(outputs.size() == inputs.size(), "there must be one output for each input");
  Operation operation = described(OpType::_ALLGATHER_BASE, "sennit:all_gather", options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_count(checked(outputs[i]), static_cast<std::size_t>(ranks.size), checked(inputs[i]));
  }
  refuse_twice(outputs);
  operation.start = [outputs, inputs](Calls& calls) {
    CallGroup group(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check(sennit_all_gather(inputs[i].const_data_ptr(),
                              outputs[i].mutable_data_ptr(),
                              count_of(inputs[i]),
                              dtype_of(inputs[i]),
                              calls.comm(),
                              calls.stream(),
                              calls.options()));
    }
    group.end();
  };
  operation.inputs = inputs;
  operation.outputs = outputs;
  return operation;
}

Operation reduce_scatter(Ranks ranks,
                         const Tensors& outputs,
                         const Tensors& inputs,
                         const c10d::ReduceScatterOptions& options) {
  require(outputs.size() == inputs.size(), "there must be one output for each input");
  Operation operation = described(OpType::_REDUCE_SCATTER_BASE, "sennit:reduce_scatter", options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_count(checked(inputs[i]), static_cast<std::size_t>(ranks.size), checked(outputs[i]));
  }
  refuse_twice(outputs);
  operation.start = [outputs, inputs, op = operator_of(options.reduceOp)](Calls& calls) {
    CallGroup group(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check(sennit_reduce_scatter(inputs[i].const_data_ptr(),
                                  outputs[i].mutable_data_ptr(),
                                  count_of(outputs[i]),
                                  dtype_of(outputs[i]),
                                  op,
                                  calls.comm(),
                                  calls.stream(),
                                  calls.options()));
    }
    group.end();
  };
  operation.inputs = inputs;
  operation.outputs = outputs;
  return operation;
}

Operation all_to_all(Ranks ranks,
                     const at::Tensor& output,
                     const at::Tensor& input,
                     const std::vector<std::int64_t>& output_splits,
                     const std::vector<std::int64_t>& input_splits,
                     const c10d::AllToAllOptions& options) {
  Operation operation = described(OpType::ALLTOALL_BASE, "sennit:all_to_all", options);
  require_same_type(checked(input), checked(output));
  operation.inputs = {input};
  operation.outputs = {output};
  if (output_splits.empty() && input_splits.empty()) {
    const auto parts = static_cast<std::size_t>(ranks.size);
    require(count_of(input) % parts == 0 && input.numel() == output.numel(),
            c10::str("an input of ",
                     input.numel(),
                     " elements and an output of ",
                     output.numel(),
                     " cannot be split evenly by ",
                     parts,
                     " ranks"));
    operation.start = [output, input, parts](Calls& calls) {
      check(sennit_all_to_all(input.const_data_ptr(),
                              output.mutable_data_ptr(),
                              count_of(input) / parts,
                              dtype_of(input),
                              calls.comm(),
                              calls.stream(),
                              calls.options()));
    };
  } else {
    operation.start = [output,
                       input,
                       sent = elements_of(input, input_splits, ranks.size),
                       received = elements_of(output, output_splits, ranks.size)](Calls& calls) {
      check(sennit_all_to_all_v(input.const_data_ptr(),
                                sent.data(),
                                nullptr,
                                output.mutable_data_ptr(),
                                received.data(),
                                nullptr,
                                dtype_of(input),
                                calls.comm(),
                                calls.stream(),
                                calls.options()));
    };
  }
  return operation;
}

Operation barrier(const c10d::BarrierOptions& options) {
  Operation operation = described(OpType::BARRIER, "sennit:barrier", options);
  operation.start = [](Calls& calls) {
    check(sennit_barrier(calls.comm(), calls.stream(), calls.options()));
  };
  return operation;
}

Operation send(const Tensors& tensors, int peer, int tag) {
  Operation operation;
  operation.type = OpType::SEND;
  operation.title = "sennit:send";
  operation.timeout = c10d::kUnsetTimeout;
  const at::Tensor buffer = in_order(only(tensors));
  operation.inputs = tensors;
  operation.buffers = {buffer};
  operation.start = [buffer, peer, tag](Calls& calls) {
    check(sennit_send(buffer.const_data_ptr(),
                      count_of(buffer),
                      dtype_of(buffer),
                      peer,
                      calls.comm(),
                      calls.stream(),
                      calls.options(tag)));
  };
  return operation;
}

Operation recv(const Tensors& tensors, int peer, int tag) {
  Operation operation;
  operation.type = peer == SENNIT_ANY_RANK ? OpType::RECVANYSOURCE : OpType::RECV;
  operation.title = "sennit:recv";
  operation.timeout = c10d::kUnsetTimeout;
  const at::Tensor buffer = only(put_in_order(operation, {only(tensors)}));
  operation.start = [buffer, peer, tag](Calls& calls) {
    check(sennit_recv(buffer.mutable_data_ptr(),
                      count_of(buffer),
                      dtype_of(buffer),
                      peer,
                      calls.comm(),
                      calls.stream(),
                      calls.options(tag)));
  };
  return operation;
}

}  // namespace sennit::pytorch
