#include "sparse.hpp"

#include "failures.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace sennit::pytorch {
namespace {

// What all ranks have of one kind: a row for each element.
struct Rows {
  at::Tensor mine;
  at::Tensor all;
  std::vector<std::size_t> counts;  // of numbers, by rank
};

Rows room_for_all(const at::Tensor& mine, const at::Tensor& lengths) {
  Rows rows;
  rows.mine = mine.contiguous();
  std::vector<std::int64_t> shape = mine.sizes().vec();
  std::int64_t numbers_of_a_row = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    numbers_of_a_row *= shape[i];
  }
  const auto* const length = lengths.const_data_ptr<std::int64_t>();
  shape[0] = 0;
  for (std::int64_t rank = 0; rank < lengths.numel(); ++rank) {
    shape[0] += length[rank];
    rows.counts.push_back(static_cast<std::size_t>(length[rank] * numbers_of_a_row));
  }
  rows.all = at::empty(shape, mine.options());
  return rows;
}

void gather_rows(const Rows& rows, Calls& calls) {
  check(sennit_all_gather_v(rows.mine.const_data_ptr(),
                            count_of(rows.mine),
                            rows.all.mutable_data_ptr(),
                            rows.counts.data(),
                            nullptr,
                            dtype_of(rows.mine),
                            calls.comm(),
                            calls.stream(),
                            calls.options()));
}

}  // namespace

Tensors lengths_of_all(Ranks ranks, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) {
    refuse(SENNIT_UNSUPPORTED,
           "the backend sennit sums sparse tensors of CPUs: pass x.cpu() or x.to_dense()");
  }
  const at::NoGradGuard no_grad;
  return {at::full({1}, tensor.coalesce()._nnz(), at::kLong), at::empty({ranks.size}, at::kLong)};
}

Operation sparse_all_reduce(const at::Tensor& tensor,
                            const at::Tensor& lengths,
                            const c10d::AllreduceOptions& options) {
  const bool is_mean = options.reduceOp.op_ == c10d::ReduceOp::AVG;
  if (!is_mean && options.reduceOp.op_ != c10d::ReduceOp::SUM) {
    refuse(SENNIT_UNSUPPORTED, "the backend sennit sums sparse tensors; pass x.to_dense()");
  }
  const at::NoGradGuard no_grad;
  const at::Tensor mine = tensor.coalesce();
  const Rows places = room_for_all(mine.indices().t(), lengths);
  const Rows values = room_for_all(mine.values(), lengths);
  Operation operation = described(c10d::OpType::_ALLREDUCE_SPARSE, "sennit:all_reduce", options);
  operation.takes_settings = false;
  operation.inputs = {tensor};
  operation.buffers = {places.mine, places.all, values.mine, values.all};
  operation.outputs = {tensor};
  operation.start = [places, values](Calls& calls) {
    CallGroup group(2);
    gather_rows(places, calls);
    gather_rows(values, calls);
    group.end();
  };
  operation.finish = [tensor, places, values, is_mean, ranks = lengths.numel()] {
    const at::NoGradGuard no_grad_at_the_end;
    at::Tensor sum = at::sparse_coo_tensor(places.all.t(), values.all, tensor.sizes()).coalesce();
    tensor.copy_(is_mean ? sum.div(ranks) : sum);
  };
  return operation;
}

}  // namespace sennit::pytorch
