#include "backend.hpp"

#include "failures.hpp"
#include "tensors.hpp"
#include "unlocked.hpp"

#include <algorithm>
#include <utility>

namespace sennit::pytorch {
namespace {

using c10d::OpType;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

template <typename Options>
Operation described(OpType type, const char* title, const Options& options) {
  Operation operation;
  operation.type = type;
  operation.title = title;
  operation.timeout = options.timeout;
  operation.is_async = options.asyncOp;
  return operation;
}

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

// What the calls use of tensors in any dense order; they are copied back at the end.
Tensors put_in_order(Operation& operation, const Tensors& tensors) {
  Tensors buffers;
  buffers.reserve(tensors.size());
  bool are_copies = false;
  for (const at::Tensor& tensor : tensors) {
    buffers.push_back(in_order(tensor));
    are_copies = are_copies || !buffers.back().is_same(tensor);
  }
  operation.tensors = buffers;
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

void require_count(const at::Tensor& whole, std::size_t parts, const at::Tensor& part) {
  require(count_of(whole) == parts * count_of(part),
          c10::str("a tensor of ",
                   whole.numel(),
                   " elements cannot be ",
                   parts,
                   " parts of ",
                   part.numel()));
  require_same_type(whole, part);
}

void refuse_tag(int tag) {
  if (tag != 0) {
    refuse(SENNIT_UNSUPPORTED,
           c10::str("the backend sennit has no tags, here ",
                    tag,
                    ": messages of two ranks arrive in order"));
  }
}

}  // namespace

Backend::Backend(int rank, int size, sennit_comm_t comm, JoinGpus join_gpus, CallWishes wishes)
    : c10d::Backend(rank, size),
      comm_(comm),
      join_gpus_(std::move(join_gpus)),
      wishes_(std::move(wishes)) {}

Backend::~Backend() {
  const Unlocked unlocked;
  shutdown();
}

void Backend::abort() {
  const Unlocked unlocked;
  if (comm_ != nullptr) {
    sennit_comm_abort(comm_);
  }
  if (gpus_) {
    gpus_->abort();
  }
}

void Backend::shutdown() {
  const Unlocked unlocked;
  if (gpus_) {
    gpus_->shutdown();
  }
  if (comm_ != nullptr) {
    sennit_comm_destroy(std::exchange(comm_, nullptr));
  }
  coalesced_.clear();
  dropped_->clear();
}

double Backend::deadline_of(std::chrono::milliseconds timeout) const {
  const auto asked = timeout < std::chrono::milliseconds(0) ? timeout_ : timeout;
  if (asked < std::chrono::milliseconds(0)) {
    return 0.0;  // that of the communicator
  }
  constexpr double kNone = -1.0;
  return asked.count() == 0 ? kNone : std::chrono::duration<double>(asked).count();
}

GpuRanks& Backend::gpu_ranks(const at::Device& device) {
  if (!gpus_) {
    gpus_ = std::make_shared<GpuRanks>(join_gpus_(device.str()), device, getRank());
  }
  return *gpus_;
}

WorkPointer Backend::run(Operation operation, const at::Tensor* place, Kind kind) {
  const Unlocked unlocked;
  if (kind == Kind::kCollective) {
    ++sequence_;
  }
  dropped_->sweep();
  WorkPointer work;
  if (place == nullptr || place->is_cpu()) {
    work = run_on_host(operation);
  } else {
    require(place->is_cuda(),
            c10::str("the backend sennit moves tensors of CPUs and CUDA GPUs, this one is on ",
                     place->device()));
    work = gpu_ranks(place->device())
               .run(std::move(operation),
                    deadline_of(operation.timeout),
                    wishes_,
                    is_coalescing_ || kind == Kind::kMessage);
  }
  if (is_coalescing_) {
    coalesced_.push_back(work);
  }
  return work;
}

WorkPointer Backend::run_on_host(Operation& operation) {
  if (comm_ == nullptr) {
    refuse(SENNIT_INVALID_USAGE, "the process group has been shut down");
  }
  auto work = c10::make_intrusive<HostWork>(getRank(), comm_, dropped_, operation);
  work->start(operation, deadline_of(operation.timeout), wishes_);
  return work;
}

void Backend::startCoalescing() {
  is_coalescing_ = true;
  coalesced_.clear();
}

// Host ranks have started the calls already: nobody has to wait for one to start the next.
WorkPointer Backend::endCoalescing() {
  const Unlocked unlocked;
  is_coalescing_ = false;
  if (gpus_) {
    gpus_->make_posted();
  }
  return c10::make_intrusive<ManyWorks>(getRank(), std::exchange(coalesced_, {}));
}

// ---- Collectives of one tensor ----

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
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
  return run(std::move(operation), &buffer);
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors);
  if (tensor.layout() == at::kSparse) {
    return allreduce_sparse(tensors, options);
  }
  Operation operation = described(OpType::ALLREDUCE, "sennit:all_reduce", options);
  const at::Tensor buffer = only(put_in_order(operation, {tensor}));
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
  return run(std::move(operation), &buffer);
}

