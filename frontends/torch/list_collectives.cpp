#include "list_collectives.hpp"

#include "collectives.hpp"
#include "failures.hpp"

#include <algorithm>
#include <utility>

namespace sennit::pytorch {
namespace {

using c10d::OpType;

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

void require_ranks(Ranks ranks, std::size_t count) {
  require(
      count == static_cast<std::size_t>(ranks.size),
      c10::str("a list of ", count, " tensors cannot have one for each of ", ranks.size, " ranks"));
}

Operation reduce_each(Ranks ranks,
                      const at::Tensor& output,
                      const Tensors& inputs,
                      const c10d::ReduceScatterOptions& options) {
  Operation operation = described(OpType::REDUCE_SCATTER, "sennit:reduce_scatter", options);
  require_count(checked(output), 1, inputs[static_cast<std::size_t>(ranks.rank)]);
  for (const at::Tensor& input : inputs) {
    require_same_type(checked(input), output);
  }
  operation.start =
      [output, inputs, op = operator_of(options.reduceOp), rank = ranks.rank](Calls& calls) {
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
  return operation;
}

}  // namespace

Operation all_gather_lists(Ranks ranks,
                           const std::vector<Tensors>& outputs,
                           const Tensors& inputs,
                           const c10d::AllgatherOptions& options) {
  Operation operation = described(OpType::ALLGATHER, "sennit:all_gather", options);
  const Tensors all = flattened(outputs);
  const at::Tensor flat = room_for(all);
  const at::Tensor input = joined(inputs);
  require_count(flat, static_cast<std::size_t>(ranks.size), input);
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
  return operation;
}

Operation all_gather_list(Ranks ranks,
                          const std::vector<Tensors>& outputs,
                          const Tensors& inputs,
                          const c10d::AllgatherOptions& options) {
  std::vector<Tensors> lists;
  for (const at::Tensor& output : only(outputs)) {
    require_count(output, 1, only(inputs));
    lists.push_back({output});
  }
  return all_gather_lists(ranks, lists, inputs, options);
}

Operation gather(Ranks ranks,
                 const std::vector<Tensors>& outputs,
                 const Tensors& inputs,
                 const c10d::GatherOptions& options) {
  Operation operation = described(OpType::GATHER, "sennit:gather", options);
  const at::Tensor input = checked(only(inputs));
  const int root = static_cast<int>(options.rootRank);
  at::Tensor flat;
  operation.tensors = {input};
  if (ranks.rank == root) {
    const Tensors& all = only(outputs);
    require_ranks(ranks, all.size());
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
  return operation;
}

Operation scatter(Ranks ranks,
                  const Tensors& outputs,
                  const std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) {
  Operation operation = described(OpType::SCATTER, "sennit:scatter", options);
  const at::Tensor output = checked(only(outputs));
  const int root = static_cast<int>(options.rootRank);
  at::Tensor input;
  if (ranks.rank == root) {
    require_ranks(ranks, only(inputs).size());
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
  return operation;
}

Operation reduce_scatter_list(Ranks ranks,
                              const Tensors& outputs,
                              const std::vector<Tensors>& inputs,
                              const c10d::ReduceScatterOptions& options) {
  const Tensors& list = only(inputs);
  require_ranks(ranks, list.size());
  const bool are_equal = std::ranges::all_of(
      list, [&](const at::Tensor& part) { return part.numel() == list.front().numel(); });
  if (!are_equal) {
    return reduce_each(ranks, only(outputs), list, options);
  }
  return reduce_scatter(ranks, outputs, {joined(list)}, options);
}

Operation all_to_all_list(Ranks ranks,
                          const Tensors& outputs,
                          const Tensors& inputs,
                          const c10d::AllToAllOptions& options) {
  Operation operation = described(OpType::ALLTOALL, "sennit:all_to_all", options);
  require_ranks(ranks, inputs.size());
  require_ranks(ranks, outputs.size());
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
  return operation;
}

}  // namespace sennit::pytorch
