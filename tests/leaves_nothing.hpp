// For tests of processes: a fixture that fails a test which leaves a name, a socket or a child.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sennit::tests {

// Every name in /dev/shm and /tmp, and every Unix socket that has one.
std::set<std::string> all_names();

// Those of Sennit that are new and stay for seconds.
std::set<std::string> left_since(const std::set<std::string>& before);

class LeavesNothing : public testing::Test {
 protected:
  void SetUp() override { before_ = all_names(); }
  void TearDown() override;

 private:
  std::set<std::string> before_;
};

}  // namespace sennit::tests
