// Memory and registration in the C ABI.
#include "capi/guard.hpp"
#include "capi/handles.hpp"

#include <algorithm>
#include <cstdlib>

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_mem_alloc(void** pointer, size_t bytes) {
  return guard([&]() -> Status {
    if (pointer == nullptr) {
      return fail(Code::kInvalidArgument, "the result pointer is NULL");
    }
    // Whole cache lines, so that two allocations never share one.
    constexpr std::size_t kLine = 64;
    *pointer = std::aligned_alloc(kLine, std::max(kLine, (bytes + kLine - 1) / kLine * kLine));
    return *pointer != nullptr ? Status()
                               : fail(Code::kSystemError, "{} bytes could not be allocated", bytes);
  });
}

sennit_status_t sennit_mem_free(void* pointer) {
  std::free(pointer);
  return SENNIT_OK;
}

sennit_status_t sennit_comm_register(sennit_comm_t comm,
                                     void* pointer,
                                     size_t /*bytes*/,
                                     void** handle) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    if (handle == nullptr) {
      return fail(Code::kInvalidArgument, "the result pointer is NULL");
    }
    *handle = pointer;  // host ranks reach any memory of their peers; there is nothing to keep
    return {};
  });
}

sennit_status_t sennit_comm_deregister(sennit_comm_t comm, void* /*handle*/) {
  return guard([&]() -> Status { return check_comm(comm); });
}

}  // extern "C"
