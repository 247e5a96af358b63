// Seconds, as callers and variables give them, as a span of the steady clock.
#pragma once

#include <chrono>

namespace sennit {

// A conversion that does not fit is undefined. So whatever is longer than a century becomes a
// century, which can be added to any time; below zero likewise. What is no number becomes zero.
inline std::chrono::steady_clock::duration clock_span(double seconds) {
  constexpr double kCentury = 3e9;
  const double within = seconds > kCentury    ? kCentury
                        : seconds < -kCentury ? -kCentury
                        : seconds == seconds  ? seconds
                                              : 0.0;
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(within));
}

}  // namespace sennit
