#include "drivers/cuda/cuda.hpp"

namespace sennit {

DeviceScope::DeviceScope(CudaDriver& driver, int device) : driver_(driver) {
  const Result<int> before = driver.current_device();
  before_ = before.ok() ? before.value() : -1;
  status_ = before_ == device ? Status() : driver.use_device(device);
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) {
    (void)driver_.use_device(before_);
  }
}

}  // namespace sennit
