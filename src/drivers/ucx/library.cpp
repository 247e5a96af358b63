#include "drivers/ucx/library.hpp"

#include "base/env.hpp"

#include <dlfcn.h>

#include <array>
#include <csignal>

namespace sennit::ucx {
namespace {

constexpr const char* kSystemLibrary = "libucp.so.0";
constexpr Version kOldest{.major = 1, .minor = 13};
constexpr std::array kCrashSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};

Result<void*> open_any() {
  const std::string named = env_text("SENNIT_UCX_LIB");
  if (!named.empty()) {
    void* const library = ::dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      return fail(Code::kUnsupported,
                  "SENNIT_UCX_LIB={} cannot be opened: {}",
                  named,
                  why == nullptr ? "no reason given" : why);
    }
    return library;
  }
  // A second UCX in a process would bind to the parts of the first.
  void* library = ::dlopen(kSystemLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    library = ::dlopen(kSystemLibrary, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return fail(Code::kUnsupported,
                "there is no {} here, which carries messages between nodes; install UCX (Debian: "
                "libucx0, PyPI: libucx-cu13), or name the library in SENNIT_UCX_LIB",
                kSystemLibrary);
  }
  return library;
}

}  // namespace

struct CrashSignalsScope::Saved {
  std::array<struct sigaction, kCrashSignals.size()> actions{};
};

CrashSignalsScope::CrashSignalsScope() : saved_(std::make_unique<Saved>()) {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    ::sigaction(kCrashSignals[i], nullptr, &saved_->actions[i]);
  }
}

CrashSignalsScope::~CrashSignalsScope() {
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    ::sigaction(kCrashSignals[i], &saved_->actions[i], nullptr);
  }
}

Result<Functions> open_library() {
  SENNIT_ASSIGN_OR_RETURN(void* const library, open_any());
  Functions functions{};
#define SENNIT_UCX_FUNCTION(name)                                                         \
  functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(library, #name));   \
  if (functions.name == nullptr) {                                                        \
    return fail(Code::kUnsupported, "this UCX has no function {}: it is too old", #name); \
  }
  SENNIT_UCX_FUNCTIONS(SENNIT_UCX_FUNCTION)
#undef SENNIT_UCX_FUNCTION
  Version version;
  unsigned release = 0;
  functions.ucp_get_version(&version.major, &version.minor, &release);
  if (!version.is_at_least(kOldest.major, kOldest.minor)) {
    return fail(Code::kUnsupported,
                "UCX {}.{} is too old; {}.{} or newer is needed",
                version.major,
                version.minor,
                kOldest.major,
                kOldest.minor);
  }
  return functions;
}

}  // namespace sennit::ucx
