// The library that is preloaded: every call of calls.def is a jump through a slot. Filled at the
// first call, a slot holds the front end's function for the MPI at hand, which another library has,
// so that this one needs libc alone: a libstdc++ that it needed would replace the program's own.
//
// A jump has no signature, so one set of entries serves MPIs whose handles are integers and those
// whose handles are pointers.
#include "sennit/sennit.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The lazy stub leaves the address of its slot in %r11, which calls may change, and the arguments
// where they are. Arguments on the stack are reached by none of this.
#define SENNIT_MPI_ENTRY(symbol)                                      \
  asm(".text\n"                                                       \
      ".globl " #symbol                                               \
      "\n"                                                            \
      ".type " #symbol ", @function\n" #symbol                        \
      ":\n"                                                           \
      "  endbr64\n"                                                   \
      "  jmp *sennit_slot_" #symbol                                   \
      "(%rip)\n"                                                      \
      ".size " #symbol ", . - " #symbol                               \
      "\n"                                                            \
      "sennit_lazy_" #symbol                                          \
      ":\n"                                                           \
      "  lea sennit_slot_" #symbol                                    \
      "(%rip), %r11\n"                                                \
      "  jmp sennit_mpi_first_call\n"                                 \
      ".data\n"                                                       \
      ".balign 8\n"                                                   \
      ".globl sennit_slot_" #symbol                                   \
      "\n"                                                            \
      ".hidden sennit_slot_" #symbol                                  \
      "\n"                                                            \
      "sennit_slot_" #symbol                                          \
      ":\n"                                                           \
      "  .quad sennit_lazy_" #symbol                                  \
      "\n"                                                            \
      ".text\n");                                                     \
  extern "C" __attribute__((visibility("hidden"))) std::atomic<void*> \
      sennit_slot_##symbol;  // NOLINT(readability-identifier-naming)

