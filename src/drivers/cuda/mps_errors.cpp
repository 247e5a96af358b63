#include "drivers/cuda/mps_errors.hpp"

#include <string_view>

namespace sennit::cuda {
namespace {

struct MpsError {
  int number;
  std::string_view next;
};
constexpr MpsError kMpsErrors[] = {
#define SENNIT_MPS_ERROR(number, next) {number, next},
#include "drivers/cuda/mps_errors.def"
#undef SENNIT_MPS_ERROR
};

}  // namespace

std::string mps_advice(int error) {
  for (const MpsError& row : kMpsErrors) {
    if (row.number == error) {
      return ". Next: " + std::string(row.next);
    }
  }
  return {};
}

}  // namespace sennit::cuda
