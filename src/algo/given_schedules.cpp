#include "algo/given_schedules.hpp"

#include "base/sha256.hpp"
#include "schedule/json_form.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace sennit {
namespace {

constexpr std::string_view kPrefix = "schedule:";

struct Kept {
  std::string name;
  Schedule schedule;
  Algorithm row{};
};

struct Keep {
  std::mutex mutex;
  // Rows are named by views and pointed to by plans, so none ever moves or goes.
  std::map<std::string, std::unique_ptr<Kept>, std::less<>> rows;
};

Keep& keep() {
  static auto& kept = *new Keep;  // outlives the communicators that programs leave to exit()
  return kept;
}

std::string name_of(const Schedule& schedule) {
  constexpr std::size_t kHashDigits = 32;
  const std::string hash = sha256_hex(dump_json(to_json(schedule))).substr(0, kHashDigits);
  return fmt::format("{}{}:{}", kPrefix, schedule.algorithm, hash);
}

}  // namespace

const Algorithm& keep_schedule(Schedule schedule) {
  std::string name = name_of(schedule);
  Keep& all = keep();
  const std::scoped_lock lock(all.mutex);
  if (const auto known = all.rows.find(name); known != all.rows.end()) {
    return known->second->row;
  }
  auto kept = std::make_unique<Kept>(Kept{.name = name, .schedule = std::move(schedule)});
  kept->row.collective = kept->schedule.problem.collective;
  kept->row.name = kept->name;
  kept->row.summary = "a schedule that the program has brought";
  kept->row.given = &kept->schedule;
  return all.rows.emplace(std::move(name), std::move(kept)).first->second->row;
}

bool is_name_of_given(std::string_view name) { return name.starts_with(kPrefix); }

Result<const Algorithm*> find_given(Collective collective, std::string_view name) {
  Keep& all = keep();
  const std::scoped_lock lock(all.mutex);
  const auto known = all.rows.find(name);
  if (known == all.rows.end()) {
    return fail(Code::kInvalidArgument,
                "this process has no schedule '{}'; sennit_tool_schedule gives a schedule its name",
                name);
  }
  const Algorithm& row = known->second->row;
  if (row.collective != collective) {
    return fail(Code::kInvalidArgument,
                "'{}' is a schedule of {}, and the call is {}",
                name,
                sennit::name(row.collective),
                sennit::name(collective));
  }
  return &row;
}

}  // namespace sennit
