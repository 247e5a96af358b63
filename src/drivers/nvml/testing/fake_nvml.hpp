// FakeNvml: NVML of a machine that is not here, as the functions that the driver looks up.
//
//   FakeNvml::set({.gpus = {...}});
//   auto driver = open_nvml(FakeNvml::symbols());
//
// One machine at a time: NVML's functions have no place for more.
#pragma once

#include "drivers/nvml/nvml.hpp"
#include "drivers/nvml/nvml_abi.hpp"

#include <set>
#include <string>
#include <vector>

namespace sennit {

class FakeNvml {
 public:
  struct Link {
    unsigned version = 6;  // NVML's number: NVLink 4.0
    nvml::FarEnd far_end = nvml::FarEnd::kSwitch;
    unsigned far_bus = 0xa0;
    bool is_up = true;
  };
  struct Gpu {
    std::string name = "Fake H200";
    unsigned bus = 0x10;
    unsigned long long memory_bytes = 141ULL << 30;
    unsigned pcie_generation = 5;
    unsigned pcie_width = 16;
    std::vector<Link> links{};
  };
  struct Machine {
    std::vector<Gpu> gpus{};
    std::set<std::string> missing{};  // functions that this driver does not have
    int init_result = nvml::kSuccess;
    int describe_result = nvml::kSuccess;  // of all functions that read a GPU's name
  };

  static void set(Machine machine);
  static NvmlSymbols symbols();
  // GPUs with 18 links each to switches.
  static Machine switched(int gpus);
};

}  // namespace sennit
