// Log lines for people: `sennit: hh:mm:ss.mmmZ host:pid [rank] LEVEL subsys: text`, the time in
// UTC, each written by one write(2).
//
//   const LogRank log_rank(identity.rank);
//   SENNIT_INFO("comm", "joined {} ranks in {:.3f} s", size, elapsed_s);
//
// SENNIT_DEBUG is the level, SENNIT_DEBUG_SUBSYS limits INFO and TRACE to some subsystems,
// SENNIT_DEBUG_FILE replaces standard error. They are read at the first message. A message below
// the level costs one relaxed load; its arguments are not evaluated. Any thread may log at any
// time.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string_view>

namespace sennit {

enum class LogLevel : int { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

// Starts at the highest level, so that the first message of any level reads the settings.
extern std::atomic<int> log_threshold;

inline bool log_enabled(LogLevel level) {
  return static_cast<int>(level) <= log_threshold.load(std::memory_order_relaxed);
}

// Writes the line if the settings let this level of this subsystem through. Keeps errno.
void log_message(LogLevel level, std::string_view subsystem, std::string_view text);

// Reads the variables again, for tests and for programs that set them late. A line that another
// thread is just writing may still go to the former place.
void reload_log_settings();

// Warns, once a process, about SENNIT_* variables that have no row in env.def.
void warn_about_unknown_variables();

// While it lives, lines of this thread carry the rank. May be nested.
class LogRank {
 public:
  explicit LogRank(int rank);
  ~LogRank();
  LogRank(const LogRank&) = delete;
  LogRank& operator=(const LogRank&) = delete;

 private:
  int previous_;
};

}  // namespace sennit

#define SENNIT_LOG(level, subsystem, ...)                                      \
  do {                                                                         \
    if (::sennit::log_enabled(level)) [[unlikely]] {                           \
      ::sennit::log_message((level), (subsystem), ::fmt::format(__VA_ARGS__)); \
    }                                                                          \
  } while (false)
#define SENNIT_WARN(subsystem, ...) SENNIT_LOG(::sennit::LogLevel::kWarn, subsystem, __VA_ARGS__)
#define SENNIT_INFO(subsystem, ...) SENNIT_LOG(::sennit::LogLevel::kInfo, subsystem, __VA_ARGS__)
#define SENNIT_TRACE(subsystem, ...) SENNIT_LOG(::sennit::LogLevel::kTrace, subsystem, __VA_ARGS__)
