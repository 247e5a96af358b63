// Which front end this process gets, and where each of its calls goes.
#include "front.hpp"

#include "guard.hpp"

#include <cstdio>
#include <cstring>
#include <string>

namespace sennit_mpi {
namespace {

enum class AbiName { kMpich, kOpenMpi, kStandard };

struct Process {
  Library library;
  AbiName abi = AbiName::kMpich;
};

AbiName abi_of(const Library& library) {
  if (library.function("ompi_mpi_comm_world") != nullptr) {
    return AbiName::kOpenMpi;
  }
  // An MPI of an ABI of its own may have the function as well, and then says that it has no
  // version.
  using GetVersion = int (*)(int*, int*);
  int major = -1;
  int minor = -1;
  if (const auto get = reinterpret_cast<GetVersion>(library.function("PMPI_Abi_get_version"))) {
    get(&major, &minor);
  }
  return major < 0 ? AbiName::kMpich : AbiName::kStandard;
}

const Process& process() {
  static const Process& only = []() -> const Process& {
    auto* const made = new Process{.library = Library::find()};
    const Settings settings = Settings::from_environment();
    made->abi = abi_of(made->library);
    switch (made->abi) {
      case AbiName::kMpich:
        start_front<Mpich>(made->library, settings);
        break;
      case AbiName::kOpenMpi:
        start_front<OpenMpi>(made->library, settings);
        break;
      case AbiName::kStandard:
        start_front<Standard>(made->library, settings);
        break;
    }
    return *made;
  }();
  return only;
}

void* own_function(const std::string& name) {
  switch (process().abi) {
    case AbiName::kMpich:
      return function_named<Mpich>(name);
    case AbiName::kOpenMpi:
      return function_named<OpenMpi>(name);
    case AbiName::kStandard:
      return function_named<Standard>(name);
  }
  return nullptr;
}

}  // namespace
}  // namespace sennit_mpi

// A profiler keeps its MPI_X; it comes back here by PMPI_X.
extern "C" __attribute__((visibility("default"))) void* sennit_mpi_function(const char* name) {
  using namespace sennit_mpi;  // NOLINT(google-build-using-namespace): one entry
  return guarded(
      [&]() -> void* {
        const std::string whole = name;
        const bool is_inner = whole.starts_with("PMPI_");
        const std::string stem = whole.substr(std::strlen(is_inner ? "PMPI_" : "MPI_"));
        const Library& library = process().library;
        void* const profiler = is_inner ? nullptr : library.profiler(whole);
        if (profiler != nullptr) {
          return profiler;
        }
        void* const own = own_function(stem);
        return own != nullptr ? own : library.function("PMPI_" + stem);
      },
      [&](const char* what) -> void* {
        std::fprintf(stderr, "sennit: libsennit_mpi.so: %s: %s\n", name, what);
        return nullptr;
      });
}

// Whether buffers may be in the memory of CUDA. Programs ask before they use a GPU, so the driver
// may not be loaded yet.
extern "C" __attribute__((visibility("default"))) int sennit_mpi_takes_cuda() {
  using namespace sennit_mpi;  // NOLINT(google-build-using-namespace): one entry
  return guarded(
      [] {
        static const bool kHasDriver = ::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
        return kHasDriver && !Settings::from_environment().is_off ? 1 : 0;
      },
      [](const char* /*what*/) { return 0; });
}
