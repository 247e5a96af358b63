#include "world/rendezvous/identity.hpp"

#include "base/env.hpp"
#include "world/rendezvous/frame.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace sennit {
namespace {

// What one launcher sets. The key is made of the job's variables.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  std::vector<const char*> job;           // needed
  std::vector<const char*> job_optional;  // added to the key where set
  bool parent_is_job = false;
  // How many of the ranks are on this rank's node, or on how many nodes they are.
  const char* local_size = nullptr;
  const char* nodes = nullptr;
  const char* root = nullptr;   // the host of rank 0
  const char* hosts = nullptr;  // or a list that begins with it
};

const std::vector<Launcher>& launchers() {
  static const auto* const kAll = new std::vector<Launcher>{
      {"Sennit", "SENNIT_RANK", "SENNIT_SIZE", {"SENNIT_KEY"}, {}},
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       {"MASTER_ADDR", "MASTER_PORT"},
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
       false,
       "LOCAL_WORLD_SIZE",
       nullptr,
       "MASTER_ADDR"},
      {"Open MPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       {"PMIX_NAMESPACE"},
       {},
       false,
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"hydra", "PMI_RANK", "PMI_SIZE", {}, {}, /*parent_is_job=*/true, "MPI_LOCALNRANKS"},
      {"Slurm",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"},
       {},
       false,
       nullptr,
       "SLURM_STEP_NUM_NODES",
       nullptr,
       "SLURM_STEP_NODELIST"},
  };
  return *kAll;
}

std::vector<const char*> needed_variables(const Launcher& launcher) {
  std::vector<const char*> names = {launcher.rank, launcher.size};
  names.insert(names.end(), launcher.job.begin(), launcher.job.end());
  return names;
}

std::vector<const char*> missing_variables(const Launcher& launcher, const VariableLookup& lookup) {
  std::vector<const char*> missing;
  for (const char* name : needed_variables(launcher)) {
    if (!lookup(name)) {
      missing.push_back(name);
    }
  }
  return missing;
}

bool begun(const Launcher& launcher, const VariableLookup& lookup) {
  return lookup(launcher.rank).has_value() || lookup(launcher.size).has_value();
}

std::int64_t number_in(const VariableLookup& lookup, const char* name, std::int64_t otherwise) {
  if (name == nullptr) {
    return otherwise;
  }
  const std::optional<std::string> text = lookup(name);
  const auto number = text ? parse_integer(name, *text, {.min = 1}) : Result(otherwise);
  return number.ok() ? *number : otherwise;
}

bool is_on_several_nodes(const Launcher& launcher, const VariableLookup& lookup) {
  const std::int64_t size = number_in(lookup, launcher.size, 1);
  return number_in(lookup, launcher.local_size, size) < size ||
         number_in(lookup, launcher.nodes, 1) > 1;
}

// Of a launcher whose set is complete.
Result<std::string> root_of(const Launcher& launcher, const VariableLookup& lookup) {
  if (const std::optional<std::string> root = lookup("SENNIT_ROOT"); root) {
    return *root;
  }
  if (!is_on_several_nodes(launcher, lookup)) {
    return std::string();
  }
  const std::optional<std::string> root =
      launcher.root != nullptr ? lookup(launcher.root) : std::nullopt;
  const std::optional<std::string> hosts =
      launcher.hosts != nullptr ? lookup(launcher.hosts) : std::nullopt;
  if (root || hosts) {
    return root ? *root : first_host(*hosts);
  }
  ErrorDetail detail;
  detail.evidence =
      fmt::format("the variables of {} say that there are several nodes", launcher.name);
  detail.next = "set SENNIT_ROOT to the host of rank 0 on all ranks";
  return Status(Code::kInvalidUsage,
                fmt::format("{} has started ranks on several nodes, and does not say where rank 0 "
                            "is. Next: {}.",
                            launcher.name,
                            detail.next),
                detail);
}

// Rank and size.
Result<Identity> read_numbers(const Launcher& launcher, const VariableLookup& lookup) {
  Identity identity;
  SENNIT_ASSIGN_OR_RETURN(
      const std::int64_t size,
      parse_integer(launcher.size, *lookup(launcher.size), {.min = 1, .max = kMaxRanks}));
  SENNIT_ASSIGN_OR_RETURN(
      const std::int64_t rank,
      parse_integer(launcher.rank, *lookup(launcher.rank), {.min = 0, .max = size - 1}));
  identity.rank = static_cast<int>(rank);
  identity.size = static_cast<int>(size);
  return identity;
}

Result<Identity> read(const Launcher& launcher,
                      const VariableLookup& lookup,
                      std::string_view parent) {
  SENNIT_ASSIGN_OR_RETURN(Identity identity, read_numbers(launcher, lookup));
  // Each part with its name and length, so that two different jobs never spell the same key.
  identity.key = launcher.name;
  std::vector<const char*> parts = launcher.job;
  parts.insert(parts.end(), launcher.job_optional.begin(), launcher.job_optional.end());
  for (const char* name : parts) {
    if (const std::optional<std::string> value = lookup(name); value) {
      identity.key += fmt::format("|{}={}:{}", name, value->size(), *value);
    }
  }
  SENNIT_ASSIGN_OR_RETURN(identity.root, root_of(launcher, lookup));
  if (launcher.parent_is_job && !is_on_several_nodes(launcher, lookup)) {
    identity.key += fmt::format("|parent={}", parent);
  } else if (launcher.parent_is_job) {
    // Each node has a parent of its own.
    const std::optional<std::string> key = lookup("SENNIT_KEY");
    if (!key) {
      return fail(Code::kInvalidUsage,
                  "{} has started ranks on several nodes, and gives no id of the job. Next: set "
                  "SENNIT_KEY to a text that is the same on all ranks.",
                  launcher.name);
    }
    identity.key += fmt::format("|SENNIT_KEY={}:{}", key->size(), *key);
  }
  return identity;
}

