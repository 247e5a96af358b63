#include "world/nodes/launcher_store.hpp"

#include "base/fd.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <map>
#include <string>
#include <thread>

namespace sennit {
namespace {

// A launcher's end of the connection to one rank; what is put serves all ranks.
class FakeLauncher {
 public:
  explicit FakeLauncher(std::map<std::string, std::string>& values) : values_(values) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    rank_ = UniqueFd(ends[0]);
    own_ = UniqueFd(ends[1]);
  }

  [[nodiscard]] int of_rank() const { return rank_.get(); }
  // What the rank asks is taken, and nothing answers any more.
  void shut_up() const { ::shutdown(own_.get(), SHUT_WR); }

  // Until the rank has got what it asks for, or an answer that it does not take.
  void serve(const std::string& refused = "") {
    std::string line;
    for (char byte = 0; ::read(own_.get(), &byte, 1) == 1;) {
      if (byte != '\n') {
        line.push_back(byte);
        continue;
      }
      const bool is_refused = !refused.empty() && line.starts_with("cmd=" + refused);
      answer(is_refused ? "cmd=" + refused + "_result rc=-1 msg=no" : answer_to(line));
      if (is_refused || line.starts_with("cmd=get ")) {
        return;
      }
      line.clear();
    }
  }

 private:
  static std::string word(const std::string& line, const std::string& name) {
    const std::size_t at = line.find(" " + name + "=") + name.size() + 2;
    return line.substr(at, line.find(' ', at) - at);
  }
  std::string answer_to(const std::string& line) {
    if (line.starts_with("cmd=init ")) {
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    }
    if (line == "cmd=get_my_kvsname") {
      return "cmd=my_kvsname kvsname=kvs_7_0";
    }
    if (line.starts_with("cmd=put kvsname=kvs_7_0 ")) {
      values_[word(line, "key")] = word(line, "value");
      return "cmd=put_result rc=0 msg=success";
    }
    if (line == "cmd=barrier_in") {
      return "cmd=barrier_out";
    }
    return "cmd=get_result rc=0 msg=success value=" + values_[word(line, "key")];
  }
  void answer(const std::string& line) const {
    const std::string whole = line + "\n";
    EXPECT_EQ(::write(own_.get(), whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  }

  std::map<std::string, std::string>& values_;
  UniqueFd rank_;
  UniqueFd own_;
};

TEST(LauncherStore, AllRanksOfHydraHaveTheTextOfRankZero) {
  std::map<std::string, std::string> values;
  for (const bool is_rank_0 : {true, false}) {
    FakeLauncher launcher(values);
    std::thread serving([&] { launcher.serve(); });
    const auto text = share_by_pmi(launcher.of_rank(), is_rank_0, "abc,10.0.0.7,fd00::7", 10);
    serving.join();
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, "abc,10.0.0.7,fd00::7");
  }
}

TEST(LauncherStore, WhatALauncherRefusesIsTold) {
  for (const char* const request : {"put", "get"}) {
    std::map<std::string, std::string> values;
    FakeLauncher launcher(values);
    std::thread serving([&] { launcher.serve(request); });
    const auto text = share_by_pmi(launcher.of_rank(), true, "abc", 10);
    serving.join();
    EXPECT_EQ(text.status().code(), Code::kSystemError);
    EXPECT_NE(text.status().message().find("msg=no"), std::string::npos) << text.status().message();
  }
}

TEST(LauncherStore, ALauncherThatLeavesOrIsMuteEndsTheWait) {
  std::map<std::string, std::string> values;
  const FakeLauncher mute(values);
  EXPECT_EQ(share_by_pmi(mute.of_rank(), true, "abc", 1).status().code(), Code::kJoinTimeout);
  const FakeLauncher leaving(values);
  leaving.shut_up();
  EXPECT_EQ(share_by_pmi(leaving.of_rank(), true, "abc", 10).status().code(), Code::kSystemError);
}

TEST(LauncherStore, AParentWithoutPmixIsNoLauncher) {
  const auto text = share_by_pmix(true, "abc", 1);
  EXPECT_EQ(text.status().code(), Code::kUnsupported);
  EXPECT_NE(text.status().message().find("libpmix.so"), std::string::npos);
}

}  // namespace
}  // namespace sennit
