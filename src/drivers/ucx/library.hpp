// The functions of libucp, found at run time.
#pragma once

#include "base/status.hpp"

#include <ucp/api/ucp.h>

namespace sennit::ucx {

// SENNIT_UCX_FUNCTION(name)
#define SENNIT_UCX_FUNCTIONS(SENNIT_UCX_FUNCTION)     \
  SENNIT_UCX_FUNCTION(ucp_get_version)                \
  SENNIT_UCX_FUNCTION(ucp_get_version_string)         \
  SENNIT_UCX_FUNCTION(ucp_config_read)                \
  SENNIT_UCX_FUNCTION(ucp_config_modify)              \
  SENNIT_UCX_FUNCTION(ucp_config_release)             \
  SENNIT_UCX_FUNCTION(ucp_init_version)               \
  SENNIT_UCX_FUNCTION(ucp_cleanup)                    \
  SENNIT_UCX_FUNCTION(ucp_worker_create)              \
  SENNIT_UCX_FUNCTION(ucp_worker_destroy)             \
  SENNIT_UCX_FUNCTION(ucp_worker_flush_nbx)           \
  SENNIT_UCX_FUNCTION(ucp_worker_get_address)         \
  SENNIT_UCX_FUNCTION(ucp_worker_release_address)     \
  SENNIT_UCX_FUNCTION(ucp_worker_progress)            \
  SENNIT_UCX_FUNCTION(ucp_worker_get_efd)             \
  SENNIT_UCX_FUNCTION(ucp_worker_arm)                 \
  SENNIT_UCX_FUNCTION(ucp_worker_set_am_recv_handler) \
  SENNIT_UCX_FUNCTION(ucp_ep_create)                  \
  SENNIT_UCX_FUNCTION(ucp_ep_close_nbx)               \
  SENNIT_UCX_FUNCTION(ucp_am_send_nbx)                \
  SENNIT_UCX_FUNCTION(ucp_request_check_status)       \
  SENNIT_UCX_FUNCTION(ucp_request_free)               \
  SENNIT_UCX_FUNCTION(ucs_status_string)

struct Functions {
#define SENNIT_UCX_FUNCTION(name) decltype(&::name) name;
  SENNIT_UCX_FUNCTIONS(SENNIT_UCX_FUNCTION)
#undef SENNIT_UCX_FUNCTION
};

struct Version {
  unsigned major = 0;
  unsigned minor = 0;

  [[nodiscard]] bool is_at_least(unsigned wanted_major, unsigned wanted_minor) const {
    return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
  }
};

// The library that SENNIT_UCX_LIB names, else the one that this process has already (an MPI's),
// else the system's. It is never closed: it has threads and hooks of its own.
Result<Functions> open_library();

// UCX handles the signals of crashes while it is loaded and started; a program's own handlers, or
// the system's, are put back.
class CrashSignalsScope {
 public:
  CrashSignalsScope();
  ~CrashSignalsScope();
  CrashSignalsScope(const CrashSignalsScope&) = delete;
  CrashSignalsScope& operator=(const CrashSignalsScope&) = delete;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace sennit::ucx
