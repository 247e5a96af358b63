// The C interface that a class of arrays may have for DLPack (DLPack 1.3, `DLPackExchangeAPI`):
// what an array is and which stream its library works on, within nanoseconds and without a
// Python call.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace sennit::python {

struct ExchangeHeader {
  std::uint32_t major;
  std::uint32_t minor;
  const ExchangeHeader* older;  // the same for an older major version, or NULL
};

// All functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  ExchangeHeader header;
  void* allocate;
  void* managed_tensor_from_object;
  void* object_from_managed_tensor;
  // Owns nothing: valid as long as the object is, and is not changed. May be NULL.
  int (*tensor_from_object)(void* object, nanobind::dlpack::dltensor* tensor);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

inline constexpr std::uint32_t kExchangeMajor = 1;

// What a class has as __dlpack_c_exchange_api__; null where it has none that is usable here.
inline const ExchangeApi* exchange_api_of(nanobind::handle capsule) {
  constexpr const char* kName = "dlpack_exchange_api";
  if (PyCapsule_IsValid(capsule.ptr(), kName) == 0) {
    return nullptr;
  }
  const auto* header =
      static_cast<const ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (header != nullptr && header->major > kExchangeMajor) {
    header = header->older;
  }
  if (header == nullptr || header->major != kExchangeMajor) {
    return nullptr;
  }
  const auto* const api = reinterpret_cast<const ExchangeApi*>(header);
  return api->tensor_from_object == nullptr ? nullptr : api;
}

}  // namespace sennit::python
