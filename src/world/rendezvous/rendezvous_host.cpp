#include "world/rendezvous/rendezvous_host.hpp"

#include "base/log.hpp"
#include "world/rendezvous/process.hpp"
#include "world/rendezvous/shared_segment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace sennit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kHelloTime = seconds(2);
// How long rank 0 stays to report a failure to ranks that have not connected yet. Ranks of one job
// start within some seconds of each other; without this the late ones would only see a time-out.
constexpr auto kFarewellTime = seconds(5);
// How long a failure may wait in the queue of a rank that does not read.
constexpr auto kFlushTime = seconds(1);
constexpr auto kListenRetry = milliseconds(20);
constexpr auto kBlockedSendRetry = milliseconds(1);
// Beyond this the oldest connection that has said nothing gives way to the newest.
constexpr int kMaxSilentGuests = 128;

}  // namespace

RendezvousHost::RendezvousHost(const JoinRequest& request)
    : request_(request),
      size_(request.hello.size),
      seats_(static_cast<std::size_t>(request.hello.size)) {}

Result<Membership> RendezvousHost::run() {
  take_own_seat();
  SENNIT_RETURN_IF_ERROR(open_listener());
  while (!finished()) {
    advance();
    poll_once();
    drop_overdue_guests();
    warn_if_slow();
    const bool waiting = phase_ == Phase::kGathering || phase_ == Phase::kHandingOut;
    if (waiting && request_.deadline.passed()) {
      fail_all(timed_out());
    } else if (Status why = request_.check_interruption(); waiting && !why.ok()) {
      fail_all(std::move(why));
    }
  }
  if (failure_) {
    return *failure_;
  }
  return make_membership();
}

void RendezvousHost::take_own_seat() {
  Seat& seat = seats_[0];
  seat.taken = seat.ready = true;
  seat.pid = getpid();
  seat.process = request_.hello.process;
  seat.host = request_.hello.host;
}

// A job that is just ending, or another one with the same key, may have the name: it is waited for.
Status RendezvousHost::open_listener() {
  while (true) {
    SENNIT_ASSIGN_OR_RETURN(ListenAttempt attempt, try_listen(request_.address));
    if (attempt.listener.valid()) {
      listener_ = std::move(attempt.listener);
      return {};
    }
    SENNIT_RETURN_IF_ERROR(request_.check_interruption());
    if (request_.deadline.passed()) {
      return join_failure(
          Code::kJoinTimeout,
          fmt::format("the rendezvous {} is in use", request_.address.text),
          {},
          attempt.holder > 0 ? fmt::format("pid {} holds it", attempt.holder)
                             : std::string("its holder does not answer"),
          "end that process if it is left over, or give this job another key (SENNIT_KEY)");
    }
    std::this_thread::sleep_for(kListenRetry);
  }
}

void RendezvousHost::poll_once() {
  std::vector<pollfd> watched;
  watched.push_back({listener_.get(), POLLIN, 0});  // poll ignores -1
  for (const Guest& guest : guests_) {
    const bool wants_to_send = !guest.outgoing.empty() && !sends_blocked_;
    watched.push_back(
        {guest.socket.get(), static_cast<short>(wants_to_send ? POLLIN | POLLOUT : POLLIN), 0});
  }
  const int ready = poll(watched.data(), watched.size(), poll_timeout_ms());
  sends_blocked_ = false;
  if (ready < 0) {
    return;  // EINTR; the caller looks at the clock and comes back
  }
  auto events = watched.begin() + 1;
  for (Guest& guest : guests_) {
    if ((events++)->revents != 0) {
      receive_from(guest);
    }
  }
  for (Guest& guest : guests_) {
    send_queued(guest);
  }
  std::erase_if(guests_, [](const Guest& guest) { return guest.state == GuestState::kGone; });
  if (watched.front().revents != 0) {
    accept_guests();
  }
}

int RendezvousHost::poll_timeout_ms() const {
  const auto now = Deadline::Clock::now();
  TimePoint wake = now + seconds(1);  // for the warnings of a long wait
  if (phase_ != Phase::kFailing) {
    wake = std::min(wake, request_.next_check());
  } else {
    wake = std::min(wake, all_sent() ? farewell_until_ : flush_until_);
  }
  for (const Guest& guest : guests_) {
    if (guest.state == GuestState::kSilent) {
      wake = std::min(wake, guest.hello_due);
    }
  }
  return Deadline::poll_ms(sends_blocked_ ? std::min(wake, now + kBlockedSendRetry) : wake);
}