WorkPointer Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions&) {
  refuse(SENNIT_UNSUPPORTED,
         c10::str("the backend sennit moves dense tensors, this one is ", only(tensors).layout()));
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
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
  return run(std::move(operation), buffers.empty() ? nullptr : &buffers.front());
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
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
  return run(std::move(operation), &buffer);
}

WorkPointer Backend::_allgather_base(at::Tensor& output,
                                     at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  require(outputs.size() == inputs.size(), "there must be one output for each input");
  Operation operation = described(OpType::_ALLGATHER_BASE, "sennit:all_gather", options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_count(
        checked(outputs[i]), static_cast<std::size_t>(getSize()), checked(inputs[i]));
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
  operation.tensors = inputs;
  operation.outputs = outputs;
  return run(std::move(operation), inputs.empty() ? nullptr : &inputs.front());
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output,
                                          at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  require(outputs.size() == inputs.size(), "there must be one output for each input");
  Operation operation = described(OpType::_REDUCE_SCATTER_BASE, "sennit:reduce_scatter", options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_count(
        checked(inputs[i]), static_cast<std::size_t>(getSize()), checked(outputs[i]));
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
  operation.tensors = inputs;
  operation.outputs = outputs;
  return run(std::move(operation), inputs.empty() ? nullptr : &inputs.front());
}

WorkPointer Backend::alltoall_base(at::Tensor& output,
                                   at::Tensor& input,
                                   std::vector<std::int64_t>& output_splits,
                                   std::vector<std::int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  Operation operation = described(OpType::ALLTOALL_BASE, "sennit:all_to_all", options);
  require_same_type(checked(input), checked(output));
  operation.tensors = {input};
  operation.outputs = {output};
  if (output_splits.empty() && input_splits.empty()) {
    const auto ranks = static_cast<std::size_t>(getSize());
    require(count_of(input) % ranks == 0 && input.numel() == output.numel(),
            c10::str("an input of ",
                     input.numel(),
                     " elements and an output of ",
                     output.numel(),
                     " cannot be split evenly by ",
                     ranks,
                     " ranks"));
    operation.start = [output, input, ranks](Calls& calls) {
      check(sennit_all_to_all(input.const_data_ptr(),
                              output.mutable_data_ptr(),
                              count_of(input) / ranks,
                              dtype_of(input),
                              calls.comm(),
                              calls.stream(),
                              calls.options()));
    };
  } else {
    operation.start = [output,
                       input,
                       sent = elements_of(input, input_splits, getSize()),
                       received = elements_of(output, output_splits, getSize())](Calls& calls) {
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
  return run(std::move(operation), &input);
}

// For all ranks, and for the work that their current streams have.
WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  if (gpus_) {
    const Unlocked unlocked;
    gpus_->synchronize();
  }
  Operation operation = described(OpType::BARRIER, "sennit:barrier", options);
  operation.start = [](Calls& calls) {
    check(sennit_barrier(calls.comm(), calls.stream(), calls.plain_options()));
  };
  return run(std::move(operation), nullptr);
}

// ---- Collectives of lists of tensors ----

WorkPointer Backend::allgather(std::vector<Tensors>& outputs,
                               Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  std::vector<Tensors> lists;
  for (const at::Tensor& output : only(outputs)) {
    require_count(output, 1, only(inputs));
    lists.push_back({output});
  }
  return allgather_coalesced(lists, inputs, options);
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs,
                                         Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  Operation operation = described(OpType::ALLGATHER, "sennit:all_gather", options);
  const Tensors all = flattened(outputs);
  const at::Tensor flat = room_for(all);
  const at::Tensor input = joined(inputs);
  require_count(flat, static_cast<std::size_t>(getSize()), input);
  operation.start = [flat, input](Calls& calls) {
    check(sennit_all_gather(input.const_data_ptr(),
                            flat.mutable_data_ptr(),
                            count_of(input),
                            dtype_of(input),
                            calls.comm(),
                            calls.stream(),
                            calls.options()));
  };
  operation.tensors = {input, flat};
  operation.outputs = all;
  operation.finish = [flat, all] { hand_out(flat, all); };
  return run(std::move(operation), &flat);
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs,
                            Tensors& inputs,
                            const c10d::GatherOptions& options) {
  Operation operation = described(OpType::GATHER, "sennit:gather", options);
  const at::Tensor input = checked(only(inputs));
  const int root = static_cast<int>(options.rootRank);
  at::Tensor flat;
  operation.tensors = {input};
  if (getRank() == root) {
    const Tensors& all = only(outputs);
    require_ranks(all.size());
    flat = room_for(all);
    require_count(flat, all.size(), input);
    operation.tensors.push_back(flat);
    operation.outputs = all;
    operation.finish = [flat, all] { hand_out(flat, all); };
  }
  operation.start = [flat, input, root](Calls& calls) {
    check(sennit_gather(input.const_data_ptr(),
                        flat.defined() ? flat.mutable_data_ptr() : nullptr,
                        count_of(input),
                        dtype_of(input),
                        root,
                        calls.comm(),
                        calls.stream(),
                        calls.options()));
  };
  return run(std::move(operation), &input);
}

WorkPointer Backend::scatter(Tensors& outputs,
                             std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& options) {
  Operation operation = described(OpType::SCATTER, "sennit:scatter", options);
  const at::Tensor output = checked(only(outputs));
  const int root = static_cast<int>(options.rootRank);
  at::Tensor input;
  if (getRank() == root) {
    require_ranks(only(inputs).size());
    input = joined(only(inputs));
    require_count(input, only(inputs).size(), output);
    operation.tensors = {input};
  }
  operation.outputs = {output};
  operation.start = [output, input, root](Calls& calls) {
    check(sennit_scatter(input.defined() ? input.const_data_ptr() : nullptr,
                         output.mutable_data_ptr(),
                         count_of(output),
                         dtype_of(output),
                         root,
                         calls.comm(),
                         calls.stream(),
                         calls.options()));
  };
  return run(std::move(operation), &output);
}

WorkPointer Backend::reduce_scatter(Tensors& outputs,
                                    std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  const Tensors& list = only(inputs);
  require_ranks(list.size());
  const bool are_equal = std::ranges::all_of(
      list, [&](const at::Tensor& part) { return part.numel() == list.front().numel(); });
  at::Tensor output = only(outputs);
  if (!are_equal) {
    return reduce_each(output, list, options);
  }
  at::Tensor input = joined(list);
  return _reduce_scatter_base(output, input, options);
}

// Parts of different sizes: a reduce for each rank.
WorkPointer Backend::reduce_each(const at::Tensor& output,
                                 const Tensors& inputs,
                                 const c10d::ReduceScatterOptions& options) {
  Operation operation = described(OpType::REDUCE_SCATTER, "sennit:reduce_scatter", options);
  require_count(checked(output), 1, inputs[static_cast<std::size_t>(getRank())]);
  for (const at::Tensor& input : inputs) {
    require_same_type(checked(input), output);
  }
  operation.start =
      [output, inputs, op = operator_of(options.reduceOp), rank = getRank()](Calls& calls) {
        CallGroup group(inputs.size());
        int root = 0;
        for (const at::Tensor& input : inputs) {
          check(sennit_reduce(input.const_data_ptr(),
                              root == rank ? output.mutable_data_ptr() : nullptr,
                              count_of(input),
                              dtype_of(input),
                              op,
                              root,
                              calls.comm(),
                              calls.stream(),
                              calls.options()));
          ++root;
        }
        group.end();
      };
  operation.tensors = inputs;
  operation.outputs = {output};
  return run(std::move(operation), &output);
}

WorkPointer Backend::alltoall(Tensors& outputs,
                              Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  Operation operation = described(OpType::ALLTOALL, "sennit:all_to_all", options);
  require_ranks(inputs.size());
  require_ranks(outputs.size());
  const at::Tensor flat = room_for(outputs);
  const at::Tensor input = joined(inputs);
  require_same_type(input, flat);
  const auto counts_of = [](const Tensors& tensors) {
    std::vector<std::size_t> counts;
    for (const at::Tensor& tensor : tensors) {
      counts.push_back(count_of(tensor));
    }
    return counts;
  };
  operation.start =
      [flat, input, sent = counts_of(inputs), received = counts_of(outputs)](Calls& calls) {
        check(sennit_all_to_all_v(input.const_data_ptr(),
                                  sent.data(),
                                  nullptr,
                                  flat.mutable_data_ptr(),
                                  received.data(),
                                  nullptr,
                                  dtype_of(input),
                                  calls.comm(),
                                  calls.stream(),
                                  calls.options()));
      };
  operation.tensors = {input, flat};
  operation.outputs = outputs;
  operation.finish = [flat, outputs] { hand_out(flat, outputs); };
  return run(std::move(operation), &flat);
}

void Backend::require_ranks(std::size_t count) const {
  require(count == static_cast<std::size_t>(getSize()),
          c10::str("a list of ", count, " tensors cannot have one for each of ", getSize(), " ranks"));
}

// ---- Messages ----

WorkPointer Backend::send(Tensors& tensors, int peer, int tag) {
  refuse_tag(tag);
  Operation operation;
  operation.type = OpType::SEND;
  operation.title = "sennit:send";
  operation.timeout = c10d::kUnsetTimeout;
  const at::Tensor buffer = in_order(only(tensors));
  operation.tensors = {buffer};
  operation.start = [buffer, peer](Calls& calls) {
    check(sennit_send(buffer.const_data_ptr(),
                      count_of(buffer),
                      dtype_of(buffer),
                      peer,
                      calls.comm(),
                      calls.stream(),
                      calls.plain_options()));
  };
  return run(std::move(operation), &buffer, Kind::kMessage);
}

WorkPointer Backend::recv(Tensors& tensors, int peer, int tag) {
  refuse_tag(tag);
  Operation operation;
  operation.type = OpType::RECV;
  operation.title = "sennit:recv";
  operation.timeout = c10d::kUnsetTimeout;
  const at::Tensor buffer = only(put_in_order(operation, {only(tensors)}));
  operation.start = [buffer, peer](Calls& calls) {
    check(sennit_recv(buffer.mutable_data_ptr(),
                      count_of(buffer),
                      dtype_of(buffer),
                      peer,
                      calls.comm(),
                      calls.stream(),
                      calls.plain_options()));
  };
  return run(std::move(operation), &buffer, Kind::kMessage);
}

WorkPointer Backend::recvAnysource(Tensors&, int) {
  refuse(SENNIT_UNSUPPORTED,
         "the backend sennit receives from a rank that is named: pass src");
}

}  // namespace sennit::pytorch
