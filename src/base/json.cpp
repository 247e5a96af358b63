#include "base/json.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace sennit {
namespace {

// Finds where a text stops being JSON; the library's own parser reports it only by an exception.
class ErrorPosition : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position,
                   const std::string& last_token,
                   const nlohmann::json::exception&) override {
    // The count of bytes read, the offending one among them.
    offset = position == 0 ? 0 : position - 1;
    token = last_token;
    return false;
  }

  std::size_t offset = 0;
  std::string token;
};

Status wrong_type(const Json& value, std::string_view where, std::string_view expected) {
  return fail(
      Code::kInvalidArgument, "{} is of type {}, expected {}", where, value.type_name(), expected);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view file_name) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) {
    return json;
  }
  ErrorPosition error;
  Json::sax_parse(text, &error);
  const std::string_view before = text.substr(0, std::min(error.offset, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  constexpr std::size_t kShown = 40;
  const std::string found = error.offset < text.size()
                                ? fmt::format("found '{}'", error.token.substr(0, kShown))
                                : "the text ends";
  return fail(
      Code::kInvalidArgument, "{}:{}:{}: {}, expected JSON", file_name, line, column, found);
}

std::string dump_json(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Result<std::int64_t> json_integer(const Json& value,
                                  std::string_view where,
                                  std::int64_t min,
                                  std::int64_t max) {
  if (!value.is_number_integer()) {
    return wrong_type(value, where, "an integer");
  }
  // Unsigned values above the signed range would wrap to negative ones.
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const std::int64_t number = too_large ? 0 : value.get<std::int64_t>();
  if (too_large || number < min || number > max) {
    return fail(
        Code::kInvalidArgument, "{} is {}, expected {} to {}", where, value.dump(), min, max);
  }
  return number;
}

Result<std::string> json_text(const Json& value, std::string_view where) {
  const auto* const text = value.get_ptr<const std::string*>();
  return text != nullptr ? Result(*text) : wrong_type(value, where, "a string");
}

Result<bool> json_flag(const Json& value, std::string_view where) {
  const auto* const flag = value.get_ptr<const bool*>();
  return flag != nullptr ? Result(*flag) : wrong_type(value, where, "true or false");
}

Status expect_json_list(const Json& value, std::string_view where) {
  return value.is_array() ? Status() : wrong_type(value, where, "an array");
}

Result<JsonObject> JsonObject::open(const Json& value,
                                    std::string where,
                                    std::initializer_list<std::string_view> keys) {
  if (!value.is_object()) {
    return wrong_type(value, where, "an object");
  }
  for (const auto& [key, unused] : value.items()) {
    if (std::ranges::find(keys, key) == keys.end()) {
      return fail(Code::kInvalidArgument,
                  "{} has an unknown key '{}'; there are: {}",
                  where,
                  key,
                  fmt::join(keys, ", "));
    }
  }
  return JsonObject(value, std::move(where));
}

std::string JsonObject::where(std::string_view key) const {
  return fmt::format("{}.{}", where_, key);
}

Result<const Json*> JsonObject::at(std::string_view key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) {
    return fail(Code::kInvalidArgument, "{} lacks the key '{}'", where_, key);
  }
  return &*found;
}

Result<std::int64_t> JsonObject::integer(std::string_view key,
                                         std::int64_t min,
                                         std::int64_t max) const {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, at(key));
  return json_integer(*value, where(key), min, max);
}

Result<std::string> JsonObject::text(std::string_view key) const {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, at(key));
  return json_text(*value, where(key));
}

Result<bool> JsonObject::flag(std::string_view key) const {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, at(key));
  return json_flag(*value, where(key));
}

Result<const Json*> JsonObject::list(std::string_view key) const {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, at(key));
  SENNIT_RETURN_IF_ERROR(expect_json_list(*value, where(key)));
  return value;
}

}  // namespace sennit
