// Memory and registration in the C ABI.
#include "capi/guard.hpp"
#include "capi/handles.hpp"
#include "capi/joining.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

namespace sennit {
namespace {

// Device memory that was handed out and not yet given back, since whoever frees has the pointer
// alone.
struct DeviceAllocations {
  std::mutex mutex;
  std::unordered_set<void*> pointers;
};

DeviceAllocations& device_allocations() {
  static auto& all = *new DeviceAllocations;  // also for those who free while the program ends
  return all;
}

Result<void*> allocate_on_host(std::size_t bytes) {
  // Whole cache lines, so that two allocations never share one.
  constexpr std::size_t kLine = 64;
  void* const memory =
      std::aligned_alloc(kLine, std::max(kLine, (bytes + kLine - 1) / kLine * kLine));
  if (memory == nullptr) {
    return fail(Code::kSystemError, "{} bytes could not be allocated", bytes);
  }
  return memory;
}

Result<void*> allocate_on(int device, std::size_t bytes) {
  if (device < 0) {
    return allocate_on_host(bytes);
  }
  SENNIT_ASSIGN_OR_RETURN(CudaDriver* const driver, cuda_driver());
  const DeviceScope scope(*driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  SENNIT_ASSIGN_OR_RETURN(void* const memory, driver->allocate(std::max<std::size_t>(bytes, 1)));
  const std::scoped_lock lock(device_allocations().mutex);
  device_allocations().pointers.insert(memory);
  return memory;
}

Status check_registration(sennit_comm_t comm, void** handle) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  return handle == nullptr ? fail(Code::kInvalidArgument, "the result pointer is NULL") : Status();
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_mem_alloc(void** pointer, size_t bytes) {
  return sennit_mem_alloc_on(pointer, bytes, nullptr);
}

sennit_status_t sennit_mem_alloc_on(void** pointer, size_t bytes, const char* device) {
  return guard([&]() -> Status {
    if (pointer == nullptr) {
      return fail(Code::kInvalidArgument, "the result pointer is NULL");
    }
    SENNIT_ASSIGN_OR_RETURN(const CommConfig config, CommConfig::from_environment());
    SENNIT_ASSIGN_OR_RETURN(const int number,
                            device_of(device != nullptr ? device : config.device));
    SENNIT_ASSIGN_OR_RETURN(*pointer, allocate_on(number, bytes));
    return {};
  });
}

sennit_status_t sennit_mem_free(void* pointer) {
  return guard([&]() -> Status {
    {
      const std::scoped_lock lock(device_allocations().mutex);
      if (device_allocations().pointers.erase(pointer) == 0) {
        std::free(pointer);
        return {};
      }
    }
    SENNIT_ASSIGN_OR_RETURN(CudaDriver* const driver, cuda_driver());
    return driver->release(pointer);
  });
}

sennit_status_t sennit_comm_register(sennit_comm_t comm,
                                     void* pointer,
                                     size_t bytes,
                                     void** handle) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_registration(comm, handle));
    if (comm->device != nullptr) {
      comm->device->expect_use_of(pointer, bytes);
    }
    *handle = pointer;  // nothing to keep: what was mapped goes when the memory does
    return {};
  });
}

sennit_status_t sennit_comm_register_symmetric(sennit_comm_t comm,
                                               void* pointer,
                                               size_t bytes,
                                               void** handle) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_registration(comm, handle));
    *handle = pointer;
    if (comm->device != nullptr) {
      // A number, which no pointer of sennit_comm_register equals: page 0 has no memory.
      if (const std::uint64_t number = comm->device->add_symmetric(pointer, bytes); number != 0) {
        *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
      }
    }
    return {};
  });
}

sennit_status_t sennit_comm_deregister(sennit_comm_t comm, void* handle) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    if (comm->device != nullptr) {
      comm->device->remove_symmetric(reinterpret_cast<std::uintptr_t>(handle));
    }
    return {};
  });
}

}  // extern "C"
