#include "nccl/watched_library.hpp"

#include "sennit/sennit.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string_view>

namespace {

std::mutex mutex;
std::set<std::string> paths;
std::atomic<void*> failing{nullptr};

template <typename Function>
Function* library(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace sennit_nccl_test {

std::set<std::string> companion_paths() {
  const std::scoped_lock lock(mutex);
  return paths;
}

void fail_registration_of(void* buffer) { failing = buffer; }

}  // namespace sennit_nccl_test

extern "C" {

sennit_status_t sennit_comm_split(
    sennit_comm_t comm, int color, int key, sennit_comm_t* result, const sennit_config_t* config) {
  if (config != nullptr && config->name != nullptr &&
      std::string_view(config->name) == "companion") {
    const std::scoped_lock lock(mutex);
    paths.emplace(config->paths != nullptr ? config->paths : "");
  }
  return library<decltype(sennit_comm_split)>("sennit_comm_split")(
      comm, color, key, result, config);
}

sennit_status_t sennit_comm_register_symmetric(sennit_comm_t comm,
                                               void* buffer,
                                               size_t bytes,
                                               void** handle) {
  if (buffer != nullptr && buffer == failing) {
    return SENNIT_SYSTEM_ERROR;
  }
  return library<decltype(sennit_comm_register_symmetric)>("sennit_comm_register_symmetric")(
      comm, buffer, bytes, handle);
}

}  // extern "C"
