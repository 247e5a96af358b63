#include "world/deadlock.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace sennit {
namespace {

constexpr int kCallBits = 2;
constexpr int kPeerBits = 20;

LongWait long_wait_of(const World& world, int rank) {
  return LongWait::of(world.line(rank).long_wait.load(std::memory_order_acquire));
}

// Whether the rank that is waited for has done all that its calls so far have to do, and has not
// made the one that would end the wait.
bool lacks_call(const World& world, int rank, const LongWait& wait) {
  const auto has_nothing_running = [&](const auto& entered, const auto& ended) {
    const std::uint64_t last = entered.load(std::memory_order_acquire);
    return last < wait.number && ended.load(std::memory_order_acquire) == last;
  };
  if (wait.call == LongWait::Call::kCollective) {
    const StatusLine& line = world.line(wait.peer);
    return has_nothing_running(line.entered, line.left);
  }
  const bool is_send = wait.call == LongWait::Call::kSend;
  const MessageLog::Way& theirs = world.message_log(wait.peer, rank).way(!is_send);
  return has_nothing_running(theirs.calls.entered, theirs.ended);
}

// The ranks of the circle that `rank` is in, which begins with it; empty: it is in none.
std::vector<int> circle_of(const World& world, int rank) {
  std::vector<int> circle;
  for (int next = rank; circle.empty() || next != rank;) {
    const LongWait wait = long_wait_of(world, next);
    if (wait.call == LongWait::Call::kNone || wait.peer < 0 || wait.peer >= world.size() ||
        wait.peer == next || std::ranges::find(circle, next) != circle.end() ||
        !lacks_call(world, next, wait)) {
      return {};
    }
    circle.push_back(next);
    next = wait.peer;
  }
  return circle;
}

// "rank 1 (node7 pid 4711) waits in send of 4 x float32 to rank 0"
std::string describe_wait(const World& world, int rank) {
  const LongWait wait = long_wait_of(world, rank);
  CallWords words;
  if (wait.call == LongWait::Call::kCollective) {
    const bool known = world.line(rank).read(wait.number, words);
    return fmt::format("{} waits in {} (call {}) for rank {}",
                       world.peers().describe(rank),
                       known ? describe(words) : "a collective",
                       wait.number,
                       wait.peer);
  }
  const bool is_send = wait.call == LongWait::Call::kSend;
  const bool known = world.message_log(rank, wait.peer).way(is_send).calls.read(wait.number, words);
  return fmt::format("{} waits in {}{} {} rank {}",
                     world.peers().describe(rank),
                     is_send ? "send" : "recv",
                     known ? fmt::format(" of {}", describe_elements(words)) : "",
                     is_send ? "to" : "from",
                     wait.peer);
}

}  // namespace

std::uint64_t LongWait::word() const {
  if (call == Call::kNone) {
    return 0;
  }
  return (((number << kPeerBits) | static_cast<std::uint64_t>(peer)) << kCallBits) |
         static_cast<std::uint64_t>(call);
}

LongWait LongWait::of(std::uint64_t word) {
  return {.call = static_cast<Call>(word & ((1U << kCallBits) - 1)),
          .peer = static_cast<int>((word >> kCallBits) & ((1U << kPeerBits) - 1)),
          .number = word >> (kCallBits + kPeerBits)};
}

std::optional<Verdict> find_circle(const World& world, int rank) {
  std::vector<int> circle = circle_of(world, rank);
  if (circle.empty()) {
    return std::nullopt;
  }
  std::ranges::rotate(circle, std::ranges::min_element(circle));
  std::vector<std::string> waits;
  for (const int each : circle) {
    waits.push_back(describe_wait(world, each));
  }
  std::ranges::sort(circle);
  return Verdict{.code = Code::kMismatch,
                 .blamed_ranks = circle,
                 .evidence = fmt::format("the ranks wait for each other, and none makes the call "
                                         "that would end it: {}",
                                         fmt::join(waits, "; "))};
}

std::vector<DeadlockWatch::Seen> DeadlockWatch::look() const {
  std::vector<Seen> seen;
  for (const int rank : circle_of(world_, world_.rank())) {
    const StatusLine& line = world_.line(rank);
    seen.push_back({.rank = rank,
                    .wait = line.long_wait.load(std::memory_order_acquire),
                    .beats = line.beats.load(std::memory_order_acquire)});
  }
  return seen;
}

std::optional<Verdict> DeadlockWatch::find() {
  // One that was being counted when the first look was made counts before it.
  constexpr std::uint32_t kBeats = 2;
  std::vector<Seen> now = look();
  const auto same = [](const Seen& a, const Seen& b) {
    return a.rank == b.rank && a.wait == b.wait;
  };
  if (now.empty() || !std::ranges::equal(now, seen_, same)) {
    seen_ = std::move(now);
    return std::nullopt;
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].beats - seen_[i].beats < kBeats) {
      return std::nullopt;
    }
  }
  return find_circle(world_, world_.rank());
}

}  // namespace sennit
