#include "settings.hpp"

#include "sennit/tools.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace sennit_mpi {
namespace {

constexpr std::array<std::string_view, kCalls> kNames = {
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, ...) #name, #nonblocking, #name "_init",
#define SENNIT_MPI_OTHER(name, ...) #name,
#include "calls.def"
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void complain(const char* name, const std::string& value, const std::string& allowed) {
  sennit_tool_warn("mpi", (std::string(name) + "=" + value + " is ignored: " + allowed).c_str());
}

bool read_flag(const char* name, const char* on, const char* off) {
  const std::string value = variable(name);
  if (!value.empty() && value != on && value != off) {
    complain(name, value, std::string("it can be ") + on + " or " + off);
  }
  return value == on;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.is_off = read_flag("SENNIT_MPI", "off", "on");
  settings.tells_share = read_flag("SENNIT_MPI_STATS", "1", "0");
  settings.takes_nodes = read_flag("SENNIT_MPI_NODES", "sennit", "mpi");
  settings.has_codecs = !variable("SENNIT_CODEC").empty();
  if (const std::string text = variable("SENNIT_MPI_AFTER"); !text.empty()) {
    int after = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), after);
    if (error == std::errc() && end == text.data() + text.size() && after >= 0) {
      settings.after = after;
    } else {
      complain("SENNIT_MPI_AFTER", text, "it has to be a number of calls");
    }
  }
  std::istringstream names(variable("SENNIT_MPI_PASS"));
  for (std::string name; std::getline(names, name, ',');) {
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) {
      complain("SENNIT_MPI_PASS", name, "names look like Allreduce,Bcast");
    } else {
      settings.passed[static_cast<std::size_t>(found - kNames.begin())] = true;
    }
  }
  return settings;
}

std::string Settings::shared() const {
  std::string text = "after=" + std::to_string(after) + (takes_nodes ? " nodes" : "") +
                     (has_codecs ? " codecs" : "") + " pass=";
  for (const bool is_passed : passed) {
    text += is_passed ? '1' : '0';
  }
  return text;
}

}  // namespace sennit_mpi
