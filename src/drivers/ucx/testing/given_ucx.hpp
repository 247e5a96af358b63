// GivenUcx: the driver that a test names stands in for the machine's, so that whole communicators
// run over a fake. Theirs end before it does.
#pragma once

#include "drivers/ucx/ucx.hpp"

namespace sennit {

class GivenUcx {
 public:
  explicit GivenUcx(UcxDriver& driver) { given_ucx().store(&driver, std::memory_order_release); }
  ~GivenUcx() { given_ucx().store(nullptr, std::memory_order_release); }
  GivenUcx(const GivenUcx&) = delete;
  GivenUcx& operator=(const GivenUcx&) = delete;
};

}  // namespace sennit
