// LineReader: files of lines of words, as tuning tables and GPU profiles are. A fault names its
// place: "file:line:column: what is wrong".
//
//   LineReader in(text, file_name);
//   while (in.next_line()) {
//     const std::string_view kind = in.word();
//     SENNIT_RETURN_IF_ERROR(in.read_field("ranks", {2, 64}, ranks));
//     SENNIT_RETURN_IF_ERROR(in.expect_end());
//   }
#pragma once

#include "base/status.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sennit {

class LineReader {
 public:
  // Both outlive the reader.
  LineReader(std::string_view text, std::string_view file_name)
      : text_(text), file_name_(file_name) {}

  // Goes on to the next line that has words; lines whose first word begins with '#' are comments.
  bool next_line();
  // The next word of the line; empty at its end.
  std::string_view word();
  // Takes the next word if it is this one.
  bool next_is(std::string_view expected);
  // All words that are left, as one text.
  std::string_view rest();

  struct Range {
    std::int64_t least;
    std::int64_t most;
  };
  // A whole number; `key` names it in the failure.
  Status read_value(std::string_view key, Range range, std::int64_t& value);
  // Bytes: a whole number, with K, M or G for 2^10, 2^20 and 2^30.
  Status read_bytes(std::string_view key, std::int64_t& value);
  // "key VALUE"
  Status read_field(std::string_view key, Range range, std::int64_t& value);
  // "key VALUE" of a finite number that is not negative.
  Status read_real(std::string_view key, double& value);
  Status expect_key(std::string_view key);
  Status expect_end();

  // kInvalidArgument, at the last word.
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kInvalidArgument,
                "{}:{}:{}: {}",
                file_name_,
                std::max(line_number_, 1),
                word_begin_ + 1,
                fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view text_;  // behind the present line
  std::string_view file_name_;
  std::string_view line_;
  std::size_t at_ = 0;          // behind the last word
  std::size_t word_begin_ = 0;  // of the last word: where a fault is
  int line_number_ = 0;
};

}  // namespace sennit
