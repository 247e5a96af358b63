#include "base/die_at.hpp"

#include "base/env.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <vector>

namespace sennit {
namespace {

constexpr std::string_view kVariable = "SENNIT_TEST_DIE_AT";

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

}  // namespace

Result<DieAt> DieAt::parse(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const auto refused = [&] {
    return fail(Code::kInvalidArgument,
                "{}='{}' is not allowed; allowed: rank:sequence:step[:kill|stop], such as 2:1:0.5",
                kVariable,
                text);
  };
  const std::vector<std::string_view> fields = split(text);
  if (fields.size() < 3 || fields.size() > 4 ||
      (fields.size() == 4 && fields[3] != "kill" && fields[3] != "stop")) {
    return refused();
  }
  std::string_view step = fields[2];
  const bool inside = step.ends_with(".5");
  step.remove_suffix(inside ? 2 : 0);
  const auto rank = parse_integer(kVariable, fields[0], {.min = 0, .max = kMost});
  const auto sequence = parse_integer(kVariable, fields[1], {.min = 0, .max = kMost});
  const auto steps = parse_integer(kVariable, step, {.min = 0, .max = kMost});
  if (!rank.ok() || !sequence.ok() || !steps.ok()) {
    return refused();
  }
  DieAt moment;
  moment.rank_ = static_cast<int>(*rank);
  moment.sequence_ = static_cast<std::uint64_t>(*sequence);
  moment.moments_left_ = 2 * *steps + (inside ? 1 : 0);
  moment.signal_ = fields.size() == 4 && fields[3] == "stop" ? SIGSTOP : SIGKILL;
  return moment;
}

Result<std::optional<DieAt>> DieAt::from_environment() {
  const std::string text = env_text(kVariable);
  if (text.empty()) {
    return std::optional<DieAt>();
  }
  SENNIT_ASSIGN_OR_RETURN(const DieAt moment, parse(text));
  return std::optional(moment);
}

// Neither signal can be caught, so the thread comes back only from a stop that was continued.
void DieAt::die() const { static_cast<void>(::raise(signal_)); }

}  // namespace sennit
