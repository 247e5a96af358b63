#include "world/control_star.hpp"

#include "base/fork_guard.hpp"
#include "base/log.hpp"

#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

using std::chrono::milliseconds;

// Many ranks may ask at once; one round serves them all.
constexpr auto kAskInterval = milliseconds(20);
// Reading who is stopped takes a system call or three for each rank.
constexpr auto kStoppedInterval = milliseconds(200);
// A lowest rank whose machine answers, and whose thread does not, for so long is stopped.
constexpr auto kSilence = milliseconds(2000);
// Who owes an answer for so long gets no questions or lines until it comes: a rank that is stopped
// reads nothing, and a full window would look like a lost machine (TCP_USER_TIMEOUT).
constexpr auto kPatience = milliseconds(200);
constexpr auto kFarewell = milliseconds(500);
constexpr int kLongestSleepMs = 60'000;
constexpr std::size_t kLinesAFrame = 256;
constexpr std::size_t kMaxLineBytes = 240;
static_assert(kLinesAFrame * kMaxLineBytes < kMaxNodePayload);

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

using Lines = std::vector<std::pair<int, LineCopy>>;  // with their ranks

std::vector<std::string> payloads_of(const Lines& lines) {
  std::vector<std::string> payloads;
  for (std::size_t first = 0; first < lines.size(); first += kLinesAFrame) {
    WireWriter out;
    for (std::size_t index = first; index < std::min(lines.size(), first + kLinesAFrame); ++index) {
      out.number<std::int32_t>(lines[index].first);
      lines[index].second.write(out);
    }
    payloads.push_back(out.take());
  }
  return payloads;
}

}  // namespace

ControlStar::ControlStar(World& world, const std::shared_ptr<NodeLinks>& links)
    : world_(world), dead_(static_cast<std::size_t>(world.size())), generation_(fork_generation()) {
  for (std::size_t node = 0; node < links->to_node.size(); ++node) {
    if (links->to_node[node] != nullptr) {
      Neighbor neighbor;
      neighbor.link = std::move(links->to_node[node]);
      neighbor.node = static_cast<int>(node);
      neighbors_.push_back(std::move(neighbor));
    }
  }
  thread_ = std::make_unique<std::thread>([this] { run(); });
}

ControlStar::~ControlStar() {
  if (generation_ != fork_generation()) {
    // NOLINTNEXTLINE(bugprone-unused-return-value): a child has none of its parent's threads
    static_cast<void>(thread_.release());
    return;
  }
  is_ending_.store(true, std::memory_order_release);
  world_.wake_star();
  thread_->join();
}

void ControlStar::run() {
  block_signals();
  const LogRank log_rank(world_.rank());
  while (!is_ending_.load(std::memory_order_acquire)) {
    poll_once();
  }
  take_local_news(Clock::now());
  send_lines(nullptr);
  send_to_all(Type::kBye, {});
  const auto until = Clock::now() + kFarewell;
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.link != nullptr) {
      neighbor.link->flush(until);
    }
  }
}

void ControlStar::poll_once() {
  std::vector<pollfd> watched{{world_.waker(), POLLIN, 0}};
  for (const Neighbor& neighbor : neighbors_) {
    const bool is_there = neighbor.link != nullptr;
    watched.push_back({is_there ? neighbor.link->socket() : -1,
                       is_there ? neighbor.link->events() : short{0},
                       0});
  }
  std::vector<int> ranks;
  const std::size_t first_process = watched.size();
  watch_processes(watched, ranks);
  if (poll(watched.data(), watched.size(), timeout_ms(Clock::now())) < 0) {
    return;
  }
  const auto now = Clock::now();
  if (watched.front().revents != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!read(world_.waker(), &count, sizeof count));
  }
  take_local_news(now);
  for (std::size_t index = 0; index < neighbors_.size(); ++index) {
    if (watched[1 + index].revents != 0) {
      pump(neighbors_[index]);
    }
  }
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    if ((watched[first_process + index].revents & POLLIN) != 0) {
      on_death(ranks[index]);
    }
  }
  if (is_ask_due_) {
    ask(now);
  }
  find_silent(now);
}

void ControlStar::watch_processes(std::vector<pollfd>& watched, std::vector<int>& ranks) const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    const int pidfd = world_.member(rank).process.get();
    if (pidfd >= 0 && !dead_[static_cast<std::size_t>(rank)]) {
      watched.push_back({pidfd, POLLIN, 0});
      ranks.push_back(rank);
    }
  }
}

