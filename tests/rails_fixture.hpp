// For tests: a fixture that skips, loudly, where ranks on several nodes cannot have rails.
#pragma once

#include "leaves_nothing.hpp"
#include "node_processes.hpp"

#include <gtest/gtest.h>

namespace sennit::tests {

class RailsFixture : public LeavesNothing {
 protected:
  void SetUp() override {
    if (!why_no_ucx().empty()) {
      GTEST_SKIP() << "ucx: " << why_no_ucx();
    }
    LeavesNothing::SetUp();
  }
};

}  // namespace sennit::tests
