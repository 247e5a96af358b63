#include "drivers/nvml/testing/fake_nvml.hpp"

#include <cstdio>
#include <map>
#include <utility>

namespace sennit {
namespace {

using nvml::Device;
using nvml::Memory;
using nvml::PciInfo;
using nvml::Return;

constexpr Return kInvalidArgument = 2;

FakeNvml::Machine& machine() {
  static FakeNvml::Machine machine;
  return machine;
}

FakeNvml::Gpu& gpu(Device device) { return *reinterpret_cast<FakeNvml::Gpu*>(device); }

Return init() { return machine().init_result; }

Return count(unsigned* result) {
  *result = static_cast<unsigned>(machine().gpus.size());
  return nvml::kSuccess;
}

Return handle(unsigned index, Device* result) {
  if (index >= machine().gpus.size()) {
    return kInvalidArgument;
  }
  *result = reinterpret_cast<Device>(&machine().gpus[index]);
  return nvml::kSuccess;
}

Return name(Device device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "%s", gpu(device).name.c_str());
  return machine().describe_result;
}

Return uuid(Device device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "GPU-%08x", gpu(device).bus);
  return nvml::kSuccess;
}

Return pci(Device device, PciInfo* info) {
  *info = {};
  info->bus = gpu(device).bus;
  return nvml::kSuccess;
}

Return memory(Device device, Memory* result) {
  *result = {.total = gpu(device).memory_bytes, .free = 0, .used = 0};
  return nvml::kSuccess;
}

Return pcie_generation(Device device, unsigned* result) {
  *result = gpu(device).pcie_generation;
  return *result == 0 ? nvml::kNotSupported : nvml::kSuccess;
}

Return pcie_width(Device device, unsigned* result) {
  *result = gpu(device).pcie_width;
  return *result == 0 ? nvml::kNotSupported : nvml::kSuccess;
}

const FakeNvml::Link* link_of(Device device, unsigned index) {
  return index < gpu(device).links.size() ? &gpu(device).links[index] : nullptr;
}

Return link_state(Device device, unsigned index, int* is_up) {
  const auto* const link = link_of(device, index);
  *is_up = link != nullptr && link->is_up ? 1 : 0;
  return link != nullptr ? nvml::kSuccess : nvml::kNotSupported;
}

Return link_version(Device device, unsigned index, unsigned* version) {
  *version = link_of(device, index)->version;
  return nvml::kSuccess;
}

Return link_far_pci(Device device, unsigned index, PciInfo* info) {
  *info = {};
  info->bus = link_of(device, index)->far_bus;
  return nvml::kSuccess;
}

Return link_far_end(Device device, unsigned index, int* far_end) {
  *far_end = static_cast<int>(link_of(device, index)->far_end);
  return nvml::kSuccess;
}

Return driver_version(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "580.00");
  return nvml::kSuccess;
}

}  // namespace

void FakeNvml::set(Machine next) { machine() = std::move(next); }

NvmlSymbols FakeNvml::symbols() {
  return [](const char* symbol) -> void* {
    static const std::map<std::string, void*> kFunctions = {
#define SENNIT_NVML_FUNCTION(member, symbol, is_needed, parameters) \
  {#symbol, reinterpret_cast<void*>(&member)},
        SENNIT_NVML_FUNCTIONS(SENNIT_NVML_FUNCTION)
#undef SENNIT_NVML_FUNCTION
    };
    return machine().missing.contains(symbol) ? nullptr : kFunctions.at(symbol);
  };
}

FakeNvml::Machine FakeNvml::switched(int gpus) {
  Machine result;
  for (int index = 0; index < gpus; ++index) {
    result.gpus.push_back({.bus = 0x10 + static_cast<unsigned>(index),
                           .links = std::vector<Link>(nvml::kMaxNvlinks)});
  }
  return result;
}

}  // namespace sennit
