#include "drivers/cuda/cuda.hpp"

namespace sennit {

DeviceScope::DeviceScope(CudaDriver& driver, int device) : driver_(driver) {
  const Result<int> before = driver.current_device();
  if (before.ok() && *before == device) {
    return;  // to choose it again would take half a microsecond
  }
  before_ = before.ok() ? *before : -1;
  status_ = driver.use_device(device);
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) {
    (void)driver_.use_device(before_);
  }
}

}  // namespace sennit
