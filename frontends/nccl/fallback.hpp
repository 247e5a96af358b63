// NVIDIA's own NCCL next to this library, for what this library has not: found where the loader
// would have looked for it, opened so that neither of the two calls into the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sennit_nccl {

// Either `handle` or `why_not` is set.
struct Fallback {
  std::string path;
  int version = 0;  // as ncclGetVersion says it
  void* handle = nullptr;
  std::string why_not;
  bool is_sennit = false;  // why not: it is this library or another build of it

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

// The file that SENNIT_NCCL_FALLBACK_LIB names; where it is `auto` or not set, each libnccl.so.2
// besides this one that the program could have got, the likeliest first. None where it is `none`.
// The loader's cache (ld.so.cache) and the folders for kinds of processors are not searched.
std::vector<std::string> fallback_files();

// Opens the first of these files that is not this library or another build of it.
Fallback open_fallback(const std::vector<std::string>& files);

// The process's: opened at the first call, and never closed.
const Fallback& fallback();

// "2.28.9" for 22809.
std::string version_text(int version);

}  // namespace sennit_nccl
