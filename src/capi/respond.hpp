// What the functions of tools.h share: a request is read field by field, the answer is one JSON
// object.
#pragma once

#include "base/json.hpp"
#include "capi/guard.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sennit {

using Keys = std::initializer_list<std::string_view>;

// Reads the request, lets `respond` make the answer and copies it to where the caller frees it.
template <typename Respond>
sennit_status_t respond_to(const char* request, char** answer, Keys keys, Respond respond) {
  return guard([&]() -> Status {
    if (answer == nullptr) {
      return fail(Code::kInvalidArgument, "answer is NULL, expected where to put the answer");
    }
    *answer = nullptr;
    const std::string_view text = request == nullptr ? "" : request;
    SENNIT_ASSIGN_OR_RETURN(const Json json, parse_json(text.empty() ? "{}" : text, "request"));
    SENNIT_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::open(json, "request", keys));
    SENNIT_ASSIGN_OR_RETURN(const Json result, respond(object));
    const std::string form = dump_json(result);
    *answer = static_cast<char*>(std::malloc(form.size() + 1));
    if (*answer == nullptr) {
      return fail(Code::kSystemError, "no memory for an answer of {} bytes", form.size());
    }
    std::memcpy(*answer, form.c_str(), form.size() + 1);
    return {};
  });
}

}  // namespace sennit
