#include "schedule/path_policy.hpp"

#include "schedule/plan.hpp"

#include <charconv>
#include <limits>
#include <optional>

namespace sennit {
namespace {

// Spreads numbers that differ in few bits over all 64 (the finisher of splitmix64).
std::uint64_t spread(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// (under way + 1) / (taken + 1), without the division: both ones stand for this message.
bool is_through_sooner(const PathView& a, const PathView& b) {
  return (a.under_way + 1) * (b.taken + 1) < (b.under_way + 1) * (a.taken + 1);
}

int least_loaded(std::span<const PathView> paths) {
  std::size_t best = 0;
  for (std::size_t p = 1; p < paths.size(); ++p) {
    if (paths[p].free && (!paths[best].free || is_through_sooner(paths[p], paths[best]))) {
      best = p;
    }
  }
  return static_cast<int>(best);
}

std::optional<std::uint64_t> number_in(std::string_view text, std::uint64_t largest) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= largest
             ? std::optional(value)
             : std::nullopt;
}

}  // namespace

int pick(const PathPolicy& policy, const MessageId& message, std::span<const PathView> paths) {
  switch (policy.rule) {
    case PathRule::kLeastLoaded:
      return least_loaded(paths);
    case PathRule::kFixed:
      return static_cast<int>(static_cast<std::size_t>(policy.path) % paths.size());
    case PathRule::kRoundRobin:
      return static_cast<int>(message.number % paths.size());
    case PathRule::kRandom:
      return static_cast<int>(spread(spread(policy.seed ^ message.channel) + message.number) %
                              paths.size());
  }
  return 0;
}

Result<PathPolicy> parse_path_policy(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view rule = text.substr(0, colon);
  const bool has_number = colon != std::string_view::npos;
  if (rule == "least_loaded" && !has_number) {
    return PathPolicy{};
  }
  if (rule == "round_robin" && !has_number) {
    return PathPolicy{.rule = PathRule::kRoundRobin};
  }
  if (rule == "random" && !has_number) {
    return PathPolicy{.rule = PathRule::kRandom};
  }
  if (rule == "random" || rule == "fixed") {
    const bool random = rule == "random";
    const auto largest =
        random ? std::numeric_limits<std::uint64_t>::max() : std::uint64_t{kMaxBundlePaths - 1};
    const auto number =
        has_number ? number_in(text.substr(colon + 1), largest) : std::optional<std::uint64_t>();
    if (number) {
      return random ? PathPolicy{.rule = PathRule::kRandom, .seed = *number}
                    : PathPolicy{.rule = PathRule::kFixed, .path = static_cast<int>(*number)};
    }
  }
  return fail(Code::kInvalidArgument,
              "there is no path policy '{}'; there are: least_loaded, round_robin, random:SEED, "
              "dynamic, claimed, and fixed:N for path N of those of a call, counted from 0 (to {})",
              text,
              kMaxBundlePaths - 1);
}

}  // namespace sennit
