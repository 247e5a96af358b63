#include "base/log.hpp"

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/host_name.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sennit {

std::atomic<int> log_threshold{static_cast<int>(LogLevel::kTrace)};

namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"NONE", "WARN", "INFO", "TRACE"};

thread_local int thread_rank = -1;

// What the variables said when they were read. Never changed afterwards and never freed, so that a
// reader needs no lock, also not in the child of a fork.
struct Settings {
  LogLevel level = LogLevel::kWarn;
  std::string subsystems;  // in commas: ",comm,exec,"; empty: all
  UniqueFd file;           // not valid: standard error
  std::string host;
  std::unique_ptr<const Settings> replaced;
};

std::atomic<const Settings*> current_settings{nullptr};

// In UTC, which needs no lock: time zones are read under one, also in the child of a fork.
std::string time_of_day() {
  const auto now = std::chrono::system_clock::now().time_since_epoch() % std::chrono::days(1);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::milliseconds>(now));
  return fmt::format("{:02}:{:02}:{:02}.{:03}Z",
                     time.hours().count(),
                     time.minutes().count(),
                     time.seconds().count(),
                     time.subseconds().count());
}

void write_line(const Settings& settings,
                LogLevel level,
                std::string_view subsystem,
                std::string_view text) {
  std::string line = fmt::format("sennit: {} {}:{} ", time_of_day(), settings.host, getpid());
  if (thread_rank >= 0) {
    fmt::format_to(std::back_inserter(line), "[{}] ", thread_rank);
  }
  fmt::format_to(std::back_inserter(line),
                 "{} {}: {}",
                 kLevelNames.at(static_cast<std::size_t>(level)),
                 subsystem,
                 text);
  // A message is one line whatever it quotes, so that lines of several processes stay separate.
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  const int fd = settings.file.valid() ? settings.file.get() : STDERR_FILENO;
  while (write(fd, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Fills in the settings; what is wrong with the variables is collected, to be logged with them.
std::vector<std::string> read_variables(Settings& settings) {
  std::vector<std::string> complaints;
  settings.host = host_name();
  std::string level = env_text("SENNIT_DEBUG");
  std::ranges::transform(level, level.begin(), [](char c) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  const auto* name = std::find(kLevelNames.begin(), kLevelNames.end(), level);
  if (name != kLevelNames.end()) {
    settings.level = static_cast<LogLevel>(name - kLevelNames.begin());
  } else {
    complaints.push_back(fmt::format(
        "SENNIT_DEBUG='{}' is not allowed; allowed: NONE, WARN, INFO, TRACE. WARN is used.",
        level));
  }
  const std::string subsystems = env_text("SENNIT_DEBUG_SUBSYS");
  if (subsystems != "ALL") {
    settings.subsystems = fmt::format(",{},", subsystems);
  }
  std::string path = env_text("SENNIT_DEBUG_FILE");
  if (!path.empty()) {
    replace_all(path, "%h", settings.host);
    replace_all(path, "%p", std::to_string(getpid()));
    settings.file = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!settings.file.valid()) {
      complaints.push_back(
          fmt::format("SENNIT_DEBUG_FILE='{}' cannot be opened: {}. Standard error is used.",
                      path,
                      std::strerror(errno)));
    }
  }
  return complaints;
}

// Reads the variables and publishes them, unless `only_first` and another thread has been faster.
const Settings& load_settings(bool only_first) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const Settings* present = current_settings.load(std::memory_order_acquire);
  if (only_first && present != nullptr) {
    return *present;
  }
  auto fresh = std::make_unique<Settings>();
  const std::vector<std::string> complaints = read_variables(*fresh);
  fresh->replaced.reset(present);
  log_threshold.store(static_cast<int>(fresh->level), std::memory_order_relaxed);
  const Settings* published = fresh.release();
  current_settings.store(published, std::memory_order_release);  // with the acquire in settings()
  if (published->level >= LogLevel::kWarn) {
    for (const std::string& complaint : complaints) {
      write_line(*published, LogLevel::kWarn, "env", complaint);
    }
  }
  return *published;
}

const Settings& settings() {
  const Settings* present = current_settings.load(std::memory_order_acquire);
  return present != nullptr ? *present : load_settings(/*only_first=*/true);
}

bool lets_through(const Settings& settings, LogLevel level, std::string_view subsystem) {
  if (level > settings.level) {
    return false;
  }
  return level == LogLevel::kWarn || settings.subsystems.empty() ||
         settings.subsystems.find(fmt::format(",{},", subsystem)) != std::string::npos;
}

}  // namespace

void log_message(LogLevel level, std::string_view subsystem, std::string_view text) {
  const int saved_errno = errno;
  const Settings& now = settings();
  if (lets_through(now, level, subsystem)) {
    write_line(now, level, subsystem, text);
  }
  errno = saved_errno;
}

void reload_log_settings() { load_settings(/*only_first=*/false); }

void warn_about_unknown_variables() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) {
    return;
  }
  for (const std::string& name : unknown_variables()) {
    SENNIT_WARN(
        "env", "{} is set, but Sennit has no such variable (`sennit info` lists them)", name);
  }
}

LogRank::LogRank(int rank) : previous_(thread_rank) { thread_rank = rank; }

LogRank::~LogRank() { thread_rank = previous_; }

}  // namespace sennit
