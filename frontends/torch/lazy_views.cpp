// Outputs that are lazy views (x.conj(), torch._neg_view(x)) are refused.
//
// Where an argument is such a view, PyTorch gives the backend a copy of it with the right values.
// For an input that is right. What a call receives would go into the copy, and would be lost. So
// these kernels stand in place of PyTorch's for the views, for calls of all backends, and do the
// same, except for the refusal.
#include "backend.hpp"
#include "failures.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

namespace sennit::pytorch {
namespace {

using c10::DispatchKey;
using torch::jit::Stack;

bool is_view(const at::Tensor& tensor, DispatchKey kind) {
  return tensor.defined() && tensor.key_set().has(kind);
}

at::Tensor resolved(const at::Tensor& tensor, DispatchKey kind) {
  if (!is_view(tensor, kind)) {
    return tensor;
  }
  return kind == DispatchKey::Conjugate ? tensor.resolve_conj() : tensor.resolve_neg();
}

// PyTorch does not resolve lists of lists: the backend sees them as they are.
Tensors tensors_of(const c10::IValue& argument) {
  if (argument.isTensor()) {
    return {argument.toTensor()};
  }
  return argument.isTensorList() ? argument.toTensorVector() : Tensors();
}

bool is_of_sennit(const c10::IValue& argument, const at::Device& device) {
  return dynamic_cast<Backend*>(
             argument.toCustomClass<c10d::ProcessGroup>()->getBackend(device.type()).get()) !=
         nullptr;
}

template <DispatchKey kind>
void call_with_views(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const std::size_t begin = stack->size() - arguments.size();
  for (const at::Tensor& output : tensors_of(stack->at(begin))) {
    for (std::size_t i = 0; is_view(output, kind) && i < arguments.size(); ++i) {
      if (arguments[i].name() == "process_group" &&
          is_of_sennit(stack->at(begin + i), output.device())) {
        refuse_lazy_view();
      }
    }
  }
  for (std::size_t i = begin; i < stack->size(); ++i) {
    c10::IValue& argument = stack->at(i);
    if (argument.isTensor()) {
      argument = resolved(argument.toTensor(), kind);
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const at::Tensor& tensor : argument.toTensorVector()) {
        tensors.push_back(resolved(tensor, kind));
      }
      argument = std::move(tensors);
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kind), stack);
}

// The calls of PyTorch whose first argument receives and is a tensor or a list of tensors.
constexpr const char* kReceiving[] = {"broadcast_",
                                      "allreduce_",
                                      "allreduce_coalesced_",
                                      "_allgather_base_",
                                      "allgather_into_tensor_coalesced_",
                                      "reduce_scatter_",
                                      "_reduce_scatter_base_",
                                      "reduce_scatter_tensor_coalesced_",
                                      "reduce_",
                                      "scatter_",
                                      "alltoall_",
                                      "alltoall_base_",
                                      "recv_"};

template <DispatchKey kind>
void put_in_place(torch::Library& calls) {
  for (const char* name : kReceiving) {
    calls.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_with_views<kind>>());
  }
}

}  // namespace
}  // namespace sennit::pytorch

TORCH_LIBRARY_IMPL(c10d, Conjugate, calls) {
  sennit::pytorch::put_in_place<c10::DispatchKey::Conjugate>(calls);
}

TORCH_LIBRARY_IMPL(c10d, Negative, calls) {
  sennit::pytorch::put_in_place<c10::DispatchKey::Negative>(calls);
}