int ControlStar::timeout_ms(Clock::time_point now) const {
  auto wake = now + milliseconds(kLongestSleepMs);
  if (is_ask_due_) {
    wake = asked_at_ + kAskInterval;
  }
  for (const Neighbor& neighbor : neighbors_) {
    if (neighbor.asked_at && neighbor.link != nullptr && !neighbor.is_silent) {
      wake = std::min(wake, *neighbor.asked_at + kSilence);
    }
  }
  return Deadline::poll_ms(wake);
}

// What ranks of this node have written into the segment's header.
void ControlStar::take_local_news(Clock::time_point now) {
  const std::uint32_t alarms = world_.alarms() - alarms_made_;
  if (alarms != std::exchange(alarms_seen_, alarms)) {
    send_lines(nullptr);
    send_to_all(Type::kAlarm, {});
  }
  const std::uint32_t asks = world_.asks();
  if (asks != std::exchange(asks_seen_, asks)) {
    is_ask_due_ = true;
    ask(now);
  }
}

void ControlStar::pump(Neighbor& neighbor) {
  neighbor.link->pump();
  while (const std::optional<StreamMessage> message = neighbor.link->next()) {
    on_message(neighbor, *message);
  }
  const NodeLink::State state = neighbor.link->state();
  if (state == NodeLink::State::kClosed || state == NodeLink::State::kLost) {
    on_end(neighbor, state);
  }
}

void ControlStar::on_message(Neighbor& neighbor, const StreamMessage& message) {
  switch (static_cast<Type>(message.type)) {
    case Type::kAsk:
      send_lines(&neighbor);
      if (is_root()) {
        is_ask_due_ = true;
      }
      return;
    case Type::kLines:
      on_lines(neighbor, message.payload);
      return;
    case Type::kAlarm:
      sound_alarm_here();
      if (is_root()) {
        send_to_all(Type::kAlarm, {}, &neighbor);
      }
      return;
    case Type::kReports:
      on_reports(neighbor, message.payload);
      return;
    case Type::kBye:
      neighbor.has_left = true;
      return;
  }
  SENNIT_INFO("comm", "node {} sent a message of unknown type {}", neighbor.node, message.type);
}

void ControlStar::on_lines(Neighbor& neighbor, const std::string& payload) {
  if (std::exchange(neighbor.is_silent, false)) {
    report({ranks_of(neighbor.node).front()}, 0);
  }
  neighbor.asked_at.reset();
  if (std::exchange(neighbor.lacks_lines, false)) {
    send_all_lines(neighbor);
  }
  WireReader in(payload);
  while (in.good() && !in.complete()) {
    const auto rank = in.number<std::int32_t>();
    const std::optional<LineCopy> copy = LineCopy::read(in);
    // Rank 0 takes the lines of a node from there alone.
    if (!copy || rank < 0 || rank >= world_.size() || world_.is_local(rank) ||
        (is_root() && world_.node_of(rank) != neighbor.node)) {
      return;
    }
    StatusLine& line = world_.line(rank);
    copy->put(line);
    const std::uint32_t known = line.reported.load(std::memory_order_relaxed);
    line.reported.store(copy->is_stopped ? known | kReportedStopped : known & ~kReportedStopped,
                        std::memory_order_release);
  }
  if (is_root() && !payload.empty()) {
    send_to_all(Type::kLines, payload, &neighbor);
  }
}

void ControlStar::on_reports(Neighbor& neighbor, const std::string& payload) {
  WireReader in(payload);
  while (in.good() && !in.complete()) {
    const auto rank = in.number<std::int32_t>();
    const auto what = in.number<std::uint32_t>();
    if (!in.good() || rank < 0 || rank >= world_.size() || world_.is_local(rank) ||
        (is_root() && world_.node_of(rank) != neighbor.node)) {
      return;
    }
    world_.line(rank).reported.store(what, std::memory_order_release);
  }
  sound_alarm_here();
  if (is_root()) {
    send_to_all(Type::kReports, payload, &neighbor);
  }
}

