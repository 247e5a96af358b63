// Tensors as calls take them: which are refused, and which are copied.
#pragma once

#include "sennit/sennit.h"

#include <ATen/ATen.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace sennit::pytorch {

using Tensors = std::vector<at::Tensor>;

sennit_dtype_t dtype_of(const at::Tensor& tensor);
sennit_redop_t operator_of(const c10d::ReduceOp& op);
std::size_t count_of(const at::Tensor& tensor);

// The one element of a list: a rank has one device.
template <typename Element>
const Element& only(const std::vector<Element>& elements);

// Refuses a tensor whose memory cannot be used as it lies there.
const at::Tensor& checked(const at::Tensor& tensor);

// The tensor, or a contiguous copy of a dense one in another order (channels_last). A copy, since
// the ranks need not agree about the order: a rank with channels_last and one without would get
// each other's elements.
at::Tensor in_order(const at::Tensor& tensor);
// Copies what in_order copied back to where it came from.
void hand_back(const at::Tensor& buffer, const at::Tensor& tensor);

[[noreturn]] void refuse_lazy_view();
// Refuses outputs of which two have the same memory.
void refuse_twice(const Tensors& outputs);

// A new flat tensor of the elements of all.
at::Tensor joined(const Tensors& tensors);
// A new flat tensor that the elements of all fit into, which are of one type.
at::Tensor room_for(const Tensors& tensors);
// Copies a flat tensor, part by part, to tensors.
void hand_out(const at::Tensor& flat, const Tensors& tensors);

// Refuses tensors that differ in type.
void require_same_type(const at::Tensor& one, const at::Tensor& other);
// Refuses a tensor that is not so many parts.
void require_count(const at::Tensor& whole, std::size_t parts, const at::Tensor& part);
// Elements for each rank, by the rows for each; no splits: the same number for all.
std::vector<std::size_t> elements_of(const at::Tensor& tensor,
                                     const std::vector<std::int64_t>& splits,
                                     int ranks);

void refuse_number(std::size_t count);

template <typename Element>
const Element& only(const std::vector<Element>& elements) {
  if (elements.size() != 1) {
    refuse_number(elements.size());
  }
  return elements.front();
}

}  // namespace sennit::pytorch
