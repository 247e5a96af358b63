#include "schedule/dynamic_policy.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace sennit {
namespace {

// 2^20 copies are more than any call has; a larger exponent says nothing new.
constexpr std::int64_t kLargestExponent = 20;

std::size_t other(int type) { return type == 0 ? 1 : 0; }

}  // namespace

void DynamicPolicy::complete(int member, int type) {
  const auto t = static_cast<std::size_t>(type);
  const auto found = pending_.find(member);
  SENNIT_CHECK(found != pending_.end() && found->second.under_way[t],
               "a copy completes that was issued");
  Pending& pending = found->second;
  pending.under_way[t] = false;
  pending.complete = true;
  if (!pending.under_way[other(type)]) {
    pending_.erase(found);
  }
  ++completed_[t];
  const std::int64_t difference = completed_[t] - completed_[other(type)];
  grants_.push_back(
      {.type = type,
       .copies = std::int64_t{1} << std::clamp<std::int64_t>(difference, 0, kLargestExponent)});
}

std::optional<DynamicPolicy::Issue> DynamicPolicy::next() {
  if (arrivals_.empty()) {
    return next_again();
  }
  if (grants_.empty()) {
    return std::nullopt;
  }
  const Issue issue{.member = arrivals_.front(), .type = grants_.front().type};
  arrivals_.pop_front();
  if (--grants_.front().copies == 0) {
    grants_.pop_front();
  }
  --unissued_;
  pending_[issue.member].under_way[static_cast<std::size_t>(issue.type)] = true;
  return issue;
}

// The last copy pending, once, if its type has nothing to show and the other has.
std::optional<DynamicPolicy::Issue> DynamicPolicy::next_again() {
  if (unissued_ > 0 || pending_.size() != 1) {
    return std::nullopt;
  }
  auto& [member, pending] = *pending_.begin();
  if (pending.complete || (pending.under_way[0] && pending.under_way[1])) {
    return std::nullopt;
  }
  const int slow = pending.under_way[0] ? 0 : 1;
  const std::size_t fast = other(slow);
  if (completed_[static_cast<std::size_t>(slow)] > 0 || completed_[fast] == 0) {
    return std::nullopt;
  }
  pending.under_way[fast] = true;
  return Issue{.member = member, .type = static_cast<int>(fast), .again = true};
}

int DynamicPolicy::type_for_scatter(const std::array<std::int64_t, 2>& load) const {
  for (const int type : {0, 1}) {
    if (completed(type) == 0 && completed_[other(type)] > 0) {
      return static_cast<int>(other(type));
    }
  }
  // The type that would be through with its queue first, if each is as fast as it was.
  const std::int64_t first = (load[0] + 1) * std::max<std::int64_t>(1, completed_[1]);
  const std::int64_t second = (load[1] + 1) * std::max<std::int64_t>(1, completed_[0]);
  return first <= second ? 0 : 1;
}

}  // namespace sennit
