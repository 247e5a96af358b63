// What a test logs at INFO, in a file of its own.
#pragma once

#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sennit::tests {

class LogFile {
 public:
  LogFile() {
    std::string folder = ::testing::TempDir() + "sennit_log_XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ::setenv("SENNIT_DEBUG", "INFO", 1);
    ::setenv("SENNIT_DEBUG_FILE", (folder_ / "log").c_str(), 1);
    reload_log_settings();
  }
  ~LogFile() {
    ::unsetenv("SENNIT_DEBUG");
    ::unsetenv("SENNIT_DEBUG_FILE");
    reload_log_settings();
    std::filesystem::remove_all(folder_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // How many lines hold both.
  [[nodiscard]] int lines_with(const std::string& one, const std::string& other = {}) const {
    std::ifstream file(folder_ / "log");
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      count += line.find(one) != std::string::npos && line.find(other) != std::string::npos ? 1 : 0;
    }
    return count;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace sennit::tests
