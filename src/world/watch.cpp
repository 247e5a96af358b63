#include "world/watch.hpp"

#include "codec/codec.hpp"
#include "world/deadlock.hpp"
#include "world/lost_rail.hpp"
#include "world/operation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace sennit {
namespace {

RankState state_of(const World& world, int rank) {
  return world.line(rank).state.load(std::memory_order_acquire);
}

// What a rank has called under a number, if that can still be read.
bool read_call(
    const World& world, int rank, std::uint64_t sequence, const CallView& view, CallWords& words) {
  if (rank == world.rank() && sequence == view.sequence) {
    words = view.words;
    return true;
  }
  return world.line(rank).read(sequence, words);
}

std::optional<Verdict> find_disagreement(const World& world,
                                         const CallView& view,
                                         std::uint64_t sequence) {
  return find_disagreement(world, sequence, [&](int rank, CallWords& words) {
    return read_call(world, rank, sequence, view, words);
  });
}

// Whether another rank has made another call under the number than this one.
bool anyone_differs(const World& world, const CallView& view, std::uint64_t sequence) {
  CallWords mine;
  CallWords theirs;
  if (!read_call(world, world.rank(), sequence, view, mine)) {
    return false;
  }
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank() && world.line(rank).read(sequence, theirs) && theirs != mine) {
      return true;
    }
  }
  return false;
}

// Of this call, and of the two before it, as far as lines reach back: calls that differ may all
// have ended well, such as two scatters with two roots, and have left what stops this one.
std::optional<Verdict> find_different_call(const World& world, const CallView& view) {
  for (std::uint64_t back = std::min<std::uint64_t>(3, view.sequence); back-- > 0;) {
    if (anyone_differs(world, view, view.sequence - back)) {
      return find_disagreement(world, view, view.sequence - back);
    }
  }
  return std::nullopt;
}

// The dead, but for those who gave up before: they are no cause, and have said why in their lines.
// These are read after the deaths were seen.
std::vector<int> killed(const World& world) {
  std::vector<int> dead = world.peers().dead();
  std::erase_if(dead, [&](int rank) { return state_of(world, rank) != RankState::kActive; });
  return dead;
}

// There is one.
Verdict verdict_on_dead(const World& world, const std::vector<int>& dead) {
  std::vector<int> lost;
  std::ranges::copy_if(
      dead, std::back_inserter(lost), [&](int rank) { return world.peers().is_lost(rank); });
  if (!lost.empty()) {
    return Verdict{
        .code = Code::kRankFailed,
        .blamed_ranks = lost,
        .evidence = fmt::format("node {} no longer answers, or the network to it is down: {}",
                                world.node_of(lost.front()),
                                describe_ranks(world, lost))};
  }
  return Verdict{
      .code = Code::kRankFailed,
      .blamed_ranks = dead,
      .evidence = fmt::format("{} died (last finished call {})",
                              describe_ranks(world, dead),
                              world.line(dead.front()).left.load(std::memory_order_acquire))};
}

std::optional<Verdict> find_dead(const World& world, const CallView& view) {
  std::vector<int> dead = killed(world);
  // Asked after the death was seen, too: a rank may have left the call just before it ended.
  std::erase_if(dead, [&](int rank) { return has_left(world, rank, view); });
  return dead.empty() ? std::nullopt : std::optional(verdict_on_dead(world, dead));
}

// ": rank 2 (node7 pid 4711)", and whether it is stopped.
std::string about(const World& world, int rank) {
  return fmt::format(": {}{}",
                     world.peers().describe(rank),
                     world.peers().is_stopped(rank) ? ", stopped by a signal or a debugger" : "");
}

// What a rank has seen that gave up for a mismatch.
std::optional<Verdict> find_mismatch_of(const World& world, const CallView& view, int rank) {
  const std::uint64_t sequence = world.line(rank).entered.load(std::memory_order_acquire);
  if (sequence != 0) {  // else it has made no collective
    if (auto verdict = find_disagreement(world, view, sequence)) {
      return verdict;
    }
  }
  for (int peer = 0; peer < world.size(); ++peer) {
    for (const auto& [from, to] : {std::pair(rank, peer), std::pair(peer, rank)}) {
      if (auto verdict = find_different_message(world, from, to)) {
        return verdict;
      }
    }
  }
  return find_circle(world, rank);
}

