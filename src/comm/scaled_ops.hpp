// ScaledOps: operators with a scalar of this rank (premul_sum), which a communicator knows by
// numbers.
#pragma once

#include "types/reduce.hpp"

#include <map>

namespace sennit {

struct ScaledOp {
  Dtype dtype = Dtype::kFloat32;
  Scaling scaling;
  const void* scalar_on_device = nullptr;  // of GPU ranks: what `scaling` says otherwise
};

class ScaledOps {
 public:
  static constexpr int kFirst = 1024;

  int create(const ScaledOp& op);
  // kInvalidArgument where there is none of this number.
  [[nodiscard]] Result<ScaledOp> find(int number) const;
  Status destroy(int number);

 private:
  std::map<int, ScaledOp> ops_;
  int next_ = kFirst;
};

}  // namespace sennit
