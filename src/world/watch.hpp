// Watch: what a rank that has waited a while can see of the others. It reads their status lines
// and asks the system whether they live; it changes nothing and waits for nothing.
#pragma once

#include "world/waiting.hpp"
#include "world/world.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

// The call this rank is in.
struct CallView {
  std::uint64_t sequence = 0;  // 0: a send or recv, which only two ranks make
  CallWords words;
  Waiting waiting{};
  const PairCounts* counts = nullptr;  // where lengths vary
  PairMessage message{};               // of a send or recv; from any rank: kAnyRank
  std::optional<double> idle_s{};      // since data moved on any rank, where that is known
  double elapsed_s = 0;                // since it was made
  std::string note{};                  // what else this rank knows, for behind the evidence
};

struct Verdict {
  Code code = Code::kOk;
  std::vector<int> blamed_ranks{};
  std::string evidence{};  // whole clauses, for the middle of the error line
  std::string next{};      // what to do, where it is not what the code says
  // Holds only if what this rank waits for is still not here when it looks once more.
  bool is_doubtful = false;
  // Lines that have not come yet can change which ranks are blamed. Wait kUndecided first.
  bool is_undecided = false;
};

inline constexpr std::chrono::milliseconds kUndecided{500};

// Reading the lines costs a microsecond; asking whether the processes live is a system call that
// grows with their number, so it is asked less often.
enum class Depth { kLines, kLinesAndProcesses };

// Why the call can never end, if that can be known now: a rank died, gave up, aborted, has
// finalized, or is in a different call with the same number, or has been.
std::optional<Verdict> find_failure(const World& world, const CallView& view, Depth depth);

// What else has happened, where this rank's call cannot go on because the rail to `peer` has
// failed: ranks close their connections when they give up later calls, and a message may be lost by
// that. The death of a rank that has left the call counts too: what it has passed on of other
// nodes, such as why the peer is gone, is no longer known.
std::optional<Verdict> find_behind_lost_rail(const World& world, const CallView& view, int peer);

// What a rank has called under a number, if that can still be read.
using ReadCall = std::function<bool(int rank, CallWords& words)>;
// The verdict when ranks have made different calls under one number.
std::optional<Verdict> find_disagreement(const World& world,
                                         std::uint64_t sequence,
                                         const ReadCall& read);

// The verdict when `to` expects another number of elements than `from` sends it.
Verdict different_counts(
    const World& world, int from, std::uint64_t sent, int to, std::uint64_t expected);

// Of a call whose lengths vary: a rank that is in it and means another number of elements between
// itself and this rank.
std::optional<Verdict> find_different_counts(const World& world, const CallView& view);

// The verdict on a message whose ends differ in more than their tags.
Verdict different_message(const World& world,
                          const PairMessage& message,
                          const CallWords& meant,
                          const CallWords& expected);
// The verdict when the two ends of a message, as far as both are begun and can still be read,
// differ in count or type.
std::optional<Verdict> find_different_message(const World& world, int from, int to);

// A rank may leave, die or finalize without harm once it has done its part of our call.
bool has_left(const World& world, int rank, const CallView& view);

// What a call fails with where another rank has given up with `code`.
Code code_for_others(Code code);

// "rank 1 (node0 pid 62), rank 2 (node1 pid 63)"
std::string describe_ranks(const World& world, const std::vector<int>& ranks);
// "all_reduce of 1024 x float32, sum"
std::string describe(const CallWords& words);
// The same, or "send of 4 x float32 to rank 1", of the call that `rank` is in.
std::string describe_call(const CallView& view, int rank);
// "1024 x float32", "1024 x float32 with tag 3"
std::string describe_elements(const CallWords& words);

}  // namespace sennit
