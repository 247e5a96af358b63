// What calls of front ends did, counted in a file that outlives the process: `sennit run` reads it.
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/log.hpp"
#include "capi/call_trace.hpp"
#include "sennit/tools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

namespace sennit {
namespace {

constexpr std::size_t kRows = 64;
constexpr double kNanosecondsPerSecond = 1e9;

// The layout is that of frontends/python/sennit/cli/call_counts.py.
struct Share {
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> nanoseconds;
};
struct Row {
  char name[48];
  Share taken;
  Share passed_on;
  char why[160];  // the first that was passed on
};
struct Table {
  char magic[8];
  std::uint32_t pid;
  std::atomic<std::uint32_t> used;  // rows, whose names are written before they are counted here
  char unused[48];
  Row rows[kRows];
};
static_assert(sizeof(Share) == 24 && sizeof(Row) == 256 && offsetof(Table, rows) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

template <std::size_t kSize>
void write_text(char (&place)[kSize], std::string_view text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(place, text.data(), length);
  place[length] = '\0';
}

// A file of zeros is a table without rows. A child of fork() counts in its parent's.
Table* open_table() {
  std::string file = env_text("SENNIT_COUNTS_DIR");
  if (file.empty()) {
    return nullptr;
  }
  file += "/counts-XXXXXX";
  const UniqueFd fd(::mkostemp(file.data(), O_CLOEXEC));
  void* memory = MAP_FAILED;
  if (fd.valid() && ::ftruncate(fd.get(), sizeof(Table)) == 0) {
    memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (memory == MAP_FAILED) {
    SENNIT_WARN("counts", "calls are not counted: {} cannot be made: {}", file, strerror(errno));
    return nullptr;
  }
  auto* const table = static_cast<Table*>(memory);
  table->pid = static_cast<std::uint32_t>(::getpid());
  std::memcpy(table->magic, "SNTCOUNT", sizeof(table->magic));
  return table;
}

Table* table() {
  static Table* only = open_table();
  return only;
}

Row* find(Table& counts, std::string_view name) {
  const std::uint32_t used = counts.used.load(std::memory_order_acquire);
  for (Row* row = counts.rows; row != counts.rows + used; ++row) {
    if (name == row->name) {
      return row;
    }
  }
  return nullptr;
}

// Null where all rows have other names.
Row* find_or_add(Table& counts, std::string_view name) {
  if (Row* const known = find(counts, name)) {
    return known;
  }
  static std::mutex adding;
  const std::scoped_lock lock(adding);
  Row* row = find(counts, name);
  const std::uint32_t used = counts.used.load(std::memory_order_relaxed);
  if (row == nullptr && used < kRows) {
    row = &counts.rows[used];
    write_text(row->name, name);
    counts.used.store(used + 1, std::memory_order_release);
  }
  return row;
}

}  // namespace
}  // namespace sennit

int sennit_tool_counts(void) { return sennit::table() != nullptr ? 1 : 0; }

void sennit_tool_count(
    const char* call, size_t bytes, double seconds, const char* why, sennit_comm_t comm) {
  sennit::Table* const counts = sennit::table();
  sennit::Row* const row = counts == nullptr ? nullptr : sennit::find_or_add(*counts, call);
  if (row == nullptr) {
    return;
  }
  const auto nanoseconds = static_cast<std::uint64_t>(seconds * sennit::kNanosecondsPerSecond);
  sennit::trace_call({call, bytes, nanoseconds, why, comm});
  sennit::Share& share = why == nullptr ? row->taken : row->passed_on;
  if (share.calls.fetch_add(1, std::memory_order_relaxed) == 0 && why != nullptr) {
    sennit::write_text(row->why, why);
  }
  share.bytes.fetch_add(bytes, std::memory_order_relaxed);
  share.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}
