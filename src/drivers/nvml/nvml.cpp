#include "drivers/nvml/nvml.hpp"

#include "drivers/nvml/nvml_abi.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace sennit {
namespace {

using nvml::Device;
using nvml::Memory;
using nvml::PciInfo;
using nvml::Return;

constexpr const char* kLibrary = "libnvidia-ml.so.1";

struct Functions {
#define SENNIT_NVML_FUNCTION(member, symbol, is_needed, parameters) Return(*member) parameters;
  SENNIT_NVML_FUNCTIONS(SENNIT_NVML_FUNCTION)
#undef SENNIT_NVML_FUNCTION
};

// sysfs writes PCI addresses in lower case, with four digits of domain.
std::string sysfs_form(const PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

// NVML's numbers of versions, and what one link of that version carries each way (NVIDIA's data
// sheets: 40, 50, 50, 50 and 100 GB/s both ways together).
struct Version {
  unsigned number;
  std::string_view name;
  double gbps;
};
constexpr std::array kVersions = {Version{1, "1.0", 20},
                                  Version{2, "2.0", 25},
                                  Version{3, "2.2", 25},
                                  Version{4, "3.0", 25},
                                  Version{5, "3.1", 25},
                                  Version{6, "4.0", 25},
                                  Version{7, "5.0", 50}};

NvmlLink::FarEnd far_end_of(int value) {
  switch (static_cast<nvml::FarEnd>(value)) {
    case nvml::FarEnd::kGpu:
      return NvmlLink::FarEnd::kGpu;
    case nvml::FarEnd::kSwitch:
      return NvmlLink::FarEnd::kSwitch;
    case nvml::FarEnd::kIbmNpu:
    case nvml::FarEnd::kUnknown:
      break;
  }
  return NvmlLink::FarEnd::kUnknown;
}

class Library final : public NvmlDriver {
 public:
  explicit Library(const Functions& functions) : functions_(functions) {}

  Result<std::string> driver_version() override {
    std::array<char, nvml::kNameBytes> text{};
    if (functions_.driver_version == nullptr) {
      return fail(Code::kUnsupported, "this NVML does not report the driver's version");
    }
    SENNIT_RETURN_IF_ERROR(to_status(functions_.driver_version(text.data(), text.size()),
                                     "asking for the driver's version"));
    return std::string(text.data());
  }

  Result<int> device_count() override {
    unsigned count = 0;
    SENNIT_RETURN_IF_ERROR(to_status(functions_.count(&count), "counting GPUs"));
    return static_cast<int>(count);
  }

  Result<NvmlDevice> describe(int device) override {
    SENNIT_ASSIGN_OR_RETURN(const Device handle, handle_of(device));
    std::array<char, nvml::kNameBytes> name{};
    std::array<char, nvml::kUuidBytes> uuid{};
    PciInfo pci{};
    Memory memory{};
    SENNIT_RETURN_IF_ERROR(
        to_status(functions_.name(handle, name.data(), name.size()), "asking a GPU for its name"));
    SENNIT_RETURN_IF_ERROR(
        to_status(functions_.uuid(handle, uuid.data(), uuid.size()), "asking a GPU for its id"));
    SENNIT_RETURN_IF_ERROR(to_status(functions_.pci(handle, &pci), "asking a GPU for its address"));
    SENNIT_RETURN_IF_ERROR(
        to_status(functions_.memory(handle, &memory), "asking a GPU for its memory"));
    return NvmlDevice{.name = name.data(),
                      .uuid = uuid.data(),
                      .pci_bus_id = sysfs_form(pci),
                      .memory_bytes = static_cast<std::int64_t>(memory.total),
                      .pcie_generation = number_of(functions_.pcie_generation, handle),
                      .pcie_lanes = number_of(functions_.pcie_width, handle)};
  }

  Result<std::vector<NvmlLink>> links(int device) override {
    SENNIT_ASSIGN_OR_RETURN(const Device handle, handle_of(device));
    std::vector<NvmlLink> links;
    if (functions_.link_state == nullptr) {
      return links;  // a driver from before NVLink
    }
    for (unsigned index = 0; index < nvml::kMaxNvlinks; ++index) {
      int is_up = 0;
      if (functions_.link_state(handle, index, &is_up) == nvml::kSuccess && is_up != 0) {
        links.push_back(link(handle, index));
      }
    }
    return links;
  }

 private:
  static Status to_status(Return result, std::string_view what) {
    if (result == nvml::kSuccess) {
      return {};
    }
    return fail(result == nvml::kNotSupported ? Code::kUnsupported : Code::kSystemError,
                "{} failed (NVML {})",
                what,
                result);
  }

  Result<Device> handle_of(int device) const {
    Device handle = nullptr;
    SENNIT_RETURN_IF_ERROR(to_status(functions_.handle(static_cast<unsigned>(device), &handle),
                                     fmt::format("opening GPU {}", device)));
    return handle;
  }

  // 0 where it is not known: virtual machines hide the wires.
  static int number_of(Return (*function)(Device, unsigned*), Device handle) {
    unsigned value = 0;
    return function != nullptr && function(handle, &value) == nvml::kSuccess
               ? static_cast<int>(value)
               : 0;
  }

  [[nodiscard]] NvmlLink link(Device handle, unsigned index) const {
    NvmlLink link{.index = static_cast<int>(index)};
    unsigned number = 0;
    if (functions_.link_version != nullptr &&
        functions_.link_version(handle, index, &number) == nvml::kSuccess) {
      const auto* const known = std::ranges::find(kVersions, number, &Version::number);
      if (known != kVersions.end()) {
        link.version = known->name;
        link.gbps = known->gbps;
      }
    }
    int far_end = 0;
    if (functions_.link_far_end != nullptr &&
        functions_.link_far_end(handle, index, &far_end) == nvml::kSuccess) {
      link.far_end = far_end_of(far_end);
    }
    PciInfo pci{};
    if (functions_.link_far_pci != nullptr &&
        functions_.link_far_pci(handle, index, &pci) == nvml::kSuccess) {
      link.far_pci_bus_id = sysfs_form(pci);
    }
    return link;
  }

  Functions functions_;
};

// Whoever stops NVML stops it for all, so it is never stopped nor closed.
Result<std::unique_ptr<NvmlDriver>> open_library() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(Code::kUnsupported, "there is no {} here: no NVIDIA driver is installed", kLibrary);
  }
  return open_nvml([library](const char* symbol) { return ::dlsym(library, symbol); });
}

}  // namespace

Result<std::unique_ptr<NvmlDriver>> open_nvml(const NvmlSymbols& symbols) {
  Functions functions{};
#define SENNIT_NVML_FUNCTION(member, symbol, is_needed, parameters)                             \
  functions.member = reinterpret_cast<Return(*) parameters>(symbols(#symbol));                  \
  if ((is_needed) && functions.member == nullptr) {                                             \
    return fail(Code::kUnsupported, "NVML has no function {}: the driver is too old", #symbol); \
  }
  SENNIT_NVML_FUNCTIONS(SENNIT_NVML_FUNCTION)
#undef SENNIT_NVML_FUNCTION
  if (const Return result = functions.init(); result != nvml::kSuccess) {
    return fail(Code::kUnsupported, "NVML cannot be started (NVML {})", result);
  }
  return std::unique_ptr<NvmlDriver>(std::make_unique<Library>(functions));
}

Result<NvmlDriver*> nvml_driver() {
  static const Result<std::unique_ptr<NvmlDriver>> kLibraryHere = open_library();
  if (!kLibraryHere.ok()) {
    return kLibraryHere.status();
  }
  return kLibraryHere.value().get();
}

}  // namespace sennit
