#include "exec/stream/staging.hpp"

#include <algorithm>

namespace sennit::stream {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

Staging::Staging(CudaDriver& driver, int ranks, std::int64_t piece_bytes)
    : driver_(driver),
      operands_(std::max(1, ranks - 1)),
      piece_bytes_(std::min(piece_bytes, kMostBytes / (kGenerations * operands_) / kPage * kPage)) {
}

Staging::~Staging() {
  if (memory_ != nullptr) {
    (void)driver_.release(memory_);
  }
}

Status Staging::allocate() {
  if (memory_ == nullptr) {
    SENNIT_ASSIGN_OR_RETURN(void* const memory,
                            driver_.allocate(static_cast<std::size_t>(bytes())));
    memory_ = static_cast<std::byte*>(memory);
  }
  return {};
}

}  // namespace sennit::stream