void ControlStar::on_end(Neighbor& neighbor, NodeLink::State state) {
  neighbor.link.reset();
  neighbor.asked_at.reset();
  if (neighbor.has_left) {
    return;
  }
  const std::vector<int> ranks = ranks_of(neighbor.node);
  if (state == NodeLink::State::kLost) {
    SENNIT_INFO("comm", "node {} no longer answers", neighbor.node);
    report(ranks, kReportedLost);
  } else {
    report({ranks.front()}, kReportedDead);
  }
}

void ControlStar::on_death(int rank) {
  dead_[static_cast<std::size_t>(rank)] = true;
  send_lines(nullptr);  // what it has said at last
  WireWriter out;
  out.number<std::int32_t>(rank);
  out.number(kReportedDead);
  send_to_all(Type::kReports, out.take());
}

void ControlStar::ask(Clock::time_point now) {
  if (now < asked_at_ + kAskInterval) {
    return;
  }
  asked_at_ = now;
  is_ask_due_ = false;
  send_lines(nullptr);
  send_to_all(Type::kAsk, {});
  for (Neighbor& neighbor : neighbors_) {
    neighbor.asked_at = neighbor.asked_at.value_or(now);
  }
}

void ControlStar::find_silent(Clock::time_point now) {
  for (Neighbor& neighbor : neighbors_) {
    const bool is_overdue =
        neighbor.link != nullptr && neighbor.asked_at && now >= *neighbor.asked_at + kSilence;
    if (is_overdue && !std::exchange(neighbor.is_silent, true)) {
      report({ranks_of(neighbor.node).front()}, kReportedStopped);
    }
  }
}

void ControlStar::send_lines(const Neighbor* asker) {
  const auto lines = changed_lines();
  for (const std::string& payload : payloads_of(lines)) {
    send_to_all(Type::kLines, payload);
  }
  if (lines.empty() && asker != nullptr && asker->link != nullptr) {
    asker->link->send(static_cast<std::uint16_t>(Type::kLines), {});
  }
}

std::vector<std::pair<int, LineCopy>> ControlStar::changed_lines() {
  const auto now = Clock::now();
  const bool look_who_is_stopped = now >= stopped_at_ + kStoppedInterval;
  if (look_who_is_stopped) {
    stopped_at_ = now;
  }
  std::vector<std::pair<int, LineCopy>> changed;
  for (const int rank : ranks_of(world_.node_of(world_.rank()))) {
    LineCopy copy = LineCopy::of(world_.line(rank));
    if (look_who_is_stopped) {
      stopped_[rank] = world_.peers().is_stopped(rank);
    }
    copy.is_stopped = stopped_[rank];
    if (const auto sent = sent_.find(rank); sent == sent_.end() || sent->second != copy) {
      sent_[rank] = copy;
      changed.emplace_back(rank, copy);
    }
  }
  return changed;
}

// Of ranks of other nodes, to the ranks of this node and, from rank 0, to all nodes.
void ControlStar::report(const std::vector<int>& ranks, std::uint32_t what) {
  WireWriter out;
  for (const int rank : ranks) {
    world_.line(rank).reported.store(what, std::memory_order_release);
    out.number<std::int32_t>(rank);
    out.number(what);
  }
  sound_alarm_here();
  if (is_root()) {
    send_to_all(Type::kReports, out.take());
  }
}

void ControlStar::send_to_all(Type type, const std::string& payload, const Neighbor* but) {
  const bool can_wait = type == Type::kAsk || type == Type::kLines;
  const auto now = Clock::now();
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.link == nullptr || &neighbor == but) {
      continue;
    }
    if (can_wait && neighbor.asked_at && now > *neighbor.asked_at + kPatience) {
      neighbor.lacks_lines = true;
    } else {
      neighbor.link->send(static_cast<std::uint16_t>(type), payload);
    }
  }
}

// All that this rank knows and the neighbor does not have from its own node.
void ControlStar::send_all_lines(const Neighbor& neighbor) {
  Lines lines;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (world_.is_local(rank) || (is_root() && world_.node_of(rank) != neighbor.node)) {
      lines.emplace_back(rank, LineCopy::of(world_.line(rank)));
      lines.back().second.is_stopped = world_.peers().is_stopped(rank);
    }
  }
  for (const std::string& payload : payloads_of(lines)) {
    neighbor.link->send(static_cast<std::uint16_t>(Type::kLines), payload);
  }
}

void ControlStar::sound_alarm_here() {
  ++alarms_made_;
  world_.sound_alarm_here();
}

std::vector<int> ControlStar::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (world_.node_of(rank) == node) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace sennit
