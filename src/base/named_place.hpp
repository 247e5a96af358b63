// For fuzz targets: whether a parser's refusal names the place in the file.
#pragma once

#include <cstddef>
#include <string_view>

namespace sennit {

// "fuzz:12: ..." names one number (a line), "fuzz:12:3: ..." two (and a column).
inline bool names_a_place(std::string_view message, int numbers) {
  constexpr std::string_view kFile = "fuzz:";
  if (!message.starts_with(kFile)) {
    return false;
  }
  message.remove_prefix(kFile.size());
  for (; numbers > 0; --numbers) {
    const std::size_t digits = message.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || message[digits] != ':') {
      return false;
    }
    message.remove_prefix(digits + 1);
  }
  return true;
}

}  // namespace sennit
