#include "fallback.hpp"

#include "nccl_abi.h"

#include "sennit/tools.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace sennit_nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
// What this library reports to programs: an older NCCL lacks part of what they then rely on.
constexpr int kOldest = SENNIT_NCCL_VERSION;
constexpr int kMajor = 2;

std::string_view setting() {
  const char* const set = std::getenv("SENNIT_NCCL_FALLBACK_LIB");
  return set != nullptr ? set : "";
}

bool needs_nccl(const link_map& object) {
  const char* strings = nullptr;
  std::vector<ElfW(Xword)> needed;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) {
      strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_NEEDED) {
      needed.push_back(entry->d_un.d_val);
    }
  }
  // The loader relocates the address except where it may not write to it.
  if (strings != nullptr && reinterpret_cast<ElfW(Addr)>(strings) < object.l_addr) {
    strings += object.l_addr;
  }
  return strings != nullptr && std::ranges::any_of(needed, [&](auto offset) {
           return std::string_view(strings + offset) == kName;
         });
}

// Where the loader looks for what an object needs.
std::vector<std::string> search_path(void* object) {
  Dl_serinfo size{};
  if (::dlinfo(object, RTLD_DI_SERINFOSIZE, &size) != 0) {
    return {};
  }
  std::vector<std::byte> memory(size.dls_size);
  auto* const found = reinterpret_cast<Dl_serinfo*>(memory.data());
  if (::dlinfo(object, RTLD_DI_SERINFOSIZE, found) != 0 ||
      ::dlinfo(object, RTLD_DI_SERINFO, found) != 0) {
    return {};
  }
  std::vector<std::string> folders;
  for (unsigned i = 0; i < found->dls_cnt; ++i) {
    folders.emplace_back(found->dls_serpath[i].dls_name);
  }
  return folders;
}

std::string own_file() {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&fallback), &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Each libnccl.so.2 that is not this one where an object's needs are looked for.
void find_beside(void* object, std::vector<std::string>& files) {
  for (const std::string& folder : search_path(object)) {
    const std::string path = (std::filesystem::path(folder) / kName).string();
    std::error_code ignored;
    if (::access(path.c_str(), R_OK) == 0 &&
        !std::filesystem::equivalent(path, own_file(), ignored)) {
      std::string file = std::filesystem::absolute(path, ignored).string();
      if (std::ranges::find(files, file) == files.end()) {
        files.push_back(std::move(file));
      }
    }
  }
}

// Programs that link with NCCL first, then those that may open it by its name, in loading order.
std::vector<std::string> could_have_been_loaded() {
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  link_map* first = nullptr;
  if (program == nullptr || ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&first)) != 0) {
    return {};
  }
  std::vector<std::string> files;
  for (const bool linked : {true, false}) {
    for (const link_map* object = first; object != nullptr; object = object->l_next) {
      if (needs_nccl(*object) != linked) {
        continue;
      }
      const bool is_program = object->l_name == nullptr || *object->l_name == '\0';
      void* const handle = is_program ? program : ::dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
      if (handle == nullptr) {
        continue;
      }
      find_beside(handle, files);
      if (!is_program) {
        ::dlclose(handle);
      }
    }
  }
  return files;
}

Fallback refused(std::string path, std::string why) {
  Fallback none;
  none.path = std::move(path);
  none.why_not = std::move(why);
  return none;
}

// DEEPBIND: NCCL's calls of its own functions would otherwise reach the first library of the
// process that has them, which is this one. Sanitizers' run-time libraries do not allow it.
int open_flags() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return RTLD_NOW | RTLD_LOCAL;
#else
  return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
}

Fallback open_file(const std::string& path) {
  // By an absolute name the loader opens the file itself; libnccl.so.2 alone would be this library.
  std::error_code ignored;
  const std::string file = std::filesystem::absolute(path, ignored).string();
  Fallback opened;
  opened.path = path;
  opened.handle = ::dlopen(file.c_str(), open_flags());
  if (opened.handle == nullptr) {
    const char* const error = ::dlerror();
    return refused(path, "it cannot be opened: " + std::string(error != nullptr ? error : "?"));
  }
  using GetVersion = decltype(ncclGetVersion);
  auto* const get_version = opened.function<GetVersion>("ncclGetVersion");
  std::string why;
  const bool is_sennit = ::dlsym(opened.handle, "sennit_version") != nullptr;
  if (is_sennit) {
    why = "it is Sennit itself";
  } else if (get_version == nullptr || get_version(&opened.version) != ncclSuccess) {
    why = "it is no NCCL: it has no ncclGetVersion";
  } else if (opened.version / 10000 != kMajor || opened.version < kOldest) {
    why = "it is NCCL " + version_text(opened.version) + "; this needs " + version_text(kOldest) +
          " or a later 2.x";
  }
  if (!why.empty()) {
    ::dlclose(opened.handle);
    opened = refused(path, why);
    opened.is_sennit = is_sennit;
  }
  return opened;
}

}  // namespace

void* Fallback::symbol(const char* name) const {
  return handle != nullptr ? ::dlsym(handle, name) : nullptr;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

bool is_fallback_named() { return setting() != "" && setting() != "none"; }

std::string_view why_not_named() {
  return setting() == "none"
             ? "SENNIT_NCCL_FALLBACK_LIB is none"
             : "SENNIT_NCCL_FALLBACK_LIB is not set, so that memory and windows are Sennit's";
}

std::vector<std::string> fallback_files() {
  if (setting() == "none") {
    return {};
  }
  return setting() == "" || setting() == "auto" ? could_have_been_loaded()
                                                : std::vector<std::string>{std::string(setting())};
}

Fallback open_fallback(const std::vector<std::string>& files) {
  if (setting() == "none") {
    return refused({}, "SENNIT_NCCL_FALLBACK_LIB is none");
  }
  Fallback opened =
      refused({}, "no other libnccl.so.2 was found; SENNIT_NCCL_FALLBACK_LIB can name it");
  for (const std::string& file : files) {
    opened = open_file(file);
    if (!opened.is_sennit) {
      break;
    }
  }
  return opened;
}

const Fallback& fallback() {
  static const Fallback* const opened = [] {
    auto* const made = new Fallback(open_fallback(fallback_files()));
    if (is_fallback_named() && made->handle == nullptr) {
      const std::string line = "SENNIT_NCCL_FALLBACK_LIB is of no use: " + made->path +
                               (made->path.empty() ? "" : ": ") + made->why_not;
      sennit_tool_warn("nccl", line.c_str());
    }
    return made;
  }();
  return *opened;
}

}  // namespace sennit_nccl
