// One benchmarked call through the C ABI.
#pragma once

#include "buffers.hpp"
#include "work_order.hpp"

#include <cstddef>

namespace sennit::bench {

// What the size of a row means: the count of sennit.h that makes the whole buffer at least `bytes`,
// and how many bytes that is.
struct RowSize {
  std::size_t count = 0;
  std::size_t bytes = 0;
};
RowSize row_size(const WorkOrder& order, int ranks, std::size_t bytes);

// busbw = algbw * this (nccl-tests' factors).
double bus_factor(const WorkOrder& order, int ranks);

class Caller {
 public:
  Caller(const WorkOrder& order, sennit_comm_t comm, int rank, int ranks);

  // The root of the `index`-th call.
  [[nodiscard]] int root(std::size_t index) const;
  // What the next calls ask for by name, instead of what the order says.
  void wish(const Try& one);
  // Makes the call and waits for it.
  [[nodiscard]] sennit_status_t call(const Buffers& buffers, std::size_t count, int root) const;
  // This rank's output changes by the call (not so for the outsiders of a pair).
  [[nodiscard]] bool takes_part() const;

 private:
  [[nodiscard]] sennit_status_t exchange(const Buffers& buffers, std::size_t count) const;

  const WorkOrder& order_;
  sennit_comm_t comm_;
  int rank_;
  int ranks_;
  sennit_call_options_t options_ = SENNIT_CALL_OPTIONS_INITIALIZER;
};

}  // namespace sennit::bench
