// Derive: communicators made from another one. Its ranks know of each other's deaths, so a join of
// some of them never waits for one that has died.
#pragma once

#include "comm/communicator.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sennit {

// Joins `members`, ranks of `parent` in the order of their new numbers, among them this rank.
// `what` names the set on all of them, as parent.name_split() or parent.name_shrink() gave it.
// kRankFailed when a member dies before all have joined. `interruption`, which may be empty: see
// JoinInterruption::reason.
Result<std::shared_ptr<Communicator>> join_members(const std::shared_ptr<Communicator>& parent,
                                                   const std::string& what,
                                                   const std::vector<int>& members,
                                                   const CommConfig& config,
                                                   const std::function<Status()>& interruption);

// The same after a collective of the parent, its number `call`, in which all ranks have reported
// which part they are. kRankFailed, too, when a member has given up in that call, which can end
// well on a rank whose data the others need and on no other.
Result<std::shared_ptr<Communicator>> join_part(const std::shared_ptr<Communicator>& parent,
                                                const std::string& what,
                                                const std::vector<int>& members,
                                                std::uint64_t call,
                                                const CommConfig& config,
                                                const std::function<Status()>& interruption);

// Joins all ranks that are alive but the excluded ones. When one dies meanwhile, begins again
// without it.
Result<std::shared_ptr<Communicator>> join_survivors(const std::shared_ptr<Communicator>& parent,
                                                     const std::string& what,
                                                     const std::vector<int>& excluded,
                                                     const CommConfig& config,
                                                     const std::function<Status()>& interruption);

}  // namespace sennit
