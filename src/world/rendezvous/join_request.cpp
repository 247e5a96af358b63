#include "world/rendezvous/join_request.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace sennit {
namespace {

using Settings = std::map<std::string_view, std::string_view>;

// "name=value" lines by name. A line without '=' is a name without value.
Settings split_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (!line.empty()) {
      settings[line.substr(0, equals)] =
          equals == std::string_view::npos ? std::string_view() : line.substr(equals + 1);
    }
  }
  return settings;
}

std::string_view value_in(const Settings& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "(none)" : found->second;
}

template <typename T>
void compare(std::string_view name,
             const T& rank0,
             const T& other,
             int rank,
             std::vector<std::string>& found) {
  if (rank0 != other) {
    found.push_back(fmt::format("{}: {} on rank 0, {} on rank {}", name, rank0, other, rank));
  }
}

std::vector<std::string> differences(const Hello& rank0, const Hello& other) {
  std::vector<std::string> found;
  compare("number of ranks", rank0.size, other.size, other.rank, found);
  compare("library version", rank0.library_version, other.library_version, other.rank, found);
  compare("segment bytes", rank0.segment_bytes, other.segment_bytes, other.rank, found);
  const Settings ours = split_settings(rank0.settings);
  const Settings theirs = split_settings(other.settings);
  std::set<std::string_view> names;
  for (const Settings* settings : {&ours, &theirs}) {
    for (const auto& [name, value] : *settings) {
      names.insert(name);
    }
  }
  for (const std::string_view name : names) {
    compare(name, value_in(ours, name), value_in(theirs, name), other.rank, found);
  }
  return found;
}

}  // namespace

Status join_failure(Code code,
                    std::string what,
                    std::vector<int> blamed_ranks,
                    std::string evidence,
                    std::string next) {
  ErrorDetail detail;
  detail.blamed_ranks = std::move(blamed_ranks);
  detail.evidence = std::move(evidence);
  detail.next = std::move(next);
  return {code, std::move(what), std::move(detail)};
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += first == 0 ? "" : ", ";
    text += last == first ? fmt::format("{}", ranks[first])
                          : fmt::format("{}-{}", ranks[first], ranks[last]);
    first = last + 1;
  }
  return text;
}

Status ranks_missing(const std::vector<int>& missing,
                     int size,
                     bool have_not_come,
                     std::string_view where,
                     std::string next) {
  const auto here = static_cast<std::size_t>(size) - missing.size();
  return join_failure(Code::kJoinTimeout,
                      fmt::format("{} of {} {}",
                                  rank_list(missing),
                                  size,
                                  have_not_come ? "did not join" : "joined but did not get ready"),
                      missing,
                      fmt::format("{} of {} ranks are here, at {}", here, size, where),
                      std::move(next));
}

Status check_agreement(const Hello& rank0, const Hello& other, pid_t other_pid) {
  const std::vector<std::string> found = differences(rank0, other);
  if (found.empty()) {
    return {};
  }
  return join_failure(
      Code::kMismatch,
      fmt::format("rank {} ({} pid {}) and rank 0 ({} pid {}) were started differently",
                  other.rank,
                  other.host,
                  other_pid,
                  rank0.host,
                  getpid()),
      {other.rank},
      fmt::format("{}", fmt::join(found, "; ")),
      "start all ranks with the same installation, number of ranks and settings");
}

Status other_protocol(pid_t pid, std::uint16_t protocol) {
  return join_failure(
      Code::kMismatch,
      fmt::format("pid {} uses another version of Sennit", pid),
      {},
      fmt::format("protocol version: {} on rank 0, {} on that process", kProtocolVersion, protocol),
      "run all ranks with the same installation");
}

}  // namespace sennit
