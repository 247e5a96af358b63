// The one place that includes the JSON library, and how JSON from outside is read: every field by
// name, with its type and range checked, and keys that nobody reads refused.
//
//   SENNIT_ASSIGN_OR_RETURN(const Json json, parse_json(text, "plan.json"));
//   SENNIT_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::open(json, "plan", {"width"}));
//   SENNIT_ASSIGN_OR_RETURN(const auto width, object.integer("width", 1, 64));
#pragma once

#include "base/status.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sennit {

using Json = nlohmann::ordered_json;  // keeps the order in which keys were set

// kInvalidArgument, begun with "file_name:line:column: ", when `text` is not one JSON value.
Result<Json> parse_json(std::string_view text, std::string_view file_name);

// Indented by two; bytes that are not UTF-8 are replaced, so that this cannot fail.
std::string dump_json(const Json& json);

// A failure names `where`, which is the path of the value ("plan.strands[0].width"). The functions
// fail with kInvalidArgument when the value has another type or is out of range.
Result<std::int64_t> json_integer(const Json& value,
                                  std::string_view where,
                                  std::int64_t min,
                                  std::int64_t max);
Result<std::string> json_text(const Json& value, std::string_view where);
Result<bool> json_flag(const Json& value, std::string_view where);
Status expect_json_list(const Json& value, std::string_view where);

// Borrows the value that it reads.
class JsonObject {
 public:
  // Refuses what is no object, and keys other than `keys`.
  static Result<JsonObject> open(const Json& value,
                                 std::string where,
                                 std::initializer_list<std::string_view> keys);

  [[nodiscard]] bool has(std::string_view key) const { return value_->contains(key); }
  [[nodiscard]] std::string where(std::string_view key) const;

  // Refused when there is no such key.
  Result<const Json*> at(std::string_view key) const;
  Result<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  Result<std::string> text(std::string_view key) const;
  Result<bool> flag(std::string_view key) const;
  Result<const Json*> list(std::string_view key) const;

 private:
  JsonObject(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const Json* value_;
  std::string where_;
};

}  // namespace sennit
