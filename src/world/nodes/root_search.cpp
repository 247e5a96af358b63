#include "world/nodes/root_search.hpp"

#include "base/log.hpp"
#include "world/rendezvous/join_request.hpp"

#include <fmt/ranges.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace sennit {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxAddresses = 8;
constexpr auto kFirstPause = milliseconds(5);
constexpr auto kLastPause = milliseconds(200);
constexpr auto kResolveAgain = milliseconds(500);

}  // namespace

Result<std::unique_ptr<NodeLink>> RootSearch::run() {
  while (true) {
    SENNIT_RETURN_IF_ERROR(request_.check_interruption());
    if (request_.deadline.passed()) {
      return not_found();
    }
    warn_if_slow();
    if (attempts_.empty()) {
      SENNIT_RETURN_IF_ERROR(find_addresses());
    }
    const auto now = Deadline::Clock::now();
    for (Attempt& attempt : attempts_) {
      const bool is_running = attempt.connecting.valid() || attempt.link != nullptr;
      if (!is_running && attempt.next_try <= now) {
        begin(attempt);
      } else if (is_running && attempt.give_up <= now) {
        end(attempt);
      }
    }
    poll_once(request_.next_check());
    for (Attempt& attempt : attempts_) {
      if (attempt.link != nullptr && attempt.link->state() == NodeLink::State::kOpen) {
        return std::move(attempt.link);
      }
    }
  }
}

// A name may come to be known later than the ranks start.
Status RootSearch::find_addresses() {
  std::vector<TcpAddress> addresses;
  for (const std::string& host : request_.root.hosts) {
    const auto found = resolve(host);
    if (found.ok()) {
      addresses.insert(addresses.end(), found->begin(), found->end());
    } else {
      unresolved_ = found.status();
    }
  }
  if (addresses.empty()) {
    poll(nullptr,
         0,
         Deadline::poll_ms(
             std::min<TimePoint>(Deadline::Clock::now() + kResolveAgain, request_.next_check())));
  }
  for (const TcpAddress& address :
       std::span(addresses).first(std::min(addresses.size(), kMaxAddresses))) {
    for (const std::uint16_t port : request_.root.ports) {
      Attempt attempt;
      attempt.address = address.with_port(port);
      attempt.pause = kFirstPause;
      attempts_.push_back(std::move(attempt));
    }
  }
  return {};
}

void RootSearch::begin(Attempt& attempt) const {
  attempt.connecting = begin_connect(attempt.address);
  attempt.give_up = Deadline::Clock::now() + kProvingTime;
  if (!attempt.connecting.valid()) {
    end(attempt);
  }
}

void RootSearch::advance(Attempt& attempt) const {
  if (attempt.connecting.valid()) {
    if (!is_connected(attempt.connecting.get())) {
      end(attempt);
      return;
    }
    watch_connection(attempt.connecting.get(), kLostSeconds);
    attempt.link = std::make_unique<NodeLink>(
        std::move(attempt.connecting),
        SecureStream::guest(request_.key, request_.hello.hello.rank, random_nonce()));
  }
  const NodeLink::State state = attempt.link->pump();
  if (state == NodeLink::State::kClosed || state == NodeLink::State::kLost) {
    end(attempt);
  }
}

void RootSearch::end(Attempt& attempt) {
  attempt.connecting.reset();
  attempt.link.reset();
  attempt.next_try = Deadline::Clock::now() + attempt.pause;
  attempt.pause = std::min<Deadline::Clock::duration>(2 * attempt.pause, kLastPause);
}

void RootSearch::poll_once(TimePoint until) {
  std::vector<pollfd> watched;
  for (const Attempt& attempt : attempts_) {
    const bool is_connecting = attempt.connecting.valid();
    if (!is_connecting && attempt.link == nullptr) {
      watched.push_back({-1, 0, 0});
      until = std::min(until, attempt.next_try);
      continue;
    }
    until = std::min(until, attempt.give_up);
    watched.push_back({is_connecting ? attempt.connecting.get() : attempt.link->socket(),
                       is_connecting ? short{POLLOUT} : attempt.link->events(),
                       0});
  }
  if (poll(watched.data(), watched.size(), Deadline::poll_ms(until)) <= 0) {
    return;
  }
  for (std::size_t index = 0; index < attempts_.size(); ++index) {
    if (watched[index].revents != 0) {
      has_met_strangers_ = has_met_strangers_ || attempts_[index].link != nullptr;
      advance(attempts_[index]);
    }
  }
}

Status RootSearch::not_found() const {
  const std::string ports = fmt::format("{}", fmt::join(request_.root.ports, ", "));
  const std::string hosts = fmt::format("{}", fmt::join(request_.root.hosts, ", "));
  return join_failure(
      Code::kJoinTimeout,
      "rank 0 did not join",
      {0},
      attempts_.empty() ? unresolved_.message()
      : has_met_strangers_
          ? fmt::format(
                "who answers on {} at the ports {} does not have this job's key", hosts, ports)
          : fmt::format("nobody listens on {} at the ports {}", hosts, ports),
      "look at the output of rank 0; all ranks need the same key and SENNIT_ROOT, and a firewall "
      "must let these ports through (SENNIT_PORT_RANGE)");
}

void RootSearch::warn_if_slow() {
  if (const double elapsed_s = request_.deadline.elapsed_s(); patience_.due(elapsed_s)) {
    SENNIT_WARN("comm",
                "joining for {:.0f} s: rank 0 is not found on {} at the ports {}; has it started?",
                elapsed_s,
                fmt::join(request_.root.hosts, ", "),
                fmt::join(request_.root.ports, ", "));
  }
}

}  // namespace sennit
