#include "share.hpp"

namespace sennit_mpi {

std::string Share::text() const {
  const std::string text = std::to_string(calls_) + " calls of " + std::to_string(bytes_) +
                           " bytes ran on Sennit, " + std::to_string(passed_on_) +
                           " were passed on";
  const std::scoped_lock lock(mutex_);
  return why_.empty() ? text : text + " (the first: " + why_ + ")";
}

}  // namespace sennit_mpi
