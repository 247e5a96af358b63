// The border of the C ABI: every entry is `return guard([&]() -> Status { ... });`, so that no
// exception leaves the library and the last failure of each thread can be asked for.
//
//   sennit_status_t sennit_comm_rank(sennit_comm_t comm, int* rank) {
//     return guard([&]() -> Status {
//       SENNIT_RETURN_IF_ERROR(check_comm(comm));
//       *rank = comm->rank;
//       return {};
//     });
//   }
#pragma once

#include "base/status.hpp"
#include "sennit/sennit.h"

#include <exception>
#include <new>

namespace sennit {

// Keeps `status` as this thread's last failure, unless it is success or kInProgress, and returns
// its code as the ABI spells it.
sennit_status_t report(const Status& status) noexcept;

// The same where an exception of a library below us got as far as the border, which is a defect of
// ours unless memory is short.
sennit_status_t report_out_of_memory() noexcept;
sennit_status_t report_exception(const char* what) noexcept;

// Fills what the caller's struct_size covers. The pointers in `error` live as long as `status` or a
// copy of it. kInvalidArgument when `error` is NULL or has no size.
sennit_status_t fill_error(const Status& status, sennit_error_t* error) noexcept;

template <typename F>
sennit_status_t guard(F&& call) noexcept {
  try {
    return report(std::forward<F>(call)());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  } catch (const std::exception& e) {
    return report_exception(e.what());
  } catch (...) {
    return report_exception("of a type that says nothing about itself");
  }
}

}  // namespace sennit
