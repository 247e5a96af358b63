#include "base/log.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sennit {
namespace {

// Sends the log of one test to a file of its own.
class Log : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "sennit_log_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    use("TRACE", "ALL");
  }
  void TearDown() override {
    unsetenv("SENNIT_DEBUG");
    unsetenv("SENNIT_DEBUG_SUBSYS");
    unsetenv("SENNIT_DEBUG_FILE");
    reload_log_settings();
    std::filesystem::remove_all(folder_);
  }
  void use(const char* level, const char* subsystems) const {
    setenv("SENNIT_DEBUG", level, 1);
    setenv("SENNIT_DEBUG_SUBSYS", subsystems, 1);
    setenv("SENNIT_DEBUG_FILE", (folder_ / "log.%p").c_str(), 1);
    reload_log_settings();
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::ifstream file(folder_ / ("log." + std::to_string(getpid())));
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) {
      all.push_back(line);
    }
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(Log, ALineNamesTimeHostPidRankLevelAndSubsystem) {
  const LogRank log_rank(3);
  SENNIT_INFO("comm", "joined {} ranks", 8);
  std::string host(256, '\0');
  gethostname(host.data(), host.size());
  const std::string who = std::string(host.c_str()) + ":" + std::to_string(getpid());
  ASSERT_EQ(lines().size(), 1u);
  const std::string line = lines()[0];
  const std::string when = line.substr(0, std::string_view("sennit: hh:mm:ss.mmmZ ").size());
  EXPECT_TRUE(std::regex_match(when, std::regex("sennit: [0-2]\\d:[0-5]\\d:[0-6]\\d\\.\\d{3}Z ")))
      << when;
  EXPECT_EQ(line.substr(when.size()), who + " [3] INFO comm: joined 8 ranks");
}

TEST_F(Log, ALevelLetsThroughWhatIsAsSeriousOrMore) {
  use("INFO", "ALL");
  SENNIT_WARN("comm", "one");
  SENNIT_INFO("comm", "two");
  SENNIT_TRACE("comm", "three");
  EXPECT_EQ(lines().size(), 2u);
  EXPECT_FALSE(log_enabled(LogLevel::kTrace));
  use("NONE", "ALL");
  SENNIT_WARN("comm", "four");
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(Log, SubsystemsLimitInfoAndTraceButNotWarnings) {
  use("TRACE", "exec,select");
  SENNIT_INFO("comm", "no");
  SENNIT_INFO("sel", "no: a part of a name is another name");
  SENNIT_INFO("exec", "yes");
  SENNIT_TRACE("select", "yes");
  SENNIT_WARN("comm", "yes");
  EXPECT_EQ(lines().size(), 3u);
}

TEST_F(Log, ArgumentsOfADisabledLevelAreNotEvaluated) {
  use("WARN", "ALL");
  int evaluated = 0;
  SENNIT_INFO("comm", "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  SENNIT_WARN("comm", "{}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
}

TEST_F(Log, AWrongLevelIsReportedAndWarningsStayOn) {
  use("LOUD", "ALL");
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_NE(lines()[0].find("SENNIT_DEBUG='LOUD'"), std::string::npos) << lines()[0];
  EXPECT_TRUE(log_enabled(LogLevel::kWarn));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
}

TEST_F(Log, MessagesOfManyThreadsStayWholeLines) {
  constexpr int kThreads = 8;
  constexpr int kMessages = 50;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      const LogRank log_rank(thread);
      for (int message = 0; message < kMessages; ++message) {
        SENNIT_INFO("comm", "{} line {}\nstill the same", std::string(200, 'x'), message);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kThreads * kMessages));
  for (const std::string& line : all) {
    EXPECT_TRUE(line.starts_with("sennit: ")) << line;
    EXPECT_TRUE(line.ends_with(" still the same")) << line;
  }
}

TEST_F(Log, ErrnoSurvivesAMessage) {
  errno = ENOENT;
  SENNIT_INFO("comm", "anything");
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Log, UnknownVariablesAreReportedOnce) {
  setenv("SENNIT_MISSPELT", "1", 1);
  warn_about_unknown_variables();
  warn_about_unknown_variables();
  unsetenv("SENNIT_MISSPELT");
  int reported = 0;
  for (const std::string& line : lines()) {
    reported += line.find("SENNIT_MISSPELT") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(reported, 1) << "another test of this process may have been first";
}

}  // namespace
}  // namespace sennit
