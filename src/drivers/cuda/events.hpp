// Events of CUDA, for the sources of this driver.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <optional>

namespace sennit::cuda {

class Events final : public CudaEvents {
 public:
  Result<void*> create_event() override;
  Result<void*> create_timed_event() override;
  Status destroy_event(void* event) override;
  Status record(void* event, void* stream) override;
  Status wait_for(void* event, void* stream) override;
  Result<bool> has_passed(void* event) override;
  Result<bool> is_idle(void* stream) override;
  Result<std::optional<double>> elapsed_us(void* begin, void* end) override;
  Status call_host(void (*act)(void*), void* argument, void* stream) override;
};

}  // namespace sennit::cuda
