#include "base/line_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace sennit {
namespace {

constexpr std::string_view kBlank = " \t\r";

template <typename Number>
bool is_number(std::string_view text, Number& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

}  // namespace

bool LineReader::next_line() {
  while (!text_.empty()) {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    ++line_number_;
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    at_ = word_begin_ = std::min(line_.find_first_not_of(kBlank), line_.size());
    if (at_ < line_.size() && line_[at_] != '#') {
      return true;
    }
  }
  return false;
}

std::string_view LineReader::word() {
  word_begin_ = std::min(line_.find_first_not_of(kBlank, at_), line_.size());
  at_ = std::min(line_.find_first_of(kBlank, word_begin_), line_.size());
  return line_.substr(word_begin_, at_ - word_begin_);
}

bool LineReader::next_is(std::string_view expected) {
  const std::size_t before = at_;
  if (word() == expected) {
    return true;
  }
  at_ = before;
  return false;
}

std::string_view LineReader::rest() {
  word();
  const std::string_view all = line_.substr(word_begin_);
  at_ = line_.size();
  return all.substr(0, all.find_last_not_of(kBlank) + 1);
}

Status LineReader::read_value(std::string_view key, Range range, std::int64_t& value) {
  const std::string_view text = word();
  return is_number(text, value) && value >= range.least && value <= range.most
             ? Status()
             : refuse("'{}' after '{}' is no whole number in {}..{}",
                      text,
                      key,
                      range.least,
                      range.most);
}

Status LineReader::read_field(std::string_view key, Range range, std::int64_t& value) {
  SENNIT_RETURN_IF_ERROR(expect_key(key));
  return read_value(key, range, value);
}

Status LineReader::read_bytes(std::string_view key, std::int64_t& value) {
  constexpr std::string_view kUnits = "KMG";
  const std::string_view text = word();
  const std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (!is_number(shift == 0 ? text : text.substr(0, text.size() - 1), value) || value < 0 ||
      value > std::numeric_limits<std::int64_t>::max() >> shift) {
    return refuse("'{}' after '{}' is no number of bytes, such as 4096 or 32M", text, key);
  }
  value <<= shift;
  return {};
}

Status LineReader::read_real(std::string_view key, double& value) {
  SENNIT_RETURN_IF_ERROR(expect_key(key));
  const std::string_view text = word();
  constexpr double kMost = 1e12;
  return is_number(text, value) && std::isfinite(value) && value >= 0 && value <= kMost
             ? Status()
             : refuse("'{}' after '{}' is no number from 0 to {}", text, key, kMost);
}

Status LineReader::expect_key(std::string_view key) {
  const std::string_view found = word();
  return found == key ? Status() : refuse("expected '{}', found '{}'", key, found);
}

Status LineReader::expect_end() {
  const std::string_view found = word();
  return found.empty() ? Status() : refuse("'{}' has no meaning here", found);
}

}  // namespace sennit
