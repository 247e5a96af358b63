#include "share.hpp"

namespace sennit_mpi {

std::string Share::text() const {
  std::string text = std::to_string(calls_) + " calls of " + std::to_string(bytes_) +
                     " bytes ran on Sennit, " + std::to_string(passed_on_) + " were passed on";
  {
    const std::scoped_lock lock(mutex_);
    if (!why_.empty()) {
      text += " (the first: " + why_ + ")";
    }
  }
  if (on_gpus_ + copied_ > 0) {
    text += "; GPU buffers: " + std::to_string(on_gpus_) + " calls by GPUs, " +
            std::to_string(copied_) + " through host memory";
  }
  return text;
}

}  // namespace sennit_mpi
