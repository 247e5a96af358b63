#include "drivers/nvml/nvml.hpp"

#include "drivers/nvml/testing/fake_nvml.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

TEST(Nvml, TellsOfGpusAndOfTheirWires) {
  FakeNvml::Machine machine = FakeNvml::switched(2);
  machine.gpus[1].links[3].is_up = false;
  FakeNvml::set(machine);
  const auto driver = open_nvml(FakeNvml::symbols());
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  NvmlDriver& nvml = *driver.value();
  EXPECT_EQ(nvml.device_count().value(), 2);
  EXPECT_EQ(nvml.driver_version().value(), "580.00");
  const Result<NvmlDevice> gpu = nvml.describe(1);
  ASSERT_TRUE(gpu.ok()) << gpu.status().message();
  EXPECT_EQ(gpu->name, "Fake H200");
  EXPECT_EQ(gpu->pci_bus_id, "0000:11:00.0");
  EXPECT_EQ(gpu->memory_bytes, std::int64_t{141} << 30);
  EXPECT_EQ(gpu->pcie_generation, 5);
  EXPECT_EQ(gpu->pcie_lanes, 16);
  const auto links = nvml.links(1).value();
  ASSERT_EQ(links.size(), 17U);
  EXPECT_EQ(links[3].index, 4);
  EXPECT_EQ(links[3].version, "4.0");
  EXPECT_EQ(links[3].gbps, 25);
  EXPECT_EQ(links[3].far_end, NvmlLink::FarEnd::kSwitch);
  EXPECT_EQ(links[3].far_pci_bus_id, "0000:a0:00.0");
}

TEST(Nvml, WithoutNvlinkOrNumbersOfPcieStillDescribesAGpu) {
  FakeNvml::set({.gpus = {{.pcie_generation = 0, .pcie_width = 0, .links = {}}},
                 .missing = {"nvmlDeviceGetNvLinkState", "nvmlDeviceGetMaxPcieLinkWidth"}});
  const auto driver = open_nvml(FakeNvml::symbols());
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  EXPECT_EQ(driver.value()->describe(0).value().pcie_generation, 0);
  EXPECT_TRUE(driver.value()->links(0).value().empty());
}

TEST(Nvml, AnUnknownVersionOfNvlinkHasNoBandwidth) {
  FakeNvml::set({.gpus = {{.links = {{.version = 99}}}}});
  const auto driver = open_nvml(FakeNvml::symbols());
  const auto links = driver.value()->links(0).value();
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].gbps, 0);
  EXPECT_EQ(links[0].version, "");
}

TEST(Nvml, OfADriverThatLacksAFunctionIsRefusedByItsName) {
  FakeNvml::set({.missing = {"nvmlDeviceGetUUID"}});
  const Status status = open_nvml(FakeNvml::symbols()).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("nvmlDeviceGetUUID"), std::string::npos) << status.message();
}

TEST(Nvml, ThatDoesNotStartIsRefused) {
  FakeNvml::set({.init_result = 9});
  EXPECT_EQ(open_nvml(FakeNvml::symbols()).status().code(), Code::kUnsupported);
}

TEST(Nvml, FailuresOfAGpuAreTold) {
  FakeNvml::Machine machine = FakeNvml::switched(1);
  machine.describe_result = 15;
  FakeNvml::set(machine);
  const auto driver = open_nvml(FakeNvml::symbols());
  const Status status = driver.value()->describe(0).status();
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("(NVML 15)"), std::string::npos) << status.message();
  EXPECT_FALSE(driver.value()->describe(7).ok());
}

TEST(Nvml, OfTheMachineAtHandIsThereOrSaysWhyNot) {
  const Result<NvmlDriver*> driver = nvml_driver();
  if (driver.ok()) {
    EXPECT_GE((*driver)->device_count().value(), 0);
  } else {
    EXPECT_EQ(driver.status().code(), Code::kUnsupported);
    EXPECT_FALSE(driver.status().message().empty());
  }
}

}  // namespace
}  // namespace sennit
