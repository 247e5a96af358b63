// Buffers of one row: filled so that every element tells its rank and index, and checked against
// closed formulas, so that no second implementation has to be right.
#pragma once

#include "elements.hpp"
#include "work_order.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace sennit::bench {

// A pair of buffers for every call of a row, one after the other in memory that all libraries
// share: as much as the order wants them to rotate over, and one pair at least.
class Buffers {
 public:
  // Buffers for rows of up to `largest_bytes`.
  Buffers(const WorkOrder& order, int rank, int ranks, std::size_t largest_bytes);

  // Lays out a row of `bytes`, whose `count` means what it means in sennit.h. Unless `rotates`, all
  // calls have the same pair.
  void lay_out(std::size_t count, std::size_t bytes, bool rotates);
  // Goes on to the next call's pair.
  void rotate() {
    offset_ += stride_;
    if (offset_ >= end_) {
      offset_ = 0;
    }
  }

  // As the collective wants them for `root`, in place or not.
  [[nodiscard]] const void* send(int root) const;
  [[nodiscard]] void* recv(int root) const;

  // New inputs; outputs poisoned where they are not inputs too.
  void fill(int root);
  // Elements of this rank's output that are not what they must be.
  [[nodiscard]] std::uint64_t count_wrong(int root) const;
  // The same of a call with a codec: the sums of all squares, and the largest of any element.
  struct Errors {
    double squared = 0;
    double expected_squared = 0;
    double most_squared = 0;
    double most_expected_squared = 0;
  };
  void add_errors(int root, Errors& errors) const;

 private:
  struct Free {
    void operator()(std::byte* pointer) const { std::free(pointer); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(std::size_t bytes);

  [[nodiscard]] std::size_t input_elements(int root) const;
  [[nodiscard]] std::size_t output_elements(int root) const;
  [[nodiscard]] const std::byte* input_of(int rank, std::size_t index) const {
    return inputs_[static_cast<std::size_t>(rank) * Elements::kVarieties + Elements::variety(index)]
        .data();
  }
  // What element `index` of the output stands for: an element of a rank's input, or (rank -1) the
  // reduction of all ranks' elements.
  struct Source {
    int rank = -1;
    std::size_t index = 0;
  };
  [[nodiscard]] Source source_of(std::size_t index, int root) const;
  // Whether `element` is what element `index` of the output must be.
  [[nodiscard]] bool is_right(const std::byte* element, std::size_t index, int root) const;

  const WorkOrder& order_;
  int rank_;
  int ranks_;
  std::size_t count_ = 0;
  std::size_t memory_bytes_;
  std::size_t offset_ = 0;  // of the pair in use
  std::size_t stride_ = 0;
  std::size_t end_ = 0;
  Memory send_;
  Memory recv_;
  Elements elements_;
  std::vector<ElementBytes> inputs_;  // by rank and variety
};

}  // namespace sennit::bench
