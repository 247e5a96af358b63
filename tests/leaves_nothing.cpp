#include "leaves_nothing.hpp"

#include "rank_processes.hpp"

#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace sennit::tests {

std::set<std::string> all_names() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path());
    }
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    constexpr int kWordsBeforeTheName = 7;
    std::string name;
    for (int word = 0; word <= kWordsBeforeTheName && words >> name; ++word) {
    }
    if (words) {
      names.insert(name);
    }
  }
  return names;
}

std::set<std::string> left_since(const std::set<std::string>& before) {
  // Programs that run beside this one come and go; what one of ours left behind would stay, and has
  // our name in it.
  std::set<std::string> left = all_names();
  std::erase_if(left, [&](const std::string& name) {
    return before.contains(name) || name.find("sennit") == std::string::npos;
  });
  for (const double until = now() + 5; !left.empty() && now() < until; sleep_s(0.05)) {
    const std::set<std::string> current = all_names();
    std::erase_if(left, [&](const std::string& name) { return !current.contains(name); });
  }
  return left;
}

void LeavesNothing::TearDown() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  const std::set<std::string> left = left_since(before_);
  EXPECT_TRUE(left.empty()) << *left.begin();
}

}  // namespace sennit::tests
