#include "world/rendezvous/rendezvous_guest.hpp"

#include "base/log.hpp"
#include "world/rendezvous/process.hpp"
#include "world/rendezvous/shared_segment.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

namespace sennit {
namespace {

using std::chrono::milliseconds;

constexpr auto kFirstRetry = milliseconds(1);
constexpr auto kLastRetry = milliseconds(20);
// How long a rank that has lost patience waits for rank 0 to say who is missing.
constexpr double kVerdictSeconds = 1.0;

// False when the time has passed first. A signal may end the wait early, as if there were
// something.
bool wait_readable(int socket, Deadline::Clock::time_point until) {
  pollfd watched{socket, POLLIN, 0};
  return poll(&watched, 1, Deadline::poll_ms(until)) != 0 || Deadline::Clock::now() < until;
}

}  // namespace

Result<Membership> RendezvousGuest::run() {
  Talk state = Talk::kLost;
  while (state == Talk::kLost) {
    SENNIT_RETURN_IF_ERROR(connect());
    Result<Talk> talked = talk();
    if (!talked.ok()) {
      socket_.reset();
      remove_what_is_left(request_.address);
      return talked.status();
    }
    state = *talked;
    if (state == Talk::kLost) {
      std::this_thread::sleep_for(kFirstRetry);
    }
  }
  Membership membership;
  membership.members = std::move(members_);
  membership.segment = std::move(segment_);
  membership.waker = std::move(waker_);
  return membership;
}

Status RendezvousGuest::connect() {
  auto pause = kFirstRetry;
  for (;;) {
    SENNIT_RETURN_IF_ERROR(request_.check_interruption());
    SENNIT_ASSIGN_OR_RETURN(socket_, try_connect(request_.address));
    if (socket_.valid()) {
      host_pid_ = peer_of(socket_.get()).pid;
      return {};
    }
    if (request_.deadline.passed()) {
      remove_what_is_left(request_.address);
      return host_not_found();
    }
    if (const double elapsed_s = request_.deadline.elapsed_s(); patience_.due(elapsed_s)) {
      SENNIT_WARN("comm",
                  "joining for {:.0f} s: nobody listens at {}; has rank 0 started?",
                  elapsed_s,
                  request_.address.text);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLastRetry);
  }
}

Result<RendezvousGuest::Talk> RendezvousGuest::talk() {
  Talk state = Talk::kGoesOn;
  if (Status said = say_hello(); !said.ok()) {
    return said;
  }
  while (state == Talk::kGoesOn) {
    if (wait_readable(socket_.get(), request_.next_check())) {
      SENNIT_ASSIGN_OR_RETURN(state, take_message());
    } else if (request_.deadline.passed()) {
      return await_verdict();
    } else if (segment_ == nullptr) {
      // A rank that has said it is ready leaves only when rank 0 says so: rank 0 may just have sent
      // the others that all are there.
      if (Status why = request_.check_interruption(); !why.ok()) {
        return give_up(std::move(why));
      }
    }
  }
  return state;
}

Status RendezvousGuest::say_hello() {
  const int pidfd = request_.own_pidfd.get();
  return send(FrameType::kHello, encode_hello(request_.hello), std::span(&pidfd, 1));
}

// A closed connection is not reported here: reading from it says more.
Status RendezvousGuest::send(FrameType type, std::string payload, std::span<const int> fds) {
  const std::string bytes =
      encode_frame(request_.key, {type, kProtocolVersion, std::move(payload)});
  for (;;) {
    const SendState state = send_message(socket_.get(), bytes, fds);
    if (state == SendState::kSent || state == SendState::kClosed) {
      return {};
    }
    if (request_.deadline.passed()) {
      return host_silent();
    }
    std::this_thread::sleep_for(kFirstRetry);
  }
}

Result<RendezvousGuest::Talk> RendezvousGuest::take_message() {
  Received received =
      receive_message(socket_.get(), kFrameHeaderBytes + kMaxHostPayload, kMaxFdsPerFrame);
  switch (received.state) {
    case ReceiveState::kNothing:
      return Talk::kGoesOn;
    case ReceiveState::kClosed:
      if (accepted_) {
        return host_lost();
      }
      return Talk::kLost;
    case ReceiveState::kNoDescriptors:
      return give_up(descriptor_shortage(request_.hello.size));
    case ReceiveState::kMalformed:
      return give_up(nonsense("a message that is too long"));
    case ReceiveState::kMessage:
      break;
  }
  const std::optional<Frame> frame = decode_frame(request_.key, received.bytes);
  if (!frame) {
    return give_up(nonsense("something that is no message of this job"));
  }
  return on_frame(*frame, std::move(received.fds));
}

Result<RendezvousGuest::Talk> RendezvousGuest::on_frame(const Frame& frame,
                                                        std::vector<UniqueFd> fds) {
  // Before the protocol is looked at: this is how another version says that it is another one.
  if (frame.type == FrameType::kFailure) {
    const std::optional<Status> failure = decode_failure(frame.payload);
    return failure ? *failure : nonsense("a failure that cannot be read");
  }
  if (frame.protocol != kProtocolVersion) {
    return give_up(nonsense("a message of another protocol version"));
  }
  if (frame.type == FrameType::kAccepted && !accepted_) {
    accepted_ = true;
    return Talk::kGoesOn;
  }
  if (frame.type == FrameType::kMembers && accepted_) {
    if (const auto batch = decode_members(frame.payload); batch) {
      Status status = take_members(*batch, std::move(fds));
      return status.ok() ? Result(Talk::kGoesOn) : give_up(std::move(status));
    }
  }
  const bool all_told = members_.size() == static_cast<std::size_t>(request_.hello.size);
  if (frame.type == FrameType::kSegment && all_told && segment_ == nullptr) {
    if (const auto notice = decode_segment(frame.payload); notice) {
      Status status = take_segment(*notice, std::move(fds));
      return status.ok() ? Result(Talk::kGoesOn) : give_up(std::move(status));
    }
  }
  if (frame.type == FrameType::kGo && segment_ != nullptr) {
    return Talk::kDone;
  }
  return give_up(nonsense("a message out of its place"));
}

Status RendezvousGuest::take_members(const MemberBatch& batch, std::vector<UniqueFd> fds) {
  const auto size = static_cast<std::size_t>(request_.hello.size);
  if (static_cast<std::size_t>(batch.first_rank) != members_.size() ||
      batch.members.size() > size - members_.size()) {
    return nonsense("ranks in a wrong order");
  }
  auto next_fd = fds.begin();
  for (const MemberRecord& record : batch.members) {
    Member member;
    member.host = record.host;
    member.same_process = record.process == request_.hello.process;
    if (member.same_process) {
      member.pid = getpid();
    } else if (next_fd != fds.end() && is_pidfd(next_fd->get())) {
      member.process = ProcessHandle::share(record.process, std::move(*next_fd++));
      member.pid = member.process.pid();
    } else {
      return nonsense("a rank without the handle of its process");
    }
    members_.push_back(std::move(member));
  }
  return next_fd == fds.end() ? Status() : nonsense("more process handles than ranks");
}

Status RendezvousGuest::take_segment(const SegmentNotice& notice, std::vector<UniqueFd> fds) {
  const std::size_t expected = request_.wants_waker ? 2 : 1;
  if (fds.size() != expected || notice.bytes != request_.hello.segment_bytes) {
    return nonsense("a shared segment that was not agreed on");
  }
  SENNIT_ASSIGN_OR_RETURN(segment_, map_segment(notice.id, fds.front().get(), notice.bytes));
  if (request_.wants_waker) {
    waker_ = std::move(fds[1]);
  }
  return send(FrameType::kReady, {});
}

Status RendezvousGuest::give_up(Status reason) {
  // Best effort: if it does not arrive, rank 0 sees the connection close.
  const std::string bytes =
      encode_frame(request_.key, {FrameType::kFailure, kProtocolVersion, encode_failure(reason)});
  static_cast<void>(send_message(socket_.get(), bytes, {}));
  return reason;
}

// This rank's time is over, perhaps before rank 0's, which knows who is missing.
Result<RendezvousGuest::Talk> RendezvousGuest::await_verdict() {
  const Status mine = give_up(host_silent());
  const Deadline verdict(kVerdictSeconds);
  Talk state = Talk::kGoesOn;
  while (state == Talk::kGoesOn && wait_readable(socket_.get(), verdict.end())) {
    SENNIT_ASSIGN_OR_RETURN(state, take_message());
  }
  if (state == Talk::kDone) {
    return state;
  }
  return mine;
}

Status RendezvousGuest::host_not_found() const {
  return join_failure(
      Code::kJoinTimeout,
      "rank 0 did not join",
      {0},
      fmt::format("nobody listens at {} on {}", request_.address.text, request_.hello.host),
      "look at the output of rank 0; all ranks need the same key, and one network namespace or a "
      "common "
      "SENNIT_SOCKET_DIR");
}

Status RendezvousGuest::host_lost() const {
  return join_failure(Code::kRankFailed,
                      fmt::format("rank 0 (pid {}) died while joining", host_pid_),
                      {0},
                      "it closed the connection before all ranks had joined",
                      "look at the output of rank 0, then start the job again");
}

Status RendezvousGuest::host_silent() const {
  return join_failure(
      Code::kJoinTimeout,
      fmt::format("rank 0 (pid {}) does not answer", host_pid_),
      {0},
      fmt::format("it listens at {}, but has said neither who is missing nor that all are "
                  "here",
                  request_.address.text),
      "see whether that process is stopped or belongs to another job of the same key");
}

Status RendezvousGuest::nonsense(std::string_view what) const {
  return join_failure(Code::kMismatch,
                      fmt::format("rank 0 (pid {}) sent {}", host_pid_, what),
                      {0},
                      fmt::format("at {}", request_.address.text),
                      "run all ranks with the same installation and the same key");
}

}  // namespace sennit
