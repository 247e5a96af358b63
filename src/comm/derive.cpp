#include "comm/derive.hpp"

#include "base/sha256.hpp"
#include "world/nodes/root_place.hpp"
#include "world/watch.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

namespace sennit {
namespace {

// For the death of a rank that its connection has reported, and its pidfd not yet.
constexpr auto kRetry = std::chrono::milliseconds(5);

bool contains(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

// The failure of a join that waits for a dead rank; ok while all members live.
Status check_alive(const World& world, const std::vector<int>& members) {
  for (const int rank : world.peers().dead()) {
    const auto place = std::ranges::find(members, rank);
    if (place != members.end()) {
      ErrorDetail detail;
      detail.blamed_ranks = {static_cast<int>(place - members.begin())};
      detail.evidence = fmt::format("it was {} of the parent", world.peers().describe(rank));
      detail.next = "shrink() the parent to the survivors, or exit";
      return {Code::kRankFailed,
              fmt::format("rank {} died while joining", detail.blamed_ranks.front()),
              detail};
    }
  }
  return {};
}

// The failure of a join that waits for a rank that has left the parent before the end of its call
// `call`; ok while all members have ended that, or may.
Status check_came(const World& world, const std::vector<int>& members, std::uint64_t call) {
  for (std::size_t place = 0; place < members.size(); ++place) {
    const StatusLine& line = world.line(members[place]);
    const RankState state = line.state.load(std::memory_order_acquire);
    const bool may_come = state == RankState::kActive || state == RankState::kJoining;
    if (may_come || line.left.load(std::memory_order_acquire) >= call) {
      continue;
    }
    ErrorDetail detail;
    detail.blamed_ranks = {static_cast<int>(place)};
    const std::string named = world.peers().describe(members[place]);
    const Code why = state == RankState::kAborted
                         ? Code::kAborted
                         : static_cast<Code>(line.failure_code.load(std::memory_order_acquire));
    detail.evidence =
        state == RankState::kFinalized
            ? fmt::format("it was {} of the parent, and finalized it", named)
            : fmt::format("it was {} of the parent, and gave up there ({})", named, code_text(why));
    detail.next = "abort() the parent, then shrink() it to the survivors, or exit";
    return {state == RankState::kFinalized ? Code::kRankFailed : code_for_others(why),
            fmt::format("rank {} does not come to join", place),
            detail};
  }
  return {};
}

// Where ranks of several nodes meet that have met before; empty: they are on one.
Result<std::string> root_of(const World& world, const std::vector<int>& members) {
  const int first = members.front();
  const bool is_on_one_node = std::ranges::all_of(
      members, [&](int rank) { return world.node_of(rank) == world.node_of(first); });
  if (is_on_one_node) {
    return std::string();
  }
  if (world.node_of(first) == 0) {
    return world.identity().root;
  }
  return root_elsewhere(world.identity().root, world.member(first).address);
}

}  // namespace

Result<std::shared_ptr<Communicator>> join_part(const std::shared_ptr<Communicator>& parent,
                                                const std::string& what,
                                                const std::vector<int>& members,
                                                std::uint64_t call,
                                                const CommConfig& config,
                                                const std::function<Status()>& interruption) {
  return join_members(parent, what, members, config, [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(interruption ? interruption() : Status());
    return check_came(parent->world(), members, call);
  });
}

Result<std::shared_ptr<Communicator>> join_members(const std::shared_ptr<Communicator>& parent,
                                                   const std::string& what,
                                                   const std::vector<int>& members,
                                                   const CommConfig& config,
                                                   const std::function<Status()>& interruption) {
  const auto place = std::ranges::find(members, parent->rank()) - members.begin();
  SENNIT_ASSIGN_OR_RETURN(std::string root, root_of(parent->world(), members));
  const Identity identity{.rank = static_cast<int>(place),
                          .size = static_cast<int>(members.size()),
                          .key = sha256_hex(fmt::format("{}/{}", what, fmt::join(members, ","))),
                          .root = std::move(root),
                          .is_key_secret = parent->world().identity().is_key_secret};
  const auto reason = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(interruption ? interruption() : Status());
    return check_alive(parent->world(), members);
  };
  return Communicator::create(identity, config, {.reason = reason, .is_found_by_all = true});
}

// Ranks learn of a death at different times, so two of them may begin with different members and
// keys; each then waits for one that has died, finds that, and begins again until all have the
// same.
Result<std::shared_ptr<Communicator>> join_survivors(const std::shared_ptr<Communicator>& parent,
                                                     const std::string& what,
                                                     const std::vector<int>& excluded,
                                                     const CommConfig& config,
                                                     const std::function<Status()>& interruption) {
  if (contains(excluded, parent->rank())) {
    return fail(Code::kInvalidArgument,
                "rank {} is among the excluded ranks; only the others call shrink",
                parent->rank());
  }
  for (const int rank : excluded) {
    if (rank < 0 || rank >= parent->size()) {
      return fail(Code::kInvalidArgument,
                  "the excluded rank {} is not a rank of {} ranks",
                  rank,
                  parent->size());
    }
  }
  const Clock::time_point begin = Clock::now();
  CommConfig rest = config;
  while (true) {
    const std::vector<int> dead = parent->world().peers().dead();
    std::vector<int> members;
    for (int rank = 0; rank < parent->size(); ++rank) {
      if (!contains(excluded, rank) && !contains(dead, rank)) {
        members.push_back(rank);
      }
    }
    auto joined = join_members(parent, what, members, rest, interruption);
    const double elapsed_s = std::chrono::duration<double>(Clock::now() - begin).count();
    rest.join_timeout_s = config.join_timeout_s - elapsed_s;
    if (joined.ok() || joined.status().code() != Code::kRankFailed || rest.join_timeout_s <= 0) {
      return joined;
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace sennit
