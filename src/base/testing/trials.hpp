// How many of a range's values a test tries. Sanitizers slow a program down tenfold, and what they
// look for is in the code that runs: a part of the range runs the same code. The ordinary build
// tries all of it (docs/decisions/0018-minutes-of-ci.md).
#pragma once

namespace sennit {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

template <typename Number>
constexpr Number trials(Number whole, Number sanitized) {
  return kSanitized ? sanitized : whole;
}

}  // namespace sennit