#define SENNIT_MPI_OTHER(name, ...) \
  SENNIT_MPI_ENTRY(MPI_##name)      \
  SENNIT_MPI_ENTRY(PMPI_##name)
#define SENNIT_MPI_PASSED_UNCOUNTED SENNIT_MPI_OTHER
#define SENNIT_MPI_PASSED(name, ...) \
  SENNIT_MPI_OTHER(name)             \
  SENNIT_MPI_OTHER(name##_c)
#define SENNIT_MPI_NEIGHBOUR SENNIT_MPI_COLLECTIVE
#define SENNIT_MPI_UNCOUNTED(name, nonblocking, ...) \
  SENNIT_MPI_OTHER(name)                             \
  SENNIT_MPI_OTHER(nonblocking)                      \
  SENNIT_MPI_OTHER(name##_init)
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, ...) \
  SENNIT_MPI_UNCOUNTED(name, nonblocking)             \
  SENNIT_MPI_OTHER(name##_c)                          \
  SENNIT_MPI_OTHER(nonblocking##_c)                   \
  SENNIT_MPI_OTHER(name##_init_c)
#include "calls.def"
#undef SENNIT_MPI_ENTRY

// At entry the stack is 8 bytes off a multiple of 16; seven words make it one, as a call wants it.
asm(".text\n"
    "sennit_mpi_first_call:\n"
    "  push %rdi\n"
    "  push %rsi\n"
    "  push %rdx\n"
    "  push %rcx\n"
    "  push %r8\n"
    "  push %r9\n"
    "  push %r11\n"
    "  call sennit_mpi_fill_slots\n"
    "  pop %r11\n"
    "  pop %r9\n"
    "  pop %r8\n"
    "  pop %rcx\n"
    "  pop %rdx\n"
    "  pop %rsi\n"
    "  pop %rdi\n"
    "  jmp *(%r11)\n");

namespace {

// Of the front end proper: its function for a name such as "MPI_Bcast", or NULL with a reason
// written to standard error.
using FindFunction = void* (*)(const char* name);

[[noreturn]] void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "sennit: libsennit_mpi.so: %s: %s\n", what, why);
  std::abort();
}

// Opened once: threads that come here together get the same library.
void* front() {
  static std::atomic<void*> opened{nullptr};
  if (void* const known = opened.load(std::memory_order_acquire)) {
    return known;
  }
  constexpr const char* kName = "libsennit_mpi_front.so";
  Dl_info own{};
  char path[4096];
  if (::dladdr(reinterpret_cast<const void*>(&front), &own) == 0) {
    give_up(kName, "dladdr does not know this library");
  }
  const char* const slash = std::strrchr(own.dli_fname, '/');
  const auto folder = slash == nullptr ? 0 : static_cast<int>(slash - own.dli_fname + 1);
  std::snprintf(path, sizeof(path), "%.*s%s", folder, own.dli_fname, kName);
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    give_up(path, ::dlerror());
  }
  opened.store(library, std::memory_order_release);
  return library;
}

template <typename Function>
Function function_of_front(const char* name) {
  void* const found = ::dlsym(front(), name);
  if (found == nullptr) {
    // libsennit.so, which the front end needs, says its version.
    const auto version =
        reinterpret_cast<const char* (*)()>(::dlsym(front(), "sennit_version_string"));
    char why[256];
    std::snprintf(why,
                  sizeof(why),
                  "libsennit_mpi_front.so in the same folder has no such function: this file is of "
                  "version %d.%d.%d, that one of %s; install both files of one version",
                  SENNIT_VERSION_MAJOR,
                  SENNIT_VERSION_MINOR,
                  SENNIT_VERSION_PATCH,
                  version != nullptr ? version() : "an unknown one");
    give_up(name, why);
  }
  return reinterpret_cast<Function>(found);
}

// What the MPI itself says; 0 where it does not know the question.
template <typename... Arguments>
int answer_of_mpi(const char* question, Arguments... arguments) {
  auto* const ask = reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_NEXT, question));
  return ask != nullptr ? ask(arguments...) : 0;
}

struct Entry {
  const char* name;
  std::atomic<void*>* slot;
};

}  // namespace

// Several threads may come here at once: they find the same functions.
extern "C" __attribute__((visibility("hidden"), used)) void sennit_mpi_fill_slots() {
  const Entry entries[] = {
#define SENNIT_MPI_OTHER(name, ...) \
  {"MPI_" #name, &sennit_slot_MPI_##name}, {"PMPI_" #name, &sennit_slot_PMPI_##name},
#define SENNIT_MPI_PASSED_UNCOUNTED SENNIT_MPI_OTHER
#define SENNIT_MPI_PASSED(name, ...) SENNIT_MPI_OTHER(name) SENNIT_MPI_OTHER(name##_c)
#define SENNIT_MPI_NEIGHBOUR SENNIT_MPI_COLLECTIVE
#define SENNIT_MPI_UNCOUNTED(name, nonblocking, ...) \
  SENNIT_MPI_OTHER(name) SENNIT_MPI_OTHER(nonblocking) SENNIT_MPI_OTHER(name##_init)
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, ...) \
  SENNIT_MPI_UNCOUNTED(name, nonblocking)             \
  SENNIT_MPI_OTHER(name##_c) SENNIT_MPI_OTHER(nonblocking##_c) SENNIT_MPI_OTHER(name##_init_c)
#include "calls.def"
  };
  const auto find = function_of_front<FindFunction>("sennit_mpi_function");
  for (const Entry& entry : entries) {
    void* const function = find(entry.name);
    if (function == nullptr) {
      give_up(entry.name, "there is no function for it");
    }
    entry.slot->store(function, std::memory_order_release);
  }
}

// Programs ask this before they pass buffers in GPU memory.
// NOLINTBEGIN(readability-identifier-naming): names of MPICH and Open MPI
extern "C" __attribute__((visibility("default"))) int MPIX_Query_cuda_support() {
  return answer_of_mpi("MPIX_Query_cuda_support") != 0 ||
                 function_of_front<int (*)()>("sennit_mpi_takes_cuda")() != 0
             ? 1
             : 0;
}
// MPICH's form of it, by the kind of GPU.
extern "C" __attribute__((visibility("default"))) int MPIX_GPU_query_support(int kind,
                                                                             int* is_supported) {
  constexpr int kCuda = 0;
  *is_supported = 0;
  const int code = answer_of_mpi("MPIX_GPU_query_support", kind, is_supported);
  if (kind != kCuda) {
    return code;
  }
  *is_supported = MPIX_Query_cuda_support();
  return 0;
}
// NOLINTEND(readability-identifier-naming)
