#include "discover/discover_gpus.hpp"

#include "discover/discover.hpp"
#include "drivers/nvml/testing/fake_nvml.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace sennit {
namespace {

namespace fs = std::filesystem;

Machine described(const FakeNvml::Machine& fake, const fs::path& root = "/nowhere") {
  FakeNvml::set(fake);
  const auto driver = open_nvml(FakeNvml::symbols());
  EXPECT_TRUE(driver.ok()) << driver.status().message();
  Machine machine;
  add_gpus(*driver.value(), root, machine);
  return machine;
}

std::vector<Link> nvlinks(const Machine& machine) {
  std::vector<Link> links;
  std::ranges::copy_if(machine.links, std::back_inserter(links), [](const Link& link) {
    return link.path == PathKind::kNvlink;
  });
  return links;
}

TEST(DiscoverGpus, OneFourOrEightOnASwitch) {
  for (const int count : {1, 4, 8}) {
    const Machine machine = described(FakeNvml::switched(count));
    ASSERT_EQ(machine.gpus.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(machine.gpu_note, "");
    const std::vector<Link> links = nvlinks(machine);
    ASSERT_EQ(links.size(), machine.gpus.size());
    EXPECT_EQ(links.back().from, "gpu" + std::to_string(count - 1));
    EXPECT_EQ(links.back().to, "nvswitch");
    EXPECT_EQ(links.back().bandwidth_gbps, 18 * 25);
    EXPECT_EQ(links.back().source, "NVML: 18 x NVLink 4.0");
    EXPECT_NEAR(machine.links.front().bandwidth_gbps, 63, 0.1);  // PCIe 5 x16
    EXPECT_TRUE(nvlink_state(machine, {}).available);
    EXPECT_FALSE(nvlink_state(machine, fail(Code::kUnsupported, "no CUDA")).available);
  }
}

TEST(DiscoverGpus, LinkedToEachOther) {
  FakeNvml::Machine fake{.gpus = {{.bus = 0x10}, {.bus = 0x11}}};
  fake.gpus[0].links = {{.version = 4, .far_end = nvml::FarEnd::kGpu, .far_bus = 0x11},
                        {.version = 4, .far_end = nvml::FarEnd::kGpu, .far_bus = 0x11}};
  fake.gpus[1].links = {{.version = 4, .far_end = nvml::FarEnd::kGpu, .far_bus = 0x10}};
  const std::vector<Link> links = nvlinks(described(fake));
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].to, "gpu1");
  EXPECT_EQ(links[0].bandwidth_gbps, 50);
  EXPECT_EQ(links[1].to, "gpu0");
  EXPECT_EQ(links[1].bandwidth_gbps, 25);
}

TEST(DiscoverGpus, WithoutNvlink) {
  const Machine machine = described({.gpus = {FakeNvml::Gpu{}}});
  EXPECT_TRUE(nvlinks(machine).empty());
  const PathState state = nvlink_state(machine, {});
  EXPECT_FALSE(state.available);
  EXPECT_NE(state.note.find("no NVLink"), std::string::npos);
}

TEST(DiscoverGpus, LiesOnTheNumaNodeThatSysfsNames) {
  const fs::path root =
      fs::temp_directory_path() / ("sennit_discover_gpus_" + std::to_string(::getpid()));
  fs::create_directories(root / "sys/bus/pci/devices/0000:11:00.0");
  std::ofstream(root / "sys/bus/pci/devices/0000:11:00.0/numa_node") << "1\n";
  const Machine machine = described(FakeNvml::switched(2), root);
  fs::remove_all(root);
  EXPECT_EQ(machine.gpus[0].numa_node, -1);
  EXPECT_EQ(machine.gpus[1].numa_node, 1);
}

TEST(DiscoverGpus, ThatCannotBeReadAreNamed) {
  FakeNvml::Machine fake = FakeNvml::switched(1);
  fake.describe_result = 15;
  const Machine machine = described(fake);
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_NE(machine.gpu_note.find("GPU 0: "), std::string::npos) << machine.gpu_note;
}

TEST(DiscoverGpus, NoneIsSaid) {
  EXPECT_EQ(described({}).gpu_note, "NVML finds no GPU");
  FakeNvml::set({.missing = {"nvmlInit_v2"}});
  const auto absent = open_nvml(FakeNvml::symbols()).status();
  const Result<Machine> machine = [&] {
    const Result<NvmlDriver*> none = absent;
    return discover_host("/", none, fail(Code::kUnsupported, "no CUDA"));
  }();
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->gpu_note, absent.message());
}

}  // namespace
}  // namespace sennit