// Why a rank gave up that says in its line that it did. What made it is the cause; the rank itself
// is only the messenger.
Verdict retell(const World& world, const CallView& view, int rank) {
  const StatusLine& line = world.line(rank);
  const auto code = static_cast<Code>(line.failure_code.load(std::memory_order_acquire));
  const std::optional<int> witness = find_witness_of_lost_rail(world);
  if (code == Code::kSystemError && witness) {
    return retell_lost_rail(world, *witness);
  }
  if (code == Code::kMismatch) {
    if (auto verdict = find_mismatch_of(world, view, rank)) {
      return *verdict;
    }
  }
  const int blamed = line.blamed.load(std::memory_order_acquire);
  const bool known = blamed >= 0 && blamed < world.size();
  return {.code = code_for_others(code),
          .blamed_ranks = {known ? blamed : rank},
          .evidence = fmt::format("{} gave up ({}{})",
                                  world.peers().describe(rank),
                                  code_text(code),
                                  known && blamed != rank ? about(world, blamed) : std::string())};
}

// The verdict when ranks have finalized that our call needs.
std::optional<Verdict> find_finalized(const World& world, const CallView& view) {
  std::vector<int> finalized;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank() && state_of(world, rank) == RankState::kFinalized &&
        !has_left(world, rank, view)) {
      finalized.push_back(rank);
    }
  }
  // One rank that sends is enough for a recv from any.
  const bool is_from_any = view.sequence == 0 && view.message.from == kAnyRank;
  if (finalized.empty() || (is_from_any && std::ssize(finalized) < world.size() - 1)) {
    return std::nullopt;
  }
  const auto last_call = world.line(finalized.front()).left.load(std::memory_order_acquire);
  return Verdict{
      .code = Code::kMismatch,
      .blamed_ranks = finalized,
      .evidence = fmt::format("{} finalized the communicator after call {}; this rank called {}",
                              describe_ranks(world, finalized),
                              last_call,
                              describe_call(view, world.rank()))};
}

std::optional<Verdict> find_given_up(const World& world, const CallView& view) {
  if (auto verdict = find_lost_rail(world, view)) {
    return verdict;
  }
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) {
      continue;
    }
    switch (state_of(world, rank)) {
      case RankState::kJoining:
      case RankState::kActive:
      case RankState::kFinalized:
        break;
      case RankState::kAborted:
        return Verdict{
            .code = Code::kAborted,
            .blamed_ranks = {rank},
            .evidence = fmt::format("{} aborted the communicator", world.peers().describe(rank))};
      case RankState::kFailed:
        // One that failed in a later call has done its part of ours, which can still end well.
        if (view.sequence == 0 || !has_left(world, rank, view)) {
          return retell(world, view, rank);
        }
        break;
    }
  }
  return std::nullopt;
}

// A rank ends a call when it has done its whole part of it. Where another still waits for that
// part, the one that ended has made a different call, which its line may have forgotten.
std::optional<Verdict> find_ended(const World& world, const CallView& view) {
  const int peer = view.waiting.peer;
  if (view.sequence == 0 || !view.waiting.is_certain || !has_left(world, peer, view)) {
    return std::nullopt;
  }
  return Verdict{.code = Code::kMismatch,
                 .blamed_ranks = {peer},
                 .evidence = fmt::format("{} has ended its call {}, and this rank waits for it in "
                                         "its own: the calls differ",
                                         world.peers().describe(peer),
                                         view.sequence),
                 .is_doubtful = true};
}

}  // namespace

Code code_for_others(Code code) {
  return code == Code::kMismatch || code == Code::kAborted || code == Code::kDeadlineExceeded
             ? code
             : Code::kRankFailed;
}

bool has_left(const World& world, int rank, const CallView& view) {
  if (view.sequence == 0) {
    return rank != view.waiting.peer && view.message.from != kAnyRank;
  }
  return world.line(rank).left.load(std::memory_order_acquire) >= view.sequence;
}

