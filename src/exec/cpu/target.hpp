// Target: where the result of a step goes, the rank's own memory or a slot.
#pragma once

#include "base/copy_bytes.hpp"
#include "path/shm/slot_stores.hpp"
#include "types/reduce.hpp"

#include <cstddef>

namespace sennit {

struct Target {
  std::byte* data = nullptr;
  shm::SlotStores* stores = nullptr;  // of the slot's ring; null: own memory

  void copy(const std::byte* from, std::size_t bytes) const {
    stores == nullptr ? copy_bytes(data, from, bytes) : stores->copy(data, from, bytes);
  }
  // As sennit::reduce, whose `out` is this.
  void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, Reduction reduction) const;
};

}  // namespace sennit
