#include "tensors.hpp"

#include "failures.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

namespace sennit::pytorch {
namespace {

std::string text_of(std::size_t number) { return std::to_string(number); }

void refuse_what_is_not_in_memory(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) {
    refuse(SENNIT_UNSUPPORTED,
           c10::str("the backend sennit moves dense tensors, this one is ", tensor.layout()));
  }
  if (tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor()) {
    refuse_lazy_view();
  }
}

// Whether the elements fill one piece of memory, each with a place of its own.
bool is_dense(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

}  // namespace

void refuse_lazy_view() {
  refuse(SENNIT_UNSUPPORTED, "pass tensor.resolve_conj().resolve_neg(): this one is a lazy view");
}

sennit_dtype_t dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return SENNIT_FLOAT32;
    case at::kDouble:
      return SENNIT_FLOAT64;
    case at::kInt:
      return SENNIT_INT32;
    case at::kLong:
      return SENNIT_INT64;
    case at::kByte:
      return SENNIT_UINT8;
    case at::kChar:
      return SENNIT_INT8;
    case at::kShort:
      return SENNIT_INT16;
    case at::kUInt16:
      return SENNIT_UINT16;
    case at::kUInt32:
      return SENNIT_UINT32;
    case at::kUInt64:
      return SENNIT_UINT64;
    case at::kBool:
      return SENNIT_BOOL;
    case at::kHalf:
      return SENNIT_FLOAT16;
    case at::kBFloat16:
      return SENNIT_BFLOAT16;
    case at::kFloat8_e4m3fn:
      return SENNIT_FLOAT8_E4M3FN;
    case at::kFloat8_e5m2:
      return SENNIT_FLOAT8_E5M2;
    case at::kComplexFloat:
      return SENNIT_COMPLEX64;
    case at::kComplexDouble:
      return SENNIT_COMPLEX128;
    default:
      refuse(SENNIT_UNSUPPORTED,
             c10::str("the backend sennit has no type ",
                      tensor.scalar_type(),
                      "; view the tensor as one that docs/numerics.md lists"));
  }
}

sennit_redop_t operator_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return SENNIT_SUM;
    case c10d::ReduceOp::AVG:
      return SENNIT_AVG;
    case c10d::ReduceOp::PRODUCT:
      return SENNIT_PROD;
    case c10d::ReduceOp::MIN:
      return SENNIT_MIN;
    case c10d::ReduceOp::MAX:
      return SENNIT_MAX;
    case c10d::ReduceOp::BAND:
      return SENNIT_BITWISE_AND;
    case c10d::ReduceOp::BOR:
      return SENNIT_BITWISE_OR;
    case c10d::ReduceOp::BXOR:
      return SENNIT_BITWISE_XOR;
    default:
      refuse(SENNIT_UNSUPPORTED,
             "the backend sennit has no premultiplied sums; use sum, avg, prod, min or max");
  }
}

std::size_t count_of(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

void refuse_number(std::size_t count) {
  refuse(SENNIT_INVALID_ARGUMENT,
         "the backend sennit takes one tensor a rank, not " + text_of(count));
}

const at::Tensor& checked(const at::Tensor& tensor) {
  refuse_what_is_not_in_memory(tensor);
  require(tensor.is_contiguous(),
          "the backend sennit takes contiguous tensors: pass x.contiguous()");
  return tensor;
}

at::Tensor in_order(const at::Tensor& tensor) {
  refuse_what_is_not_in_memory(tensor);
  if (!tensor.is_contiguous() && is_dense(tensor)) {
    const at::NoGradGuard no_grad;
    return tensor.contiguous();
  }
  return checked(tensor);
}

void hand_back(const at::Tensor& buffer, const at::Tensor& tensor) {
  if (!buffer.is_same(tensor)) {
    const at::NoGradGuard no_grad;
    tensor.copy_(buffer);
  }
}

void refuse_twice(const Tensors& outputs) {
  std::unordered_set<const void*> places;
  for (const at::Tensor& tensor : outputs) {
    require(tensor.numel() == 0 || places.insert(tensor.const_data_ptr()).second,
            "the same tensor stands twice in a list of outputs");
  }
}

at::Tensor joined(const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  Tensors flat;
  flat.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(checked(tensor).reshape(-1));
  }
  return flat.size() == 1 ? flat.front() : at::cat(flat);
}

at::Tensor room_for(const Tensors& tensors) {
  require(!tensors.empty(), "the list of outputs is empty");
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    require(checked(tensor).scalar_type() == tensors.front().scalar_type(),
            "the tensors of a list must have one type");
    count += tensor.numel();
  }
  return at::empty({count}, tensors.front().options().requires_grad(false));
}

void hand_out(const at::Tensor& flat, const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

void require_same_type(const at::Tensor& one, const at::Tensor& other) {
  require(
      one.scalar_type() == other.scalar_type(),
      c10::str("the input is ", one.scalar_type(), ", but the output is ", other.scalar_type()));
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

std::vector<std::size_t> elements_of(const at::Tensor& tensor,
                                     const std::vector<std::int64_t>& splits,
                                     int ranks) {
  const std::int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
  std::vector<std::int64_t> shares = splits;
  if (shares.empty()) {
    require(rows % ranks == 0, c10::str(rows, " rows cannot be split evenly by ", ranks, " ranks"));
    shares.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  require(shares.size() == static_cast<std::size_t>(ranks),
          c10::str(shares.size(), " splits cannot go to ", ranks, " ranks"));
  require(std::ranges::all_of(shares, [](std::int64_t share) { return share >= 0; }),
          "a split is negative");
  const std::int64_t total = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  require(total == rows,
          c10::str("the splits add up to ", total, ", the tensor has ", rows, " rows"));
  const std::int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  std::vector<std::size_t> elements;
  elements.reserve(shares.size());
  for (const std::int64_t share : shares) {
    elements.push_back(static_cast<std::size_t>(share * row));
  }
  return elements;
}

}  // namespace sennit::pytorch