void RendezvousHost::accept_guests() {
  // Bounded, so that a flood of connections cannot keep the loop from those it has.
  for (int count = 0; count < kMaxSilentGuests && listener_.valid(); ++count) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      accept_guest(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE) {
      const std::size_t before = guests_.size();
      drop_oldest_silent_guest();
      if (guests_.size() == before && phase_ != Phase::kFailing) {
        fail_all(descriptor_shortage(2 * size_));
      }
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void RendezvousHost::accept_guest(UniqueFd socket) {
  const ucred peer = peer_of(socket.get());
  if (peer.uid != geteuid()) {
    SENNIT_INFO("comm", "dropped a connection from pid {} of uid {}", peer.pid, peer.uid);
    return;
  }
  if (std::ranges::count(guests_, GuestState::kSilent, &Guest::state) >= kMaxSilentGuests) {
    drop_oldest_silent_guest();
  }
  Guest& guest = guests_.emplace_back();
  guest.socket = std::move(socket);
  guest.peer = peer;
  guest.hello_due = Deadline::Clock::now() + kHelloTime;
}

void RendezvousHost::drop_oldest_silent_guest() {
  const auto oldest = std::ranges::find(guests_, GuestState::kSilent, &Guest::state);
  if (oldest != guests_.end()) {
    guests_.erase(oldest);
  }
}

void RendezvousHost::drop_overdue_guests() {
  const auto now = Deadline::Clock::now();
  std::erase_if(guests_, [&](const Guest& guest) {
    return guest.state == GuestState::kSilent && guest.hello_due <= now;
  });
}

void RendezvousHost::receive_from(Guest& guest) {
  Received received =
      receive_message(guest.socket.get(), kFrameHeaderBytes + kMaxGuestPayload, /*max_fds=*/1);
  if (received.state == ReceiveState::kNothing) {
    return;
  }
  if (guest.state == GuestState::kSilent) {
    on_silent_guest_message(guest, received);
  } else if (received.state == ReceiveState::kClosed) {
    on_member_lost(guest);
  } else if (phase_ != Phase::kFailing) {
    on_member_message(guest, received);
  }
}

void RendezvousHost::on_silent_guest_message(Guest& guest, Received& received) {
  guest.state = GuestState::kGone;  // unless all that follows holds
  if (received.state == ReceiveState::kNoDescriptors) {
    fail_all(descriptor_shortage(2 * size_));
    return;
  }
  if (received.state != ReceiveState::kMessage) {
    return;
  }
  const std::optional<Frame> frame = decode_frame(request_.key, received.bytes);
  if (!frame || frame->type != FrameType::kHello) {
    return;
  }
  if (frame->protocol != kProtocolVersion) {
    refuse(guest, other_protocol(guest.peer.pid, frame->protocol));
    return;
  }
  const std::optional<Hello> hello = decode_hello(frame->payload);
  if (!hello || received.fds.size() != 1 || !is_pidfd(received.fds.front().get())) {
    return;
  }
  guest.rank = hello->rank;
  guest.process = hello->process;
  Status verdict =
      phase_ == Phase::kFailing ? *failure_ : judge(*hello, guest, received.fds.front());
  if (!verdict.ok()) {
    refuse(guest, std::move(verdict));
    return;
  }
  guest.state = GuestState::kJoined;
  ++heard_;
  seats_[static_cast<std::size_t>(hello->rank)] = {
      true, false, guest.peer.pid, hello->process, hello->host, std::move(received.fds.front())};
  queue(guest, FrameType::kAccepted, {});
}

// Counts the guest among those that have answered, and reports to it and all others why the join
// fails.
void RendezvousHost::refuse(Guest& guest, Status why) {
  guest.state = GuestState::kJoined;
  ++heard_;
  if (phase_ == Phase::kFailing) {
    queue(guest, FrameType::kFailure, encode_failure(*failure_));
  } else {
    fail_all(std::move(why));
  }
}

Status RendezvousHost::judge(const Hello& hello, const Guest& guest, const UniqueFd& pidfd) const {
  // First: only when the sizes agree has the rank a seat.
  SENNIT_RETURN_IF_ERROR(check_agreement(request_.hello, hello, guest.peer.pid));
  const Seat& seat = seats_[static_cast<std::size_t>(hello.rank)];
  if (seat.taken) {
    return join_failure(
        Code::kInvalidArgument,
        fmt::format("rank {} joined twice", hello.rank),
        {hello.rank},
        fmt::format("{} pid {} and {} pid {} both say they are it",
                    seat.host,
                    seat.pid,
                    hello.host,
                    guest.peer.pid),
        "give each process a rank of its own, and each job a key of its own (SENNIT_KEY)");
  }
  const pid_t seen = pid_behind(pidfd.get());
  if (seen != 0 && guest.peer.pid != 0 && seen != guest.peer.pid) {
    return join_failure(Code::kMismatch,
                        fmt::format("rank {} sent a handle of another process", hello.rank),
                        {hello.rank},
                        fmt::format("its pid is {}, the handle is of {}", guest.peer.pid, seen),
                        "do not fork while joining");
  }
  return {};
}

void RendezvousHost::on_member_message(Guest& guest, const Received& received) {
  const std::optional<Frame> frame = received.state == ReceiveState::kMessage
                                         ? decode_frame(request_.key, received.bytes)
                                         : std::nullopt;
  if (frame && frame->type == FrameType::kReady && phase_ == Phase::kHandingOut) {
    guest.state = GuestState::kReady;
    seats_[static_cast<std::size_t>(guest.rank)].ready = true;
    return;
  }
  if (frame && frame->type == FrameType::kFailure) {
    if (const std::optional<Status> failure = decode_failure(frame->payload); failure) {
      const bool tired = failure->code() == Code::kJoinTimeout;
      fail_all(tired ? timed_out() : failure->in(fmt::format("rank {}", guest.rank)));
      return;
    }
  }
  fail_all(join_failure(Code::kInternalError,
                        fmt::format("rank {} sent what does not belong here", guest.rank),
                        {guest.rank},
                        fmt::format("{} bytes from pid {}", received.bytes.size(), guest.peer.pid),
                        "run all ranks with the same installation"));
}

void RendezvousHost::on_member_lost(Guest& guest) {
  guest.state = GuestState::kGone;
  // Once "go" is out, its death is for those to notice who wait for it in a call.
  if (phase_ == Phase::kFailing || phase_ == Phase::kReleasing) {
    return;
  }
  const Seat& seat = seats_[static_cast<std::size_t>(guest.rank)];
  fail_all(join_failure(
      Code::kRankFailed,
      fmt::format("rank {} ({} pid {}) died while joining", guest.rank, seat.host, seat.pid),
      {guest.rank},
      "it closed its connection before all ranks had joined",
      "look at the output of that rank, then start the job again"));
}

void RendezvousHost::advance() {
  if (phase_ == Phase::kGathering && missing_ranks().empty()) {
    hand_out();
  } else if (phase_ == Phase::kHandingOut && missing_ranks().empty()) {
    phase_ = Phase::kReleasing;
    queue_to_all(FrameType::kGo, {});
  }
}

void RendezvousHost::hand_out() {
  // Before anybody can return from this join and begin another with the same key.
  listener_.reset();
  std::erase_if(guests_, [](const Guest& guest) { return guest.state == GuestState::kSilent; });
  phase_ = Phase::kHandingOut;
  if (const Status status = queue_members_and_segment(); !status.ok()) {
    fail_all(status.in("rank 0"));
  }
}

Status RendezvousHost::queue_members_and_segment() {
  const SegmentNotice notice{random_token(), request_.hello.segment_bytes};
  SENNIT_ASSIGN_OR_RETURN(segment_file_, create_segment_file(notice.bytes));
  SENNIT_ASSIGN_OR_RETURN(segment_, map_segment(notice.id, segment_file_.get(), notice.bytes));
  if (request_.wants_waker) {
    SENNIT_ASSIGN_OR_RETURN(waker_, create_waker());
  }

  std::vector<Outgoing> messages;
  for (int first = 0; first < size_; first += kMaxFdsPerFrame) {
    const int last = std::min(size_, first + kMaxFdsPerFrame);
    MemberBatch batch{first, {}};
    for (int rank = first; rank < last; ++rank) {
      const Seat& seat = seats_[static_cast<std::size_t>(rank)];
      batch.members.push_back({seat.process, seat.host});
    }
    const Frame frame{FrameType::kMembers, kProtocolVersion, encode_members(batch)};
    auto bytes = std::make_shared<const std::string>(encode_frame(request_.key, frame));
    messages.push_back({std::move(bytes), first, last, false});
  }
  const Frame frame{FrameType::kSegment, kProtocolVersion, encode_segment(notice)};
  auto bytes = std::make_shared<const std::string>(encode_frame(request_.key, frame));
  messages.push_back({std::move(bytes), 0, 0, true});
  for (Guest& guest : guests_) {
    guest.outgoing.insert(guest.outgoing.end(), messages.begin(), messages.end());
  }
  return {};
}

void RendezvousHost::queue(Guest& guest, FrameType type, std::string payload) {
  const Frame frame{type, kProtocolVersion, std::move(payload)};
  guest.outgoing.push_back(
      {std::make_shared<const std::string>(encode_frame(request_.key, frame)), 0, 0, false});
  send_queued(guest);
}

void RendezvousHost::queue_to_all(FrameType type, const std::string& payload) {
  for (Guest& guest : guests_) {
    if (guest.state == GuestState::kJoined || guest.state == GuestState::kReady) {
      queue(guest, type, payload);
    }
  }
}

void RendezvousHost::send_queued(Guest& guest) {
  while (!guest.outgoing.empty() && guest.state != GuestState::kGone) {
    const Outgoing& message = guest.outgoing.front();
    const SendState state =
        send_message(guest.socket.get(), *message.bytes, descriptors_for(guest, message));
    if (state == SendState::kBusy || state == SendState::kFdsInFlight) {
      sends_blocked_ = sends_blocked_ || state == SendState::kFdsInFlight;
      return;
    }
    if (state == SendState::kClosed) {
      // Reading gives the rest: what it said before it closed, then that it closed.
      guest.outgoing.clear();
      return;
    }
    guest.outgoing.pop_front();
  }
}

std::vector<int> RendezvousHost::descriptors_for(const Guest& guest,
                                                 const Outgoing& message) const {
  std::vector<int> fds;
  if (message.with_segment) {
    fds.push_back(segment_file_.get());
    if (waker_.valid()) {
      fds.push_back(waker_.get());
    }
  }
  for (int rank = message.first_rank; rank < message.last_rank; ++rank) {
    const Seat& seat = seats_[static_cast<std::size_t>(rank)];
    if (seat.process != guest.process) {
      fds.push_back(rank == 0 ? request_.own_pidfd.get() : seat.pidfd.get());
    }
  }
  return fds;
}

void RendezvousHost::fail_all(Status failure) {
  if (phase_ == Phase::kFailing) {
    return;
  }
  const auto now = Deadline::Clock::now();
  // Ranks that know when to give up need nobody to wait for them, and may never come. Of an abort
  // they cannot know.
  const bool is_known = request_.interruption.is_found_by_all && failure.code() != Code::kAborted;
  farewell_until_ = is_known ? now : std::min(now + kFarewellTime, request_.deadline.end());
  flush_until_ = std::max<TimePoint>(farewell_until_, now + kFlushTime);
  phase_ = Phase::kFailing;
  failure_ = std::move(failure);
  for (Guest& guest : guests_) {
    guest.outgoing.clear();
  }
  queue_to_all(FrameType::kFailure, encode_failure(*failure_));
}

Status RendezvousHost::timed_out() const {
  return ranks_missing(
      missing_ranks(),
      size_,
      phase_ == Phase::kGathering,
      fmt::format("{} on {}", request_.address.text, request_.hello.host),
      "look at the output of the missing ranks; all ranks need the same key and size, and this "
      "machine's network namespace or a common SENNIT_SOCKET_DIR");
}

void RendezvousHost::warn_if_slow() {
  const double elapsed_s = request_.deadline.elapsed_s();
  if (phase_ != Phase::kFailing && patience_.due(elapsed_s)) {
    const std::vector<int> missing = missing_ranks();
    SENNIT_WARN("comm",
                "joining for {:.0f} s: {} of {} ranks are here, {} missing",
                elapsed_s,
                static_cast<std::size_t>(size_) - missing.size(),
                size_,
                rank_list(missing));
  }
}

// Those that have not got to the end of the phase.
std::vector<int> RendezvousHost::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    const Seat& seat = seats_[static_cast<std::size_t>(rank)];
    if (phase_ == Phase::kGathering ? !seat.taken : !seat.ready) {
      missing.push_back(rank);
    }
  }
  return missing;
}

bool RendezvousHost::all_sent() const {
  return std::ranges::all_of(guests_, [](const auto& guest) { return guest.outgoing.empty(); });
}

bool RendezvousHost::finished() const {
  switch (phase_) {
    case Phase::kGathering:
    case Phase::kHandingOut:
      return false;
    case Phase::kReleasing:
      return all_sent() || request_.deadline.passed();
    case Phase::kFailing:
      return all_sent() ? heard_ >= size_ - 1 || Deadline::Clock::now() >= farewell_until_
                        : Deadline::Clock::now() >= flush_until_;
  }
  return false;
}

Membership RendezvousHost::make_membership() {
  Membership membership;
  membership.segment = std::move(segment_);
  membership.waker = std::move(waker_);
  for (Seat& seat : seats_) {
    Member member;
    member.same_process = seat.process == request_.hello.process;
    member.host = std::move(seat.host);
    if (member.same_process) {
      member.pid = getpid();
    } else {
      member.process = ProcessHandle::share(seat.process, std::move(seat.pidfd));
      member.pid = member.process.pid();
    }
    membership.members.push_back(std::move(member));
  }
  return membership;
}

}  // namespace sennit
