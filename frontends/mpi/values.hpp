// Values: what the bytes of a block are, for codecs.
//
// Calls that move data are made in bytes. A codec needs to know values: where the program has rules
// for codecs (SENNIT_CODEC), blocks of floats are moved as floats. MPI wants the types of both ends
// to consist of the same predefined ones in the same order, so all ranks find the same values. Of
// Alltoallv and Alltoallw only pairs of ranks do: their ranks ask each other.
#pragma once

#include "sennit/sennit.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit_mpi {

struct Values {
  sennit_dtype_t dtype = SENNIT_UINT8;
  std::size_t bytes = 1;  // of one

  [[nodiscard]] std::size_t count(std::size_t all_bytes) const { return all_bytes / bytes; }
  bool operator==(const Values&) const = default;
};

// What the ranks of an Alltoallv or Alltoallw know together.
struct Exchange {
  Values values;
  std::size_t bytes = 0;        // the larger buffer, of any rank; 0: they did not ask
  const char* codec = nullptr;  // null: none
};

// The words that ranks compare; the largest of each is what they find.
class ExchangeWords {
 public:
  void add(const Values& values, std::size_t block_bytes) {
    if (block_bytes == 0) {
      return;  // MPI says nothing of its type
    }
    const auto dtype = static_cast<std::uint64_t>(values.dtype);
    raise(kDtype, dtype + 1);
    raise(kComplement, kBehindDtypes - dtype);
    raise(kValueBytes, values.bytes);
    raise(kLargestBlock, block_bytes);
  }
  void set_buffer(std::size_t bytes) { raise(kBuffer, bytes); }

  [[nodiscard]] std::uint64_t* data() { return words_.data(); }
  [[nodiscard]] std::size_t size() const { return words_.size(); }

  // Of the largest words: one type of all blocks, else bytes.
  [[nodiscard]] Values values() const {
    const std::uint64_t dtype = words_[kDtype] - 1;
    const bool is_one = words_[kDtype] > 0 && words_[kComplement] == kBehindDtypes - dtype;
    return is_one ? Values{static_cast<sennit_dtype_t>(dtype), words_[kValueBytes]} : Values{};
  }
  [[nodiscard]] std::size_t largest_block() const { return words_[kLargestBlock]; }
  [[nodiscard]] std::size_t buffer() const { return words_[kBuffer]; }

 private:
  enum Word : std::uint8_t { kDtype, kComplement, kValueBytes, kLargestBlock, kBuffer, kWords };
  static constexpr std::uint64_t kBehindDtypes = 1U << 16U;

  void raise(Word word, std::uint64_t value) {
    words_[word] = words_[word] < value ? value : words_[word];
  }

  std::array<std::uint64_t, kWords> words_{};
};

}  // namespace sennit_mpi
