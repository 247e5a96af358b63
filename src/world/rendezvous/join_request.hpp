// What both sides of the rendezvous know before they meet, and how they word what went wrong.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"
#include "world/rendezvous/deadline.hpp"
#include "world/rendezvous/frame.hpp"
#include "world/rendezvous/rendezvous.hpp"
#include "world/rendezvous/unix_socket.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct JoinRequest {
  Hello hello;  // of this rank
  KeyDigest key{};
  SocketAddress address;
  UniqueFd own_pidfd;
  Deadline deadline;
  JoinInterruption interruption;
  bool wants_waker = false;

  // Why the join is to end before its time; ok: it is not.
  [[nodiscard]] Status check_interruption() const {
    return interruption.reason ? interruption.reason() : Status();
  }
  // When to ask, at the latest.
  [[nodiscard]] Deadline::Clock::time_point next_check() const {
    const auto soon = Deadline::Clock::now() + std::chrono::milliseconds(20);
    return interruption.reason ? std::min(soon, deadline.end()) : deadline.end();
  }
};

// A failure as it travels to all ranks; join() puts rank and time in front of it.
Status join_failure(Code code,
                    std::string what,
                    std::vector<int> blamed_ranks,
                    std::string evidence,
                    std::string next);

// "rank 3", "ranks 1-3, 7".
std::string rank_list(const std::vector<int>& ranks);

// The failure of a join whose time is over: those of `size` ranks that have not come to `where`, or
// have come and not got ready.
Status ranks_missing(const std::vector<int>& missing,
                     int size,
                     bool have_not_come,
                     std::string_view where,
                     std::string next);

// Fails if two ranks have different settings: size, version, segment and the lines of the settings,
// each listed with both values.
Status check_agreement(const Hello& rank0, const Hello& other, pid_t other_pid);

// The failure of a rank that speaks another version of the protocol, so that nothing else is known.
Status other_protocol(pid_t pid, std::uint16_t protocol);

}  // namespace sennit
