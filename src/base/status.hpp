// Status and Result: how code inside the library reports failure. Nothing here throws.
//
//   Result<int> parse_rank(std::string_view text);
//
//   Status use(std::string_view text) {
//     SENNIT_ASSIGN_OR_RETURN(const int rank, parse_rank(text));
//     if (rank < 0) {
//       return fail(Code::kInvalidArgument, "rank {} is negative", rank);
//     }
//     return {};
//   }
//
// A Status is one pointer: success allocates nothing. It is a value, safe to copy between threads.
#pragma once

#include "base/check.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sennit {

enum class Code : int {
#define SENNIT_CODE(c_name, value, cpp_name, python_name, text) cpp_name = (value),
#include "sennit/codes.def"
#undef SENNIT_CODE
};

// The sentence that belongs to a code, and its name in the C ABI ("SENNIT_RANK_FAILED").
std::string_view code_text(Code code);
std::string_view code_name(Code code);

// The fields of the error contract (docs/errors.md). A field that is not known keeps its default.
struct ErrorDetail {
  std::string comm;            // name of the communicator
  std::string op;              // collective, e.g. "all_reduce"
  std::uint64_t sequence = 0;  // number of the call on its communicator, from 1; 0: not in a call
  std::uint64_t count = 0;     // elements
  std::string dtype;
  std::string reduce_op;
  int root = -1;
  int rank = -1;
  int size = 0;
  std::vector<int> blamed_ranks;
  std::string evidence;    // what was seen, e.g. "killed; last finished call 6650"
  double elapsed_s = 0.0;  // since the call began
  std::string next;        // what the user can do now
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(Code code, std::string message) : Status(code, std::move(message), ErrorDetail{}) {}
  Status(Code code, std::string message, ErrorDetail detail)
      : failure_(
            std::make_shared<const Failure>(Failure{code, std::move(message), std::move(detail)})) {
  }

  [[nodiscard]] bool ok() const { return failure_ == nullptr; }
  [[nodiscard]] Code code() const { return ok() ? Code::kOk : failure_->code; }
  [[nodiscard]] const std::string& message() const;
  [[nodiscard]] const ErrorDetail& detail() const;

  // The same failure with `context` and a colon put in front of the message.
  [[nodiscard]] Status in(std::string_view context) const;

 private:
  struct Failure {
    Code code;
    std::string message;
    ErrorDetail detail;
  };
  std::shared_ptr<const Failure> failure_;
};

template <typename... Args>
Status fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    SENNIT_CHECK(!std::get<1>(state_).ok(), "a Result needs a value or a failure");
  }

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<1>(state_); }

  [[nodiscard]] T& value() & {
    SENNIT_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  [[nodiscard]] const T& value() const& {
    SENNIT_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    SENNIT_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::variant<T, Status> state_;
};

#define SENNIT_CONCAT_INNER(a, b) a##b
#define SENNIT_CONCAT(a, b) SENNIT_CONCAT_INNER(a, b)

#define SENNIT_RETURN_IF_ERROR(expression)                        \
  do {                                                            \
    if (::sennit::Status status_ = (expression); !status_.ok()) { \
      return status_;                                             \
    }                                                             \
  } while (false)

#define SENNIT_ASSIGN_OR_RETURN(declaration, expression) \
  SENNIT_ASSIGN_OR_RETURN_INNER(SENNIT_CONCAT(result_, __LINE__), declaration, expression)
#define SENNIT_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) {                                                  \
    return result.status();                                            \
  }                                                                    \
  declaration = std::move(result).value()

}  // namespace sennit
