// The part of NVML's ABI that is used here: the CUDA toolkit does not ship its header, and the
// library is opened at run time. Names and layouts are those of NVIDIA's documentation (NVML 5.319
// and newer); functions that a driver lacks stay null.
#pragma once

#include <cstddef>

namespace sennit::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;

using Device = struct OpaqueDevice*;

inline constexpr std::size_t kNameBytes = 96;
inline constexpr std::size_t kUuidBytes = 96;
inline constexpr unsigned kMaxNvlinks = 18;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// What the far end of an NVLink is.
enum class FarEnd : int { kGpu = 0, kIbmNpu = 1, kSwitch = 2, kUnknown = 0xff };

// SENNIT_NVML_FUNCTION(member, symbol, is_needed, parameters)
#define SENNIT_NVML_FUNCTIONS(SENNIT_NVML_FUNCTION)                                           \
  SENNIT_NVML_FUNCTION(init, nvmlInit_v2, true, ())                                           \
  SENNIT_NVML_FUNCTION(count, nvmlDeviceGetCount_v2, true, (unsigned*))                       \
  SENNIT_NVML_FUNCTION(handle, nvmlDeviceGetHandleByIndex_v2, true, (unsigned, Device*))      \
  SENNIT_NVML_FUNCTION(name, nvmlDeviceGetName, true, (Device, char*, unsigned))              \
  SENNIT_NVML_FUNCTION(uuid, nvmlDeviceGetUUID, true, (Device, char*, unsigned))              \
  SENNIT_NVML_FUNCTION(pci, nvmlDeviceGetPciInfo_v3, true, (Device, PciInfo*))                \
  SENNIT_NVML_FUNCTION(memory, nvmlDeviceGetMemoryInfo, true, (Device, Memory*))              \
  SENNIT_NVML_FUNCTION(                                                                       \
      pcie_generation, nvmlDeviceGetMaxPcieLinkGeneration, false, (Device, unsigned*))        \
  SENNIT_NVML_FUNCTION(pcie_width, nvmlDeviceGetMaxPcieLinkWidth, false, (Device, unsigned*)) \
  SENNIT_NVML_FUNCTION(link_state, nvmlDeviceGetNvLinkState, false, (Device, unsigned, int*)) \
  SENNIT_NVML_FUNCTION(                                                                       \
      link_version, nvmlDeviceGetNvLinkVersion, false, (Device, unsigned, unsigned*))         \
  SENNIT_NVML_FUNCTION(                                                                       \
      link_far_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2, false, (Device, unsigned, PciInfo*)) \
  SENNIT_NVML_FUNCTION(                                                                       \
      link_far_end, nvmlDeviceGetNvLinkRemoteDeviceType, false, (Device, unsigned, int*))     \
  SENNIT_NVML_FUNCTION(driver_version, nvmlSystemGetDriverVersion, false, (char*, unsigned))

}  // namespace sennit::nvml
