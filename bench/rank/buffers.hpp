// Buffers of one row: filled so that every element tells its rank and index, and checked against
// closed formulas, so that no second implementation has to be right.
#pragma once

#include "work_order.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sennit::bench {

class Buffers {
 public:
  // Buffers for rows of up to `largest_bytes`.
  Buffers(const WorkOrder& order, int rank, int ranks, std::size_t largest_bytes);

  // Lays out a row whose `count` means what it means in sennit.h.
  void set_count(std::size_t count) { count_ = count; }

  // As the collective wants them for `root`, in place or not.
  [[nodiscard]] const void* send(int root) const;
  [[nodiscard]] void* recv(int root) const;

  // New inputs; outputs poisoned where they are not inputs too.
  void fill(int root);
  // Elements of this rank's output that are not what they must be.
  [[nodiscard]] std::uint64_t count_wrong(int root) const;

 private:
  struct Free {
    void operator()(std::byte* pointer) const { sennit_mem_free(pointer); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(std::size_t bytes);

  [[nodiscard]] std::size_t input_elements(int root) const;
  [[nodiscard]] std::size_t output_elements(int root) const;
  // What element `index` of the output must be.
  [[nodiscard]] std::int64_t expected(std::size_t index, int root) const;

  template <typename T>
  void fill_as(int root);
  template <typename T>
  [[nodiscard]] std::uint64_t count_wrong_as(int root) const;

  // The reduction over all ranks of element `index` is base + factor * of_index(index).
  struct Reduction {
    std::int64_t base = 0;
    std::int64_t factor = 1;
  };

  const WorkOrder& order_;
  int rank_;
  int ranks_;
  std::size_t count_ = 0;
  Memory send_;
  Memory recv_;
  Reduction reduction_;
};

}  // namespace sennit::bench
