#include "drivers/ucx/cards.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <string>

namespace sennit {
namespace {

namespace fs = std::filesystem;

class Cards : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("sennit_cards_test_" + std::to_string(::getpid()));
    fs::create_directories(root_ / "sys/class/net");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void add_interface(const std::string& name, std::map<std::string, std::string> files) const {
    files.insert({{"operstate", "up"}, {"type", "1"}, {"ifindex", "7"}, {"iflink", "7"}});
    for (const auto& [file, text] : files) {
      write((fs::path("sys/class/net") / name / file).string(), text);
    }
  }

  fs::path root_;
};

TEST_F(Cards, InterfacesThatAreUpAndHaveADeviceOrAPeer) {
  add_interface("eth0", {{"device/vendor", "0x1af4"}, {"speed", "25000"}});
  add_interface("eth1", {{"device/vendor", "0x1af4"}, {"operstate", "down"}});
  add_interface("lo", {{"type", "772"}, {"operstate", "unknown"}});
  add_interface("docker0", {{"bridge/forward_delay", "1"}});
  add_interface("tun0", {});
  add_interface("rail0", {{"iflink", "9"}, {"speed", "-1"}});
  const std::vector<NetworkCard> expected = {{.device = "eth0", .mbit_per_s = 25000},
                                             {.device = "rail0"}};
  EXPECT_EQ(find_cards(root_), expected);
}

TEST_F(Cards, ActiveRdmaPortsComeInsteadOfInterfaces) {
  add_interface("eth0", {{"device/vendor", "0x1af4"}});
  write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  const std::vector<NetworkCard> expected = {
      {.device = "mlx5_0:1", .is_rdma = true, .mbit_per_s = 400000}};
  EXPECT_EQ(find_cards(root_), expected);
}

// Two sockets of a machine; on the first two GPUs behind a switch of their own with a card each, on
// the second one GPU and two cards at the same bridge.
TEST_F(Cards, NearestAreThoseBehindTheSameSwitch) {
  const std::string one = "sys/devices/pci0000:10/0000:10:01.0/";
  const std::string two = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/";
  const std::map<std::string, std::string> devices = {
      {"0000:12:00.0", one + "0000:11:00.0/"},
      {"0000:22:00.0", one + "0000:21:00.0/"},
      {"0000:82:00.0", two},
  };
  const auto add = [&](const std::string& folder, const std::string& link) {
    write(folder + "/numa_node", folder.starts_with(one) ? "0" : "1");
    fs::create_directories((root_ / link).parent_path());
    fs::create_directory_symlink(root_ / folder, root_ / link);
  };
  for (const auto& [name, folder] : devices) {
    add(folder + name, "sys/bus/pci/devices/" + name);
  }
  add(one + "0000:21:00.0/0000:23:00.0", "sys/class/infiniband/mlx5_0/device");
  add(one + "0000:11:00.0/0000:13:00.0", "sys/class/infiniband/mlx5_1/device");
  add(two + "0000:83:00.0", "sys/class/net/eth2/device");
  add(two + "0000:84:00.0", "sys/class/net/eth3/device");
  const std::vector<NetworkCard> cards = {{.device = "mlx5_0:1", .is_rdma = true},
                                          {.device = "mlx5_1:1", .is_rdma = true},
                                          {.device = "eth2"},
                                          {.device = "eth3"}};
  EXPECT_EQ(nearest_cards(cards, "0000:12:00.0", root_), std::vector{1});
  EXPECT_EQ(nearest_cards(cards, "0000:22:00.0", root_), std::vector{0});
  EXPECT_EQ(nearest_cards(cards, "0000:82:00.0", root_), (std::vector{2, 3}));
  EXPECT_EQ(nearest_cards(cards, "0000:99:00.0", root_), std::vector<int>()) << "no such GPU";
  EXPECT_EQ(nearest_cards(cards, "", root_), std::vector<int>());
  EXPECT_EQ(nearest_cards(std::array{NetworkCard{.device = "lo"}}, "0000:12:00.0", root_),
            std::vector<int>())
      << "of lo nothing is known";
}

TEST_F(Cards, NamedOnesComeInTheirOrder) {
  add_interface("rail0", {{"speed", "10000"}});
  const auto cards = wanted_cards("rail1,rail0,mlx5_2:1", root_);
  ASSERT_TRUE(cards.ok());
  const std::vector<NetworkCard> expected = {{.device = "rail1"},
                                             {.device = "rail0", .mbit_per_s = 10000},
                                             {.device = "mlx5_2:1", .is_rdma = true}};
  EXPECT_EQ(*cards, expected);
}

TEST_F(Cards, NamesThatNoCardCanHaveAreRefused) {
  for (const char* names : {"eth0,,eth1", "../../etc", "eth0, eth1", ","}) {
    EXPECT_EQ(wanted_cards(names, root_).status().code(), Code::kInvalidArgument) << names;
  }
}

}  // namespace
}  // namespace sennit
