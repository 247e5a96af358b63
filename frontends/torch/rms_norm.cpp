#include "rms_norm.hpp"

#include "backend.hpp"
#include "failures.hpp"

#include <string>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>
#include <tuple>

namespace sennit::pytorch {
namespace {

void require_like(const char* what, const at::Tensor& tensor, const at::Tensor& x) {
  TORCH_CHECK(tensor.sizes() == x.sizes() && tensor.scalar_type() == x.scalar_type() &&
                  tensor.device() == x.device() && tensor.is_contiguous(),
              "all_reduce_rms_norm: ",
              what,
              " must be contiguous, with the shape, type and device of x");
}

void require_fit(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() > 0 && x.is_contiguous(),
              "all_reduce_rms_norm: x must be contiguous, with at least one dimension");
  require_like("residual", residual, x);
  TORCH_CHECK(weight.dim() == 1 && weight.size(0) == x.size(-1) && weight.is_contiguous() &&
                  weight.scalar_type() == x.scalar_type() && weight.device() == x.device(),
              "all_reduce_rms_norm: weight must have one dimension of ",
              x.size(-1),
              " elements, contiguous, with the type and device of x");
}

// By any backend: what the kernel does in one.
at::Tensor in_steps(c10d::ProcessGroup& group,
                    const at::Tensor& x,
                    at::Tensor& residual,
                    const at::Tensor& weight,
                    double epsilon) {
  Tensors sum = {x.clone()};
  group.allreduce(sum)->wait();
  residual.add_(sum.front());
  return at::rms_norm(residual, {x.size(-1)}, weight, epsilon);
}

at::Tensor quantize(const at::Tensor& output, const at::Tensor& scale) {
  constexpr double kMost = 448;
  return (output.to(at::kFloat) / scale).clamp(-kMost, kMost).to(at::kFloat8_e4m3fn);
}

// That of Sennit for GPUs; null: another one.
Backend* backend_for(c10d::ProcessGroup& group, const at::Tensor& x) {
  return x.is_cuda() ? dynamic_cast<Backend*>(group.getBackend(x.device().type()).get()) : nullptr;
}

// The call, made; its output and what is quantized are new tensors.
Normalised made(Normalised call, const std::string& group_name) {
  require_fit(call.x, call.residual, call.weight);
  const auto group = c10d::resolve_process_group(group_name);
  Backend* const backend = backend_for(*group, call.x);
  if (backend == nullptr) {
    call.output = in_steps(*group, call.x, call.residual, call.weight, call.epsilon);
    if (call.scale) {
      call.quantized = quantize(call.output, *call.scale);
    }
    return call;
  }
  call.output = at::empty_like(call.x);
  if (call.scale) {
    call.quantized = at::empty_like(call.x, call.x.options().dtype(at::kFloat8_e4m3fn));
  }
  backend->all_reduce_rms_norm(call);
  return call;
}

at::Tensor normalise(const at::Tensor& x,
                     at::Tensor& residual,
                     const at::Tensor& weight,
                     double epsilon,
                     const std::string& group_name) {
  return made({x, residual, weight, epsilon, {}, {}, {}}, group_name).output;
}

std::tuple<at::Tensor, at::Tensor> normalise_and_quantize(const at::Tensor& x,
                                                          at::Tensor& residual,
                                                          const at::Tensor& weight,
                                                          double epsilon,
                                                          const at::Tensor& scale,
                                                          const std::string& group_name) {
  TORCH_CHECK(
      scale.numel() == 1 && scale.scalar_type() == at::kFloat && scale.device() == x.device(),
      "all_reduce_rms_norm_fp8: scale must have one element of float32 on the device of x");
  const Normalised call = made({x, residual, weight, epsilon, {}, {}, scale}, group_name);
  return {call.output, *call.quantized};
}

// Of what a compiler traces.
at::Tensor shape_of(const at::Tensor& x,
                    at::Tensor& /*residual*/,
                    const at::Tensor& /*weight*/,
                    double /*epsilon*/,
                    const std::string& /*group_name*/) {
  return at::empty_like(x);
}

std::tuple<at::Tensor, at::Tensor> shapes_of(const at::Tensor& x,
                                             at::Tensor& /*residual*/,
                                             const at::Tensor& /*weight*/,
                                             double /*epsilon*/,
                                             const at::Tensor& /*scale*/,
                                             const std::string& /*group_name*/) {
  return {at::empty_like(x), at::empty_like(x, x.options().dtype(at::kFloat8_e4m3fn))};
}

}  // namespace

Operation all_reduce_rms_norm(const Normalised& normalised) {
  Operation operation;
  operation.type = c10d::OpType::ALLREDUCE;
  operation.title = "sennit:all_reduce_rms_norm";
  operation.timeout = c10d::kUnsetTimeout;
  operation.is_async = false;
  operation.inputs = {normalised.x};
  operation.buffers = {normalised.residual, normalised.weight};
  operation.outputs = {normalised.output};
  operation.start = [normalised](Calls& calls) {
    const at::Tensor& x = normalised.x;
    sennit_rms_norm_t norm = SENNIT_RMS_NORM_INITIALIZER;
    norm.row_elements = static_cast<std::size_t>(x.size(-1));
    norm.epsilon = normalised.epsilon;
    norm.residual = normalised.residual.mutable_data_ptr();
    norm.weight = normalised.weight.const_data_ptr();
    norm.quantized = normalised.quantized ? normalised.quantized->mutable_data_ptr() : nullptr;
    norm.scale = normalised.scale ? normalised.scale->const_data_ptr<float>() : nullptr;
    sennit_call_options_t options = *calls.options();
    options.rms_norm = &norm;
    check(sennit_all_reduce(x.const_data_ptr(),
                            normalised.output.mutable_data_ptr(),
                            count_of(x),
                            dtype_of(x),
                            SENNIT_SUM,
                            calls.comm(),
                            calls.stream(),
                            &options));
  };
  return operation;
}

}  // namespace sennit::pytorch

TORCH_LIBRARY(sennit, library) {
  library.def(
      "all_reduce_rms_norm(Tensor x, Tensor(a!) residual, Tensor weight, float epsilon, "
      "str group_name) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "all_reduce_rms_norm_fp8(Tensor x, Tensor(a!) residual, Tensor weight, float epsilon, "
      "Tensor scale, str group_name) -> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(sennit, CompositeExplicitAutograd, library) {
  library.impl("all_reduce_rms_norm", &sennit::pytorch::normalise);
  library.impl("all_reduce_rms_norm_fp8", &sennit::pytorch::normalise_and_quantize);
}

TORCH_LIBRARY_IMPL(sennit, Meta, library) {
  library.impl("all_reduce_rms_norm", &sennit::pytorch::shape_of);
  library.impl("all_reduce_rms_norm_fp8", &sennit::pytorch::shapes_of);
}
