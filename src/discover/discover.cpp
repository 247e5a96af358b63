#include "discover/discover.hpp"

#include "discover/discover_gpus.hpp"
#include "drivers/cuda/cuda.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace sennit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlank = " \t\n\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

// Empty when the file cannot be read.
std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number at the front of `text`, and what follows it.
struct Leading {
  std::int64_t number = 0;
  std::string_view rest;
};
std::optional<Leading> leading_number(std::string_view text) {
  text = trimmed(text);
  Leading result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  result.rest = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return result;
}

// What follows the first "key ... :" at the beginning of a line; empty without one.
std::string_view field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key) {
      return trimmed(line.substr(colon + 1));
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

// How many a kernel list like "0-3,8" names; 0 when it is no such list.
int count_of_list(std::string_view list) {
  std::int64_t count = 0;
  while (!trimmed(list).empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    const auto first = leading_number(item);
    if (!first) {
      return 0;
    }
    const auto last = first->rest.starts_with('-') ? leading_number(first->rest.substr(1)) : first;
    if (!last || last->number < first->number || first->number < 0) {
      return 0;
    }
    count += last->number - first->number + 1;
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return static_cast<int>(std::min<std::int64_t>(count, 1 << 20));
}

// "32K", "131072 kB" and the like; 0 when it is no size.
std::int64_t bytes_of(std::string_view text) {
  const auto size = leading_number(text);
  if (!size || size->number < 0 || size->number > (std::int64_t{1} << 50)) {
    return 0;
  }
  const char unit = size->rest.empty() ? ' ' : size->rest.front();
  const int shift = unit == 'K' || unit == 'k' ? 10 : unit == 'M' ? 20 : 0;
  return size->number << shift;
}

// Entries of a folder that are called `prefix` and a number, by the number.
std::vector<std::pair<int, fs::path>> numbered(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<int, fs::path>> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string entry_name = at->path().filename().string();
    if (!entry_name.starts_with(prefix)) {
      continue;
    }
    const auto number = leading_number(std::string_view(entry_name).substr(prefix.size()));
    if (number && number->rest.empty()) {
      entries.emplace_back(static_cast<int>(number->number), at->path());
    }
  }
  std::ranges::sort(entries);
  return entries;
}

std::string cpu_model(const std::string& cpuinfo) {
  // x86 has "model name", POWER "cpu", some boards only "Model" or "Hardware".
  for (const std::string_view key : {"model name", "cpu", "Model", "Hardware"}) {
    if (const std::string_view model = field(cpuinfo, key); !model.empty()) {
      return std::string(model);
    }
  }
  // Server cores of Arm report numbers alone.
  const std::string_view part = field(cpuinfo, "CPU part");
  return part.empty() ? "unknown"
                      : fmt::format("Arm {} {}", field(cpuinfo, "CPU implementer"), part);
}

std::vector<NumaNode> numa_nodes(const fs::path& root) {
  std::vector<NumaNode> nodes;
  for (const auto& [index, path] : numbered(root / "sys/devices/system/node", "node")) {
    const std::string meminfo = read_file(path / "meminfo");
    nodes.push_back(
        {.index = index,
         .cpus = std::string(trimmed(read_file(path / "cpulist"))),
         .memory_bytes = bytes_of(field(meminfo, fmt::format("Node {} MemTotal", index)))});
  }
  return nodes;
}

std::vector<Cache> caches(const fs::path& root) {
  std::vector<Cache> result;
  for (const auto& [index, path] : numbered(root / "sys/devices/system/cpu/cpu0/cache", "index")) {
    const auto level = leading_number(read_file(path / "level"));
    result.push_back(
        {.level = level ? static_cast<int>(level->number) : 0,
         .type = std::string(trimmed(read_file(path / "type"))),
         .bytes = bytes_of(read_file(path / "size")),
         .shared_by = std::max(1, count_of_list(read_file(path / "shared_cpu_list")))});
  }
  return result;
}

PathState absent(PathKind kind) {
  PathState state;
  state.kind = kind;
  state.note = kind == PathKind::kRail ? "opened when ranks of several nodes join"
                                       : "this build has no driver for it";
  return state;
}

std::vector<PathState> path_states(const Machine& machine, const Status& cuda) {
  std::vector<PathState> states;
  for (const PathKindInfo& row : kPathKinds) {
    if (row.kind == PathKind::kShm) {
      states.push_back({row.kind, true, ""});
    } else if (row.kind == PathKind::kCma) {
      // Containers and kernel settings may forbid it between two processes and allow it in one, so
      // nothing that can be read here decides it.
      states.push_back({row.kind, false, "decided by trying it when ranks join"});
    } else if (row.kind == PathKind::kNvlink) {
      states.push_back(nvlink_state(machine, cuda));
    } else if (row.kind == PathKind::kDevice) {
      states.push_back(device_state(machine, cuda));
    } else {
      states.push_back(absent(row.kind));
    }
  }
  return states;
}

}  // namespace

Result<Machine> discover_host(const fs::path& root) {
  return discover_host(root, nvml_driver(), cuda_driver().status());
}

Result<Machine> discover_host(const fs::path& root,
                              const Result<NvmlDriver*>& nvml,
                              const Status& cuda) {
  Machine machine;
  machine.name = trimmed(read_file(root / "proc/sys/kernel/hostname"));
  machine.cpu_model = cpu_model(read_file(root / "proc/cpuinfo"));
  machine.cores = count_of_list(field(read_file(root / "proc/self/status"), "Cpus_allowed_list"));
  if (machine.cores == 0) {
    return fail(Code::kSystemError,
                "{} does not say which cores may be used",
                (root / "proc/self/status").string());
  }
  machine.memory_bytes = bytes_of(field(read_file(root / "proc/meminfo"), "MemTotal"));
  if (machine.memory_bytes == 0) {
    return fail(Code::kSystemError,
                "{} does not say how much memory there is",
                (root / "proc/meminfo").string());
  }
  machine.numa_nodes = numa_nodes(root);
  machine.caches = caches(root);
  if (nvml.ok()) {
    add_gpus(*nvml.value(), root, machine);
  } else {
    machine.gpu_note = nvml.status().message();
  }
  machine.paths = path_states(machine, cuda);
  return machine;
}

}  // namespace sennit
