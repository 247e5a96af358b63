#include "exec/stream/staging.hpp"

namespace sennit::stream {

Staging::~Staging() {
  for (std::byte* const memory : allocations_) {
    (void)driver_.release(memory);
  }
}

Status Staging::reserve(std::int64_t bytes) {
  if (bytes > most_bytes_) {
    return fail(
        Code::kInternalError, "{} bytes of staging memory of at most {}", bytes, most_bytes_);
  }
  if (bytes <= bytes_) {
    return {};
  }
  std::int64_t size = most_bytes_;
  for (int step = 1; step < kSteps && size / kStep >= bytes; ++step) {
    size /= kStep;
  }
  SENNIT_ASSIGN_OR_RETURN(void* const memory, driver_.allocate(static_cast<std::size_t>(size)));
  allocations_.push_back(static_cast<std::byte*>(memory));
  bytes_ = size;
  return {};
}

}  // namespace sennit::stream
