// SENNIT_CHECK: a condition that only a defect of Sennit can break. Always on; ends the process.
#pragma once

namespace sennit {

// Prints where and what, then aborts. Never returns.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

}  // namespace sennit

#define SENNIT_CHECK(condition, why)                                 \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::sennit::check_failed(__FILE__, __LINE__, #condition, (why)); \
    }                                                                \
  } while (false)
