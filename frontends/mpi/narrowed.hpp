// Narrowed: counts of 64 bits for an MPI that has no calls with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace sennit_mpi {

// How many entries the arrays of counts and displacements of a call have, in their order.
struct ArrayLengths {
  // NOLINTNEXTLINE(google-explicit-constructor): most calls have as many in all
  ArrayLengths(std::size_t each) : of{each, each, each, each} {}
  explicit ArrayLengths(const std::array<std::size_t, 4>& each) : of(each) {}

  std::array<std::size_t, 4> of;
};

// Counts of 64 bits as an MPI without such calls takes them.
class Narrowed {
 public:
  explicit Narrowed(ArrayLengths lengths) : lengths_(lengths) {}

  template <class Argument>
  auto operator()(Argument argument) {
    if constexpr (std::is_same_v<Argument, std::int64_t>) {
      return narrow(argument);
    } else if constexpr (std::is_same_v<Argument, std::int64_t*>) {
      result_ = argument;
      narrow_result_ = argument != nullptr ? narrow(*argument) : 0;
      return argument != nullptr ? &narrow_result_ : nullptr;
    } else if constexpr (std::is_same_v<Argument, const std::int64_t*>) {
      const std::size_t array = used_++;
      if (argument == nullptr) {
        return static_cast<const int*>(nullptr);
      }
      std::vector<int>& numbers = arrays_.at(array);
      for (std::size_t i = 0; i < lengths_.of.at(array); ++i) {
        numbers.push_back(narrow(argument[i]));
      }
      return static_cast<const int*>(numbers.data());
    } else {
      return argument;
    }
  }
  [[nodiscard]] bool fits() const { return fits_; }
  // What the MPI has changed.
  void widen_result() const {
    if (result_ != nullptr) {
      *result_ = narrow_result_;
    }
  }

 private:
  int narrow(std::int64_t number) {
    fits_ = fits_ && number >= std::numeric_limits<int>::min() &&
            number <= std::numeric_limits<int>::max();
    return fits_ ? static_cast<int>(number) : 0;
  }

  ArrayLengths lengths_;
  bool fits_ = true;
  std::int64_t* result_ = nullptr;
  int narrow_result_ = 0;
  std::array<std::vector<int>, 4> arrays_;
  std::size_t used_ = 0;
};

}  // namespace sennit_mpi
