#include "discover/discover.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace sennit {
namespace {

namespace fs = std::filesystem;

// A folder that looks like the root of a machine with one socket, two NUMA nodes and six of eight
// hardware threads allowed.
class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("sennit_discover_test_" + std::to_string(::getpid()));
    write("proc/sys/kernel/hostname", "node17\n");
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fake CPU 9000\n\nprocessor\t: 1\n");
    write("proc/meminfo", "MemTotal:       16252928 kB\nMemFree:        1 kB\n");
    write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,6,7\n");
    for (const int node : {1, 0}) {
      const std::string folder = "sys/devices/system/node/node" + std::to_string(node);
      write(folder + "/cpulist", node == 0 ? "0-3\n" : "4-7\n");
      write(folder + "/meminfo", "Node " + std::to_string(node) + " MemTotal:        8126464 kB\n");
    }
    write("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0,4\n");
  }

  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& path, std::string_view text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(FakeRoot, IsDescribedAsItsFilesSay) {
  const Result<Machine> machine = discover_host(root_);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->name, "node17");
  EXPECT_EQ(machine->cpu_model, "Fake CPU 9000");
  EXPECT_EQ(machine->cores, 6);
  EXPECT_EQ(machine->memory_bytes, std::int64_t{16252928} * 1024);
  ASSERT_EQ(machine->numa_nodes.size(), 2U);
  EXPECT_EQ(machine->numa_nodes[1].index, 1);
  EXPECT_EQ(machine->numa_nodes[1].cpus, "4-7");
  EXPECT_EQ(machine->numa_nodes[1].memory_bytes, std::int64_t{8126464} * 1024);
  ASSERT_EQ(machine->caches.size(), 1U);
  EXPECT_EQ(machine->caches[0].bytes, 32 * 1024);
  EXPECT_EQ(machine->caches[0].shared_by, 2);
  EXPECT_TRUE(machine->gpus.empty());
  EXPECT_FALSE(machine->gpu_note.empty());
}

TEST_F(FakeRoot, HasTheFingerprintOfItsKindAndNotOfItsName) {
  const Result<Machine> machine = discover_host(root_);
  write("proc/sys/kernel/hostname", "node18\n");
  write("proc/meminfo", "MemTotal: 16253000 kB\n");
  const Result<Machine> twin = discover_host(root_);
  write("proc/self/status", "Cpus_allowed_list:\t0\n");
  const Result<Machine> smaller = discover_host(root_);
  ASSERT_TRUE(machine.ok() && twin.ok() && smaller.ok());
  EXPECT_EQ(fingerprint(*machine).size(), 16U);
  EXPECT_EQ(fingerprint(*machine), fingerprint(*twin));
  EXPECT_NE(fingerprint(*machine), fingerprint(*smaller));
}

TEST_F(FakeRoot, WithoutItsMemorySizeIsRefusedByTheNameOfTheFile) {
  write("proc/meminfo", "nothing\n");
  const Status status = discover_host(root_).status();
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("proc/meminfo"), std::string::npos) << status.message();
}

TEST_F(FakeRoot, WithNonsenseForCoresIsRefused) {
  write("proc/self/status", "Cpus_allowed_list:\t7-3,x\n");
  EXPECT_EQ(discover_host(root_).status().code(), Code::kSystemError);
}

TEST(Discover, DescribesTheMachineAtHand) {
  const Result<Machine> machine = discover_host();
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_GE(machine->cores, 1);
  EXPECT_GT(machine->memory_bytes, 0);
  EXPECT_EQ(to_json(*machine)["paths"].size(), kPathKinds.size());
}

}  // namespace
}  // namespace sennit
