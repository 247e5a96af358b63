// What both sides of the rendezvous know before they meet, and how they word what went wrong.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"
#include "comm/deadline.hpp"
#include "comm/frame.hpp"
#include "comm/unix_socket.hpp"

#include <string>
#include <vector>

namespace sennit {

struct JoinRequest {
  Hello hello;  // of this rank
  KeyDigest key{};
  SocketAddress address;
  UniqueFd own_pidfd;
  Deadline deadline;
};

// A failure as it travels to all ranks; join() puts rank and time in front of it.
Status join_failure(Code code,
                    std::string what,
                    std::vector<int> blamed_ranks,
                    std::string evidence,
                    std::string next);

// "rank 3", "ranks 1-3, 7".
std::string rank_list(const std::vector<int>& ranks);

// What two ranks were told differently: size, version, segment and the lines of the settings, each
// with both values; empty if they agree.
std::vector<std::string> differences(const Hello& rank0, const Hello& other);

}  // namespace sennit
