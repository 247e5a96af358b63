#include "base/env.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace sennit {
namespace {

struct Row {
  std::string_view name;
  EnvType type;
  std::string_view default_value;
  std::string_view text;
};

// The words of env.def's type column, spelt as they are there.
// NOLINTBEGIN(readability-identifier-naming)
constexpr EnvType text = EnvType::kText;
constexpr EnvType integer = EnvType::kInteger;
constexpr EnvType bytes = EnvType::kBytes;
constexpr EnvType seconds = EnvType::kSeconds;
// NOLINTEND(readability-identifier-naming)

constexpr Row kRows[] = {
#define SENNIT_ENV(name, type, default_value, what) {#name, type, default_value, what},
#include "base/env.def"
#undef SENNIT_ENV
};

const Row* find_row(std::string_view name) {
  const auto* row = std::find_if(
      std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

// The value that is set, else the default.
std::string value_or_default(std::string_view name, EnvType type) {
  const Row* row = find_row(name);
  SENNIT_CHECK(row != nullptr, "env.def has no row of this name");
  SENNIT_CHECK(row->type == type, "env.def gives this variable another type");
  return env_value(name).value_or(std::string(row->default_value));
}

Status not_allowed(std::string_view name, std::string_view value, std::string_view allowed) {
  if (value.empty()) {
    return fail(Code::kInvalidArgument, "{} is not set; allowed: {}", name, allowed);
  }
  return fail(Code::kInvalidArgument, "{}='{}' is not allowed; allowed: {}", name, value, allowed);
}

std::string describe(IntegerRange range) {
  const IntegerRange any;
  if (range.min == any.min && range.max == any.max) {
    return "a whole number";
  }
  if (range.max == any.max) {
    return fmt::format("a whole number, {} or more", range.min);
  }
  if (range.min == any.min) {
    return fmt::format("a whole number, {} or less", range.max);
  }
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

// How far the unit at the end of a size shifts it; -1 for what is no unit.
int unit_shift(std::string_view unit) {
  constexpr std::string_view kUnits = "KMG";
  if (unit.empty()) {
    return 0;
  }
  const std::size_t index = kUnits.find(unit.front());
  return unit.size() == 1 && index != std::string_view::npos ? static_cast<int>(10 * (index + 1))
                                                             : -1;
}

}  // namespace

std::string_view env_type_name(EnvType type) {
  switch (type) {
    case EnvType::kText:
      return "text";
    case EnvType::kInteger:
      return "integer";
    case EnvType::kBytes:
      return "bytes";
    case EnvType::kSeconds:
      return "seconds";
  }
  return "unknown";
}

std::string env_text(std::string_view name) { return value_or_default(name, EnvType::kText); }

Result<std::int64_t> env_integer(std::string_view name, IntegerRange range) {
  return parse_integer(name, value_or_default(name, EnvType::kInteger), range);
}

Result<std::uint64_t> env_bytes(std::string_view name) {
  return parse_bytes(name, value_or_default(name, EnvType::kBytes));
}

Result<std::optional<std::uint64_t>> env_bytes_if_set(std::string_view name) {
  if (!env_value(name)) {
    return std::optional<std::uint64_t>();
  }
  SENNIT_ASSIGN_OR_RETURN(const std::uint64_t bytes, env_bytes(name));
  return std::optional(bytes);
}

Result<double> env_seconds(std::string_view name) {
  return parse_seconds(name, value_or_default(name, EnvType::kSeconds));
}

std::optional<std::string> env_value(std::string_view name) {
  SENNIT_CHECK(find_row(name) != nullptr, "env.def has no row of this name");
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return value;
}

std::vector<EnvVariable> all_variables() {
  std::vector<EnvVariable> all;
  for (const Row& row : kRows) {
    all.push_back({row.name, row.type, row.default_value, env_value(row.name), row.text});
  }
  return all;
}

std::vector<std::string> unknown_variables() {
  constexpr std::string_view kPrefix = "SENNIT_";
  std::vector<std::string> unknown;
  for (const char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view assignment = *entry;
    const std::string_view name = assignment.substr(0, assignment.find('='));
    if (name.starts_with(kPrefix) && find_row(name) == nullptr) {
      unknown.emplace_back(name);
    }
  }
  return unknown;
}

Result<std::int64_t> parse_integer(std::string_view name,
                                   std::string_view value,
                                   IntegerRange range) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || number < range.min || number > range.max) {
    return not_allowed(name, value, describe(range));
  }
  return number;
}

Result<std::uint64_t> parse_bytes(std::string_view name, std::string_view value) {
  std::uint64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  const int shift = unit_shift({rest, static_cast<std::size_t>(end - rest)});
  if (error != std::errc() || shift < 0 || number > (~std::uint64_t{0} >> shift)) {
    return not_allowed(name, value, "a number of bytes, such as 4096, 64K, 2M or 1G");
  }
  return number << shift;
}

Result<double> parse_seconds(std::string_view name, std::string_view value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number)) {
    return not_allowed(name, value, "a number of seconds, such as 0.5 or 30");
  }
  return number;
}

}  // namespace sennit
