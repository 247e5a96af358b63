// The environment variables of env.def, with their types.
//
//   SENNIT_ASSIGN_OR_RETURN(const double timeout_s, env_seconds("SENNIT_JOIN_TIMEOUT_S"));
//   SENNIT_ASSIGN_OR_RETURN(const std::int64_t slots, env_integer("SENNIT_SLOTS", {.min = 0, .max =
//   64}));
//
// A variable is read when it is asked for: nothing is cached. One that is set to the empty text
// counts as not set. Asking for a name that no row has, or with another type than its row's, is a
// defect. Every error (kInvalidArgument) names the variable, its value and what is allowed.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

enum class EnvType { kText, kInteger, kBytes, kSeconds };

// "text", "integer", "bytes", "seconds".
std::string_view env_type_name(EnvType type);

struct EnvVariable {
  std::string_view name;
  EnvType type = EnvType::kText;
  std::string_view default_value;    // empty: none
  std::optional<std::string> value;  // as the environment has it now
  std::string_view text;             // what it is for
};

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

// The value that is set, else the default of the row. Without either, text is empty and the other
// types fail.
std::string env_text(std::string_view name);
Result<std::int64_t> env_integer(std::string_view name, IntegerRange range = {});
Result<std::uint64_t> env_bytes(std::string_view name);  // K, M and G are powers of 1024
Result<std::optional<std::uint64_t>> env_bytes_if_set(std::string_view name);
Result<double> env_seconds(std::string_view name);  // finite; may be negative

// What the environment itself says about a variable of the table, whatever its type.
std::optional<std::string> env_value(std::string_view name);

// All rows of the table in its order, for people (`sennit info`).
std::vector<EnvVariable> all_variables();

// SENNIT_* variables that are set but have no row: most likely misspelt.
std::vector<std::string> unknown_variables();

// The parsers by themselves. `name` is the variable that the text came from.
Result<std::int64_t> parse_integer(std::string_view name,
                                   std::string_view text,
                                   IntegerRange range = {});
Result<std::uint64_t> parse_bytes(std::string_view name, std::string_view text);
Result<double> parse_seconds(std::string_view name, std::string_view text);

}  // namespace sennit
