// Status codes as text, the last error of a thread, and the version.
#include "capi/guard.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#define SENNIT_QUOTE_INNER(text) #text
#define SENNIT_QUOTE(text) SENNIT_QUOTE_INNER(text)
#define SENNIT_VERSION_TEXT          \
  SENNIT_QUOTE(SENNIT_VERSION_MAJOR) \
  "." SENNIT_QUOTE(SENNIT_VERSION_MINOR) "." SENNIT_QUOTE(SENNIT_VERSION_PATCH)

static_assert(std::string_view(SENNIT_VERSION_TEXT) == SENNIT_PROJECT_VERSION,
              "sennit.h and CMakeLists.txt name different versions");

namespace sennit {
namespace {

thread_local Status last_error;

// Made when the library is loaded, because it is needed where nothing can be allocated.
const Status kOutOfMemory(Code::kSystemError, "out of memory on the host");

}  // namespace

sennit_status_t report(const Status& status) noexcept {
  if (!status.ok() && status.code() != Code::kInProgress) {
    last_error = status;
  }
  return static_cast<sennit_status_t>(status.code());
}

sennit_status_t report_out_of_memory() noexcept { return report(kOutOfMemory); }

sennit_status_t report_exception(const char* what) noexcept {
  try {
    return report(fail(Code::kInternalError, "an exception reached the C ABI: {}", what));
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  }
}

sennit_status_t fill_error(const Status& status, sennit_error_t* error) noexcept {
  if (error == nullptr || error->struct_size <= sizeof(error->struct_size)) {
    return SENNIT_INVALID_ARGUMENT;
  }
  static_assert(std::is_same_v<int, std::int32_t>, "blamed_ranks is handed out as it is");
  const ErrorDetail& detail = status.detail();
  const std::size_t size = std::min(error->struct_size, sizeof(sennit_error_t));
  const sennit_error_t full = {
      .struct_size = error->struct_size,
      .status = static_cast<sennit_status_t>(status.code()),
      .message = status.message().c_str(),
      .comm = detail.comm.c_str(),
      .op = detail.op.c_str(),
      .sequence = detail.sequence,
      .count = detail.count,
      .dtype = detail.dtype.c_str(),
      .reduce_op = detail.reduce_op.c_str(),
      .root = detail.root,
      .rank = detail.rank,
      .size = detail.size,
      .blamed_ranks = detail.blamed_ranks.data(),
      .blamed_count = detail.blamed_ranks.size(),
      .evidence = detail.evidence.c_str(),
      .elapsed_s = detail.elapsed_s,
      .next = detail.next.c_str(),
  };
  std::memcpy(error, &full, size);
  return SENNIT_OK;
}

}  // namespace sennit

const char* sennit_status_name(sennit_status_t status) {
  return sennit::code_name(static_cast<sennit::Code>(status)).data();
}

const char* sennit_status_text(sennit_status_t status) {
  return sennit::code_text(static_cast<sennit::Code>(status)).data();
}

// Neither function changes the last error, not even when its own argument is wrong.
sennit_status_t sennit_last_error(sennit_error_t* error) {
  return sennit::fill_error(sennit::last_error, error);
}

const char* sennit_last_error_message(void) { return sennit::last_error.message().c_str(); }

int sennit_version(void) {
  return SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
}

const char* sennit_version_string(void) { return SENNIT_VERSION_TEXT; }
