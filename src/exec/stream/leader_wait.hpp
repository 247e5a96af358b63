// LeaderWait: in a call of ranks whose kernels one GPU runs in turn, the hosts of the members wait
// for the leader in place of their streams, if no stream has anything to do before the call. A
// stream that waits for a word goes on 20 to 80 us after the word is there, more of them later than
// few (docs/decisions/0057-a-leader-in-turn.md); a host sees it in less than one.
#pragma once

#include "world/stream_words.hpp"

#include <chrono>
#include <cstdint>

namespace sennit::stream {

// For how long at most, `bytes` being the input and output of all ranks. Zero: not at all, since so
// long a call loses little when its streams go on later.
std::chrono::nanoseconds leader_patience(int ranks, std::int64_t bytes);

// For how long hosts wait for what is in their streams before such a call: longer than a small call
// takes where streams wait (48, 95 and 195 us with 4, 8 and 16 ranks), so that they leave that way.
std::chrono::nanoseconds idle_patience(int ranks);

// Whether the leader has ended the call by then. If so, the rank with these words has nothing left
// to do in it.
bool await_leader(RankWords& own, std::chrono::steady_clock::time_point until);

}  // namespace sennit::stream
