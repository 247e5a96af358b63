// NVIDIA's own NCCL beside this library, for what this library has not: found as the loader would
// have found it, opened so that neither of the two calls into the other.
#pragma once

#include <string>
#include <string_view>

namespace sennit_nccl {

// Either `handle` or `why_not` is set.
struct Fallback {
  std::string path;
  int version = 0;  // as ncclGetVersion says it
  void* handle = nullptr;
  std::string why_not;

  // A function of the library by its name; null where its version has none.
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
};

// Whether SENNIT_NCCL_FALLBACK_LIB names a library or says `auto`: then NCCL keeps memory and
// windows from the start. Where it is not set, NCCL has what is first asked for in a device
// communicator.
bool is_fallback_named();
// Why it is not.
std::string_view why_not_named();

// The file that SENNIT_NCCL_FALLBACK_LIB names; where it is `auto` or not set, the libnccl.so.2
// that the program would have got without this one. "none" as it is. Empty: none was found.
std::string fallback_path();

// Opens a file as the fallback. `path` is empty or "none" where there shall be none.
Fallback open_fallback(const std::string& path);

// The process's: opened at the first call, and never closed.
const Fallback& fallback();

// "2.28.9" for 22809.
std::string version_text(int version);

}  // namespace sennit_nccl
