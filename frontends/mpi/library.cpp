#include "library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>

namespace sennit_mpi {
namespace {

const void* base_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// The library whose exports led here has PMPI_Init in none of its forms, so only the MPI has.
constexpr const char* kOnlyOfMpi = "PMPI_Init";

}  // namespace

Library Library::find() {
  link_map* object = nullptr;
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  if (program != nullptr && ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&object)) == 0) {
    for (; object != nullptr; object = object->l_next) {
      // The program itself has an empty name.
      const char* const name = *object->l_name != '\0' ? object->l_name : nullptr;
      void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
      if (handle == nullptr) {
        continue;
      }
      // A handle also finds what its object needs: the definition has to lie in this one.
      const void* const init = ::dlsym(handle, kOnlyOfMpi);
      if (init != nullptr && base_of(init) == base_of(object->l_ld)) {
        return {handle, base_of(init)};
      }
      ::dlclose(handle);
    }
  }
  std::fprintf(stderr,
               "sennit: libsennit_mpi.so: an MPI function was called, but no library of this "
               "process defines %s; link the program with an MPI\n",
               kOnlyOfMpi);
  std::abort();
}

void* Library::function(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

void* Library::object(const std::string& name) const {
  void* const copy = ::dlsym(RTLD_DEFAULT, name.c_str());
  return copy != nullptr ? copy : ::dlsym(handle_, name.c_str());
}

void* Library::profiler(const std::string& name) const {
  link_map* object = nullptr;
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr || ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&object)) != 0) {
    return nullptr;
  }
  // What the loader would have bound the program to without us: the first in its order.
  const void* const ours = ::dlsym(program, name.c_str());
  void* found = nullptr;
  for (; object != nullptr && found == nullptr; object = object->l_next) {
    if (*object->l_name == '\0') {
      continue;
    }
    void* const handle = ::dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
      continue;
    }
    void* const candidate = ::dlsym(handle, name.c_str());
    if (candidate != nullptr && candidate != ours && base_of(candidate) == base_of(object->l_ld)) {
      found = candidate;
    }
    ::dlclose(handle);
  }
  return found != nullptr && base_of(found) != base_ ? found : nullptr;
}

}  // namespace sennit_mpi
