// Each element type is in a list of each family of kernels: this program does not link otherwise.
#include "exec/sm/direct_kernels.hpp"
#include "exec/stream/reduction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace sennit {
namespace {

constexpr std::array kDtypes = {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) Dtype::enumerator,
#include "types/dtypes.def"
#undef SENNIT_DTYPE
};
constexpr std::array kReduceOps = {
#define SENNIT_REDUCE_OP(name, value, enumerator, ...) ReduceOp::enumerator,
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
};

// A type has one stand-in for all its kernels.
template <typename Find, typename Exists>
void expect_own_kernels(Find find, Exists exists) {
  std::set<const void*> kernels;
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      const void* const kernel = find(dtype, op);
      EXPECT_EQ(kernel != nullptr, exists(dtype, op));
      if (kernel != nullptr) {
        kernels.insert(kernel);
      }
    }
  }
  EXPECT_EQ(kernels.size(), kDtypes.size());
}

TEST(KernelLists, HaveEachTypeForCollectives) {
  for (const sm::KernelKind kind : sm::kKernelKinds) {
    expect_own_kernels(
        [&](Dtype dtype, ReduceOp op) { return sm::reducing_kernel(kind, dtype, op); },
        [&](Dtype dtype, ReduceOp op) { return sm::has_kernel(kind, dtype, op); });
  }
}

TEST(KernelLists, HaveEachTypeForReductions) {
  expect_own_kernels(stream::reduction_kernel, stream::has_reduction);
}

}  // namespace
}  // namespace sennit
