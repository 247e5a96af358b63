#include "discover/machine_island.hpp"

#include "drivers/nvml/testing/fake_nvml.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace sennit {
namespace {

constexpr const char* kTwoSockets = R"(machine two-and-two Two GPUs a processor
source guess written for this test
gpu 0..3 memory 900 GB/s from guess
cpu 0..1 memory 100 GB/s from guess
link gpu0 gpu1 nvlink 75 GB/s from guess
link gpu2 gpu3 nvlink 75 GB/s from guess
link gpu0..1 cpu0 pcie 12 GB/s from guess
link gpu2..3 cpu1 pcie 12 GB/s from guess
link cpu0 cpu1 bus 20 GB/s from guess
path nvlink start 8 us from guess
)";

std::unique_ptr<NvmlDriver> machine_of(const std::vector<int>& buses) {
  FakeNvml::Machine fake;
  for (const int bus : buses) {
    fake.gpus.push_back({.bus = static_cast<unsigned>(bus)});
  }
  FakeNvml::set(fake);
  auto driver = open_nvml(FakeNvml::symbols());
  EXPECT_TRUE(driver.ok()) << driver.status().message();
  return std::move(driver).value();
}

TEST(MachineIsland, IsThatOfTheGpuAtAnAddress) {
  const std::unique_ptr<NvmlDriver> nvml = machine_of({0x10, 0x1b, 0x40, 0x4c});
  const Result<Topology> machine = topology_from_text(kTwoSockets, "test");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  std::vector<int> islands;
  for (const char* const address :
       {"0000:10:00.0", "0000:1b:00.0", "0000:40:00.0", "0000:4c:00.0"}) {
    const Result<int> island = island_of(*machine, *nvml, address);
    ASSERT_TRUE(island.ok()) << island.status().message();
    islands.push_back(*island);
  }
  EXPECT_EQ(islands, (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(island_of(*machine, *nvml, "0000:11:00.0").status().code(), Code::kSystemError);
}

TEST(MachineIsland, IsRefusedWhereTheMachineHasFewerGpus) {
  const std::unique_ptr<NvmlDriver> nvml = machine_of({0x10, 0x1b, 0x40, 0x4c, 0x50});
  const Result<Topology> machine = topology_from_text(kTwoSockets, "test");
  const Status refused = island_of(*machine, *nvml, "0000:50:00.0").status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "SENNIT_MACHINE: two-and-two has 4 GPUs, and this rank's, at 0000:50:00.0, is number 4 "
            "here, counted from 0; describe as many as there are");
  const Result<Topology> no_gpus =
      topology_from_text("machine host A host\nsource guess for this test\ncpu 0\n", "test");
  ASSERT_TRUE(no_gpus.ok()) << no_gpus.status().message();
  EXPECT_EQ(island_of(*no_gpus, *nvml, "0000:10:00.0").status().code(), Code::kInvalidArgument);
}

TEST(MachineIsland, MachinesAreKnownByNameOrReadFromFiles) {
  EXPECT_EQ(load_machine("ac922")->name, "ac922");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("sennit-machine-" + std::to_string(getpid()));
  std::ofstream(file) << kTwoSockets;
  EXPECT_EQ(load_machine(file)->name, "two-and-two");
  std::ofstream(file) << "machine";
  const Status malformed = load_machine(file).status();
  EXPECT_EQ(malformed.code(), Code::kInvalidArgument);
  EXPECT_TRUE(malformed.message().starts_with(file.string() + ":1: ")) << malformed.message();
  std::filesystem::remove(file);
  const Status folder = load_machine(file.parent_path()).status();
  EXPECT_EQ(folder.code(), Code::kInvalidArgument);
  EXPECT_NE(folder.message().find("Is a directory"), std::string::npos) << folder.message();
  const Status missing = load_machine(file).status();
  EXPECT_EQ(missing.code(), Code::kInvalidArgument);
  EXPECT_NE(missing.message().find("No such file"), std::string::npos) << missing.message();
  EXPECT_NE(missing.message().find("ac922"), std::string::npos) << "the names there are";
}

}  // namespace
}  // namespace sennit
