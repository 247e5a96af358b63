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
};

const std::vector<Launcher>& launchers() {
  static const auto* const kAll = new std::vector<Launcher>{
      {"Sennit", "SENNIT_RANK", "SENNIT_SIZE", {"SENNIT_KEY"}, {}},
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       {"MASTER_ADDR", "MASTER_PORT"},
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
      {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"}, {}},
      {"hydra", "PMI_RANK", "PMI_SIZE", {}, {}, /*parent_is_job=*/true},
      {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}, {}},
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

Result<Identity> read(const Launcher& launcher,
                      const VariableLookup& lookup,
                      std::string_view parent) {
  Identity identity;
  SENNIT_ASSIGN_OR_RETURN(
      const std::int64_t size,
      parse_integer(launcher.size, *lookup(launcher.size), {.min = 1, .max = kMaxRanks}));
  SENNIT_ASSIGN_OR_RETURN(
      const std::int64_t rank,
      parse_integer(launcher.rank, *lookup(launcher.rank), {.min = 0, .max = size - 1}));
  identity.rank = static_cast<int>(rank);
  identity.size = static_cast<int>(size);
  // Each part with its name and length, so that two different jobs never spell the same key.
  identity.key = launcher.name;
  std::vector<const char*> parts = launcher.job;
  parts.insert(parts.end(), launcher.job_optional.begin(), launcher.job_optional.end());
  for (const char* name : parts) {
    if (const std::optional<std::string> value = lookup(name); value) {
      identity.key += fmt::format("|{}={}:{}", name, value->size(), *value);
    }
  }
  if (launcher.parent_is_job) {
    identity.key += fmt::format("|parent={}", parent);
  }
  return identity;
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

Result<Identity> identity_from(const VariableLookup& lookup, std::string_view parent) {
  std::string begun_sets;
  for (const Launcher& launcher : launchers()) {
    const std::vector<const char*> missing = missing_variables(launcher, lookup);
    if (missing.empty()) {
      return read(launcher, lookup, parent);
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

Result<Identity> identity_from_environment() {
  static std::atomic<std::uint64_t> call_count{0};
  const VariableLookup environment = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
  };
  SENNIT_ASSIGN_OR_RETURN(Identity identity, identity_from(environment, parent_process()));
  // Counted only when there is an identity, so that a failed try does not put ranks out of step.
  identity.key += fmt::format("|#{}", call_count.fetch_add(1) + 1);
  return identity;
}

}  // namespace sennit
