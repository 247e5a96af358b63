// The current device of a thread that acts for a rank: NCCL makes its communicators there.
#pragma once

namespace sennit_nccl {

// While it lives, the thread's current device is this one. Of a host rank (-1) it does nothing.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int retained_ = -1;  // whose primary context is the thread's now
};

}  // namespace sennit_nccl
