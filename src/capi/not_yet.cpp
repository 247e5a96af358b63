// Functions of the C ABI that have their final form, but no implementation yet. Each refuses by
// name.
#include "capi/guard.hpp"

namespace sennit {
namespace {

sennit_status_t unsupported(const char* function) {
  return guard([&]() -> Status {
    return fail(Code::kUnsupported, "{} is not available in this version of Sennit", function);
  });
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_redop_create_premulsum(sennit_redop_t* /*op*/,
                                              const void* /*scalar*/,
                                              sennit_dtype_t /*dtype*/,
                                              sennit_comm_t /*comm*/) {
  return unsupported("sennit_redop_create_premulsum");
}

sennit_status_t sennit_redop_destroy(sennit_redop_t /*op*/, sennit_comm_t /*comm*/) {
  return unsupported("sennit_redop_destroy");
}

}  // extern "C"
