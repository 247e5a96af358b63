// What is timed: calls of a row, by Sennit through its C ABI, or by a rival.
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

// How many calls have each root once, where roots rotate; else 1.
int calls_of_all_roots(const WorkOrder& order, int ranks);
// The root of the `index`-th call.
int root_of(const WorkOrder& order, int ranks, std::size_t index);
// This rank's output changes by the call (not so for the outsiders of a pair).
bool takes_part(const WorkOrder& order, int rank);

class Calls {
 public:
  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  virtual ~Calls() = default;

  // Makes a call and waits for its end.
  virtual void call(const Buffers& buffers, std::size_t count, int root) = 0;
  // What a rank may do before it waits in another library: nobody needs its help any more.
  virtual void settle() = 0;
};

class OwnCalls final : public Calls {
 public:
  OwnCalls(const WorkOrder& order, sennit_comm_t comm, int rank, int ranks);

  // What the next calls ask for by name, instead of what the order says.
  void request(const Try& one);
  void call(const Buffers& buffers, std::size_t count, int root) override;
  // The same, where it may be refused.
  [[nodiscard]] sennit_status_t attempt(const Buffers& buffers, std::size_t count, int root) const;
  // A call of Sennit that has returned needs no more progress here.
  void settle() override {}

 private:
  [[nodiscard]] sennit_status_t exchange(const Buffers& buffers, std::size_t count) const;

  const WorkOrder& order_;
  sennit_comm_t comm_;
  int rank_;
  int ranks_;
  sennit_call_options_t options_ = SENNIT_CALL_OPTIONS_INITIALIZER;
};

}  // namespace sennit::bench
