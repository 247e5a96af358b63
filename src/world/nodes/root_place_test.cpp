#include "world/nodes/root_place.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace sennit {
namespace {

TEST(RootPlace, HostsAndPortsAreRead) {
  struct Case {
    const char* text;
    std::vector<std::string> hosts;
    std::vector<std::uint16_t> ports;  // empty: eight from the key
  };
  const std::vector<Case> cases = {
      {"node7", {"node7"}, {}},
      {"node7:4711", {"node7"}, {4711}},
      {"10.0.0.7:1", {"10.0.0.7"}, {1}},
      {"fd00::7", {"fd00::7"}, {}},
      {"[fd00::7]", {"fd00::7"}, {}},
      {"[fd00::7]:65535", {"fd00::7"}, {65535}},
      {"10.0.0.7,fd00::7,node7", {"10.0.0.7", "fd00::7", "node7"}, {}},
  };
  for (const Case& one : cases) {
    const auto place = parse_root(one.text, "key", PortRange());
    ASSERT_TRUE(place.ok()) << one.text << ": " << place.status().message();
    EXPECT_EQ(place->hosts, one.hosts) << one.text;
    EXPECT_EQ(place->ports, one.ports.empty() ? ports_of("key", PortRange()) : one.ports)
        << one.text;
  }
}

TEST(RootPlace, WhatIsNoHostIsRefusedByName) {
  for (const char* const text : {"",
                                 ",",
                                 "node7,",
                                 "node7:",
                                 "node7:0",
                                 "node7:65536",
                                 "node7:x",
                                 "[fd00::7",
                                 "[fd00::7]x",
                                 "[fd00::7]:",
                                 ":4711",
                                 "[]:1"}) {
    const auto place = parse_root(text, "key", PortRange());
    ASSERT_FALSE(place.ok()) << text;
    EXPECT_NE(place.status().message().find("SENNIT_ROOT"), std::string::npos);
  }
}

TEST(RootPlace, AKeyHasEightPortsOfItsOwn) {
  const PortRange range{20000, 31999};
  const auto ports = ports_of("one", range);
  EXPECT_EQ(std::set(ports.begin(), ports.end()).size(), 8U);
  for (const std::uint16_t port : ports) {
    EXPECT_GE(port, range.first);
    EXPECT_LE(port, range.last);
  }
  EXPECT_EQ(ports, ports_of("one", range));
  EXPECT_NE(ports, ports_of("two", range));
  const auto few = ports_of("one", {100, 102});
  EXPECT_EQ(std::set(few.begin(), few.end()), (std::set<std::uint16_t>{100, 101, 102}));
}

TEST(RootPlace, PortRangesAreRead) {
  ASSERT_TRUE(parse_port_range("1-65535").ok());
  EXPECT_EQ(parse_port_range("4711-4711")->last, 4711);
  for (const char* const text : {"", "1", "0-5", "5-1", "1-65536", "a-b", "1-"}) {
    EXPECT_FALSE(parse_port_range(text).ok()) << text;
  }
}

TEST(RootPlace, APortThatIsNamedGoesWithTheRanks) {
  EXPECT_EQ(*root_elsewhere("node7", "10.0.0.8"), "10.0.0.8");
  EXPECT_EQ(*root_elsewhere("node7:4711", "10.0.0.8"), "10.0.0.8:4711");
  EXPECT_EQ(*root_elsewhere("[fd00::7]:4711,node7", "fd00::8"), "[fd00::8]:4711");
  EXPECT_EQ(*root_elsewhere("fd00::7", "fd00::8"), "[fd00::8]");
}

class SecretFile : public testing::Test {
 protected:
  SecretFile() { write("0123456789abcdef"); }
  ~SecretFile() override { unlink(path_.c_str()); }
  void write(std::string_view text) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0600);
  }
  std::string path_ = testing::TempDir() + fmt::format("sennit-secret-{}", getpid());
};

TEST_F(SecretFile, ChangesTheKey) {
  const auto plain = stream_key("key", "");
  const auto first = stream_key("key", path_);
  ASSERT_TRUE(plain.ok() && first.ok());
  EXPECT_NE(*plain, *first);
  EXPECT_NE(*stream_key("other", ""), *plain);
  write("another secret of the job");
  EXPECT_NE(*stream_key("key", path_), *first);
}

TEST_F(SecretFile, ThatOthersCanReadIsRefused) {
  chmod(path_.c_str(), 0640);
  EXPECT_NE(stream_key("key", path_).status().message().find("mode 0640"), std::string::npos);
  chmod(path_.c_str(), 0600);
  write("short");
  EXPECT_FALSE(stream_key("key", path_).ok());
  EXPECT_FALSE(stream_key("key", path_ + "-missing").ok());
}

}  // namespace
}  // namespace sennit
