// Coding: what lossy codecs make of the values that the value proof runs on, and what is wrong with
// that. Lossless ones change no value, and are nothing here.
#pragma once

#include "checks.hpp"
#include "expressions.hpp"
#include "flat_strand.hpp"

#include <vector>

namespace sennit {

class Coding {
 public:
  // All three outlive this.
  Coding(const FlatStrand& program, const Checks& checks, Expressions& expressions)
      : program_(program),
        checks_(checks),
        expressions_(expressions),
        is_lossy_(program.is_lossy()) {}

  // What a step reads out of `block`, where it keeps it.
  Status code_at_home(int step, const Block& block, int& value);
  // What a step makes, which is then what it stores and what it sends. What came coded by the same
  // codec is passed on as it is.
  Status code_results(int step, std::vector<int>& results);

  // Errors of codecs do not add up: sums are made of contributions that were coded once, those of a
  // rank's own as well, and what is coded after it was added is added no more.
  [[nodiscard]] Status check_operands(int step, const std::vector<int>& values) const;
  // Where a rank's part goes to one rank, what it keeps for itself is exact. Everywhere else all
  // get what the codec leaves, so that all get the same.
  [[nodiscard]] Status check_output(int rank, int index, int value) const;

 private:
  Status code(int step, Codec codec, int& value);

  const FlatStrand& program_;
  const Checks& checks_;
  Expressions& expressions_;
  bool is_lossy_;
};

}  // namespace sennit
