// Which UCX the rails use.
#include "drivers/ucx/ucx.hpp"

namespace sennit {

std::atomic<UcxDriver*>& given_ucx() {
  static std::atomic<UcxDriver*> given{nullptr};
  return given;
}

Result<UcxDriver*> ucx_driver() {
  UcxDriver* const given = given_ucx().load(std::memory_order_acquire);
  return given != nullptr ? Result<UcxDriver*>(given) : ucx_of_this_machine();
}

}  // namespace sennit
