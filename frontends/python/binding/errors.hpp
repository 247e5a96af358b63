// How a status of the C ABI becomes a Python exception: one class per code of codes.def, all under
// sennit.Error, with the fields of sennit_error_t as attributes.
#pragma once

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sennit::python {

// A sennit_error_t that owns its strings, so that it can outlive the thread or call that failed.
struct ErrorRecord {
  sennit_status_t status = SENNIT_OK;
  std::string message;
  std::string comm;
  std::string op;
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;
  std::string dtype;
  std::string reduce_op;
  std::int32_t root = -1;
  std::int32_t rank = -1;
  std::int32_t size = 0;
  std::vector<std::int32_t> blamed_ranks;
  std::string evidence;
  double elapsed_s = 0.0;
  std::string next;
};

// The failure that made the last call of this thread return `status`.
ErrorRecord record_of(sennit_status_t status);
ErrorRecord record_of(const sennit_error_t& error);

// Raises the exception that belongs to the record. Needs the GIL.
[[noreturn]] void raise(const ErrorRecord& record);
[[noreturn]] void raise(sennit_status_t status, const std::string& message);

// Raises unless the call that this thread just made succeeded. Needs the GIL.
void check(sennit_status_t status);

void bind_errors(nanobind::module_& module);

}  // namespace sennit::python