std::string describe_ranks(const World& world, const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const int rank : ranks) {
    if (names.size() == kShown) {
      names.push_back(fmt::format("and {} more", ranks.size() - kShown));
      break;
    }
    names.push_back(world.peers().describe(rank));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe_call(const CallView& view, int rank) {
  if (view.sequence != 0) {
    return describe(view.words);
  }
  const bool is_send = view.message.from == rank;
  const int peer = is_send ? view.message.to : view.message.from;
  return fmt::format("{} of {} {} {}",
                     is_send ? "send" : "recv",
                     describe_elements(view.words),
                     is_send ? "to" : "from",
                     peer == kAnyRank ? "any rank" : fmt::format("rank {}", peer));
}

std::string describe_elements(const CallWords& words) {
  const auto dtype = dtype_from_value(static_cast<int>(words.dtype));
  return fmt::format(
      "{} x {}{}{}",
      words.count,
      dtype.ok() ? name(dtype.value()) : "an unknown dtype",
      words.codec == 0 ? "" : fmt::format(", codec {},", name(static_cast<Codec>(words.codec))),
      words.tag == 0 ? "" : fmt::format(" with tag {}", words.tag));
}

std::string describe(const CallWords& words) {
  const auto collective = static_cast<Collective>(words.collective);
  if (words.collective >= kCollectives.size()) {
    return "an unknown collective";
  }
  if (collective == Collective::kBarrier) {
    return "barrier";
  }
  const auto dtype = dtype_from_value(static_cast<int>(words.dtype));
  const std::string_view type = dtype.ok() ? name(dtype.value()) : "an unknown dtype";
  std::string text = words.varying
                         ? fmt::format("{}_v of {}", name(collective), type)
                         : fmt::format("{} of {}", name(collective), describe_elements(words));
  if (is_reduction(collective)) {
    // Of one that the caller made there is no value in the ABI's table.
    const auto op = words.op == static_cast<std::uint32_t>(ReduceOp::kPremulSum)
                        ? Result<ReduceOp>(ReduceOp::kPremulSum)
                        : reduce_op_from_value(static_cast<int>(words.op));
    text += fmt::format(", {}", op.ok() ? name(op.value()) : "an unknown operator");
  }
  if (is_rooted(collective)) {
    text += fmt::format(", root {}", words.root);
  }
  if (words.varying && words.codec != 0) {
    text += fmt::format(", codec {}", name(static_cast<Codec>(words.codec)));
  }
  if (words.row != 0) {
    text += fmt::format(", with rms_norm of rows of {}", words.row);
  }
  return words.plan_hash == CallWords::kRefused
             ? text + ", which was refused there: its own error says why"
             : text + fmt::format(" (plan {:08x})", static_cast<std::uint32_t>(words.plan_hash));
}

std::optional<Verdict> find_disagreement(const World& world,
                                         std::uint64_t sequence,
                                         const ReadCall& read) {
  // The call of most ranks counts as the meant one; of equally many, that of the lowest rank.
  std::vector<std::pair<CallWords, std::vector<int>>> calls;
  std::size_t readable = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    CallWords words;
    if (!read(rank, words)) {
      continue;
    }
    ++readable;
    const auto same = std::ranges::find_if(calls, [&](const auto& c) { return c.first == words; });
    if (same == calls.end()) {
      calls.push_back({words, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  if (calls.size() < 2) {
    return std::nullopt;
  }
  const auto meant = std::ranges::max_element(
      calls, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  Verdict verdict{.code = Code::kMismatch};
  std::vector<std::string> clauses;
  for (const auto& [words, ranks] : calls) {
    clauses.push_back(fmt::format("{} called {}", describe_ranks(world, ranks), describe(words)));
    if (words != meant->first) {
      verdict.blamed_ranks.insert(verdict.blamed_ranks.end(), ranks.begin(), ranks.end());
    }
  }
  std::ranges::sort(verdict.blamed_ranks);
  // Most ranks, whatever those call that have not been read.
  const auto ranks = static_cast<std::size_t>(world.size());
  verdict.is_undecided = readable < ranks && meant->second.size() * 2 <= ranks;
  verdict.evidence =
      fmt::format("the ranks disagree on call {}: {}", sequence, fmt::join(clauses, "; "));
  return verdict;
}

Verdict different_counts(
    const World& world, int from, std::uint64_t sent, int to, std::uint64_t expected) {
  return {.code = Code::kMismatch,
          .blamed_ranks = {std::min(from, to), std::max(from, to)},
          .evidence = fmt::format("{} sends {} elements to {}, which expects {}",
                                  world.peers().describe(from),
                                  sent,
                                  world.peers().describe(to),
                                  expected)};
}

std::optional<Verdict> find_different_counts(const World& world, const CallView& view) {
  if (view.counts == nullptr) {
    return std::nullopt;
  }
  for (int peer = 0; peer < world.size(); ++peer) {
    // Unequal counts may have led to unequal plans; then they are the cause.
    CallWords words;
    const auto is_in_it = [&] {
      words.plan_hash = view.words.plan_hash;
      return words == view.words;
    };
    // Counts stay on their node; a message of another length is not taken (channel.hpp).
    if (peer == world.rank() || !world.is_local(peer) ||
        !world.line(peer).read(view.sequence, words) || !is_in_it()) {
      continue;
    }
    const PairCountTable::Pair theirs = world.counts().read(peer, view.sequence, world.rank());
    if (!world.line(peer).read(view.sequence, words)) {
      continue;  // overwritten meanwhile, perhaps
    }
    const auto p = static_cast<std::size_t>(peer);
    if (theirs.sent != view.counts->expected[p]) {
      return different_counts(world, peer, theirs.sent, world.rank(), view.counts->expected[p]);
    }
    if (theirs.expected != view.counts->sent[p]) {
      return different_counts(world, world.rank(), view.counts->sent[p], peer, theirs.expected);
    }
  }
  return std::nullopt;
}

Verdict different_message(const World& world,
                          const PairMessage& message,
                          const CallWords& meant,
                          const CallWords& expected) {
  const auto& [from, to, number] = message;
  // Of one count and type they can differ in how they are sent, which a caller may ask for.
  const bool differ_in_elements = describe_elements(meant) != describe_elements(expected);
  const auto text = [&](const CallWords& words) {
    return differ_in_elements ? describe_elements(words) : describe(words);
  };
  return Verdict{.code = Code::kMismatch,
                 .blamed_ranks = {std::min(from, to), std::max(from, to)},
                 .evidence = fmt::format("{} sends {} to {}, which expects {} (message {} from "
                                         "the one to the other)",
                                         world.peers().describe(from),
                                         text(meant),
                                         world.peers().describe(to),
                                         text(expected),
                                         number)};
}

std::optional<Verdict> find_different_message(const World& world, int from, int to) {
  if (from == to || from == kAnyRank) {
    return std::nullopt;
  }
  const auto& sent = world.message_log(from, to).sent.calls;
  const auto& received = world.message_log(to, from).received.calls;
  const std::uint64_t last = std::min(sent.entered.load(std::memory_order_acquire),
                                      received.entered.load(std::memory_order_acquire));
  const std::uint64_t first = last > MessageLog::kKept ? last - MessageLog::kKept : 1;
  for (std::uint64_t number = first; number <= last; ++number) {
    CallWords meant;
    CallWords expected;
    if (!sent.read(number, meant) || !received.read(number, expected) || meant == expected ||
        meant.tag != expected.tag) {  // what the receiver still waits for when it reads the message
      continue;
    }
    return different_message(world, {.from = from, .to = to, .number = number}, meant, expected);
  }
  return std::nullopt;
}

std::optional<Verdict> find_behind_lost_rail(const World& world, const CallView& view, int peer) {
  if (state_of(world, peer) == RankState::kFailed && !has_lost_rail(world, peer)) {
    return retell(world, view, peer);
  }
  const std::vector<int> dead = killed(world);
  return dead.empty() ? std::nullopt : std::optional(verdict_on_dead(world, dead));
}

std::optional<Verdict> find_failure(const World& world, const CallView& view, Depth depth) {
  // In the order of how much each explains: different counts, a different call and a death are
  // causes, a rank that gave up is often only their first witness.
  if (auto verdict = find_different_counts(world, view)) {
    return verdict;
  }
  if (auto verdict = find_different_call(world, view)) {
    return verdict;
  }
  if (view.sequence == 0) {
    if (auto verdict = find_different_message(world, view.message.from, view.message.to)) {
      return verdict;
    }
  }
  if (view.waiting.foreign) {
    // Data of another node may overtake the line that says which call they are of.
    return Verdict{.code = Code::kMismatch,
                   .blamed_ranks = {view.waiting.peer},
                   .evidence = fmt::format("{} sends the data of a different call",
                                           world.peers().describe(view.waiting.peer)),
                   .is_undecided = !world.is_local(view.waiting.peer)};
  }
  auto given_up = find_finalized(world, view);
  if (!given_up) {
    given_up = find_given_up(world, view);
  }
  if (depth == Depth::kLinesAndProcesses || given_up) {
    if (auto verdict = find_dead(world, view)) {
      return verdict;
    }
  }
  return given_up ? given_up : find_ended(world, view);
}

}  // namespace sennit