// What the variables say, else what the launcher brings from rank 0 to all ranks.
Result<Identity> read_or_meet(const Launcher& launcher,
                              const VariableLookup& lookup,
                              std::string_view parent,
                              const MeetByLauncher& meet) {
  Result<Identity> identity = read(launcher, lookup, parent);
  if (identity.ok() || identity.status().code() != Code::kInvalidUsage || !meet) {
    return identity;
  }
  SENNIT_ASSIGN_OR_RETURN(Identity found, read_numbers(launcher, lookup));
  Result<MeetingPlace> place = meet(found.rank);
  if (!place.ok()) {
    ErrorDetail detail = identity.status().detail();
    detail.evidence += fmt::format("; {}", place.status().message());
    return Status(
        place.status().code() == Code::kJoinTimeout ? Code::kJoinTimeout : Code::kInvalidUsage,
        fmt::format("{} ({})", identity.status().message(), place.status().message()),
        std::move(detail));
  }
  found.key = std::move(place->key);
  found.root = lookup("SENNIT_ROOT").value_or(std::move(place->root));
  found.is_key_secret = true;
  return found;
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

Status incomplete(const std::string& what) {
  std::string looked_for;
  for (const Launcher& launcher : launchers()) {
    looked_for += fmt::format("{}{} ({})",
                              looked_for.empty() ? "" : ", ",
                              fmt::join(needed_variables(launcher), " "),
                              launcher.name);
  }
  ErrorDetail detail;
  detail.evidence = what;
  detail.next =
      "start the ranks with torchrun, mpirun or srun, or set SENNIT_RANK, SENNIT_SIZE and "
      "SENNIT_KEY";
  return {Code::kInvalidUsage,
          fmt::format("no complete set of launcher variables: {}; looked for {}. Next: {}.",
                      what,
                      looked_for,
                      detail.next),
          detail};
}

}  // namespace

Result<Identity> identity_from(const VariableLookup& lookup,
                               std::string_view parent,
                               const MeetByLauncher& meet) {
  std::string begun_sets;
  for (const Launcher& launcher : launchers()) {
    const std::vector<const char*> missing = missing_variables(launcher, lookup);
    if (missing.empty()) {
      return read_or_meet(launcher, lookup, parent, meet);
    }
    if (begun(launcher, lookup)) {
      begun_sets += fmt::format("{}of {} there is no {}",
                                begun_sets.empty() ? "" : ", ",
                                launcher.name,
                                fmt::join(missing, " and no "));
      if (&launcher == &launchers().front()) {
        break;  // nobody sets SENNIT_RANK by accident, so another launcher's set is not meant
      }
    }
  }
  return incomplete(begun_sets.empty() ? "none of them is set" : begun_sets);
}

Result<std::string> root_from(const VariableLookup& lookup) {
  if (const std::optional<std::string> root = lookup("SENNIT_ROOT"); root) {
    return *root;
  }
  for (const Launcher& launcher : launchers()) {
    if (missing_variables(launcher, lookup).empty()) {
      return root_of(launcher, lookup);
    }
  }
  return std::string();
}

std::string first_host(std::string_view hosts) {
  const std::size_t end = hosts.find_first_of("[,");
  std::string host(hosts.substr(0, end));
  if (end == std::string_view::npos || hosts[end] == ',') {
    return host;
  }
  // "[07-09,12]": the first number, and what stands behind the bracket.
  const std::string_view numbers = hosts.substr(end + 1);
  host += numbers.substr(0, numbers.find_first_of("-,]"));
  const std::size_t close = numbers.find(']');
  if (close != std::string_view::npos) {
    const std::string_view rest = numbers.substr(close + 1);
    host += first_host(rest);
  }
  return host;
}

std::string parent_process() {
  const pid_t parent = getppid();
  std::ifstream file(fmt::format("/proc/{}/stat", parent));
  std::string line;
  std::getline(file, line);
  // The name in parentheses may hold anything; the start time is the 20th field after it.
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  constexpr int kStartTimeField = 20;
  for (int index = 0; index < kStartTimeField; ++index) {
    fields >> field;
  }
  return fmt::format("{}:{}", parent, field);
}

Result<std::string> root_from_environment() { return root_from(&variable); }

Result<Identity> identity_from_environment(const MeetByLauncher& meet) {
  static std::atomic<std::uint64_t> call_count{0};
  SENNIT_ASSIGN_OR_RETURN(Identity identity, identity_from(&variable, parent_process(), meet));
  // Counted only when there is an identity, so that a failed try does not put ranks out of step.
  identity.key += fmt::format("|#{}", call_count.fetch_add(1) + 1);
  return identity;
}

}  // namespace sennit
