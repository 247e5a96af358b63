#include "base/status.hpp"

#include <cstdio>
#include <cstdlib>

namespace sennit {

void check_failed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(
      stderr,
      "sennit: internal error at %s:%d: %s (%s). This is a defect of Sennit; please report it.\n",
      file,
      line,
      why,
      condition);
  std::abort();
}

std::string_view code_text(Code code) {
  switch (code) {
#define SENNIT_CODE(c_name, value, cpp_name, python_name, text) \
  case Code::cpp_name:                                          \
    return text;
#include "sennit/codes.def"
#undef SENNIT_CODE
  }
  return "unknown status code";
}

std::string_view code_name(Code code) {
  switch (code) {
#define SENNIT_CODE(c_name, value, cpp_name, python_name, text) \
  case Code::cpp_name:                                          \
    return #c_name;
#include "sennit/codes.def"
#undef SENNIT_CODE
  }
  return "SENNIT_UNKNOWN";
}

const std::string& Status::message() const {
  static const std::string kNone;
  return ok() ? kNone : failure_->message;
}

const ErrorDetail& Status::detail() const {
  static const ErrorDetail kNone;
  return ok() ? kNone : failure_->detail;
}

Status Status::in(std::string_view context) const {
  return ok() ? *this : Status(code(), fmt::format("{}: {}", context, message()), detail());
}

}  // namespace sennit
