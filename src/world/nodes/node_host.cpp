#include "world/nodes/node_host.hpp"

#include "base/log.hpp"
#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/process.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>

namespace sennit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// As in the rendezvous of one node (rendezvous_host.cpp).
constexpr auto kFarewellTime = seconds(5);
constexpr auto kFlushTime = seconds(1);
// Connections that have not proved themselves. Beyond that many, the oldest gives way to the next
// once it has had time enough for a rank.
constexpr int kMaxSilentGuests = 64;
constexpr auto kTimeForRank = milliseconds(100);

}  // namespace

NodeHost::NodeHost(const NodeRequest& request)
    : request_(request),
      size_(request.hello.hello.size),
      seats_(static_cast<std::size_t>(request.hello.hello.size)) {
  seats_[0].taken = true;
  seats_[0].hello = request.hello;
}

Result<std::vector<Place>> NodeHost::gather() {
  SENNIT_RETURN_IF_ERROR(listener_.open(request_));
  SENNIT_RETURN_IF_ERROR(wait_for_all());
  // Before anybody can return from this join and begin another with the same key.
  listener_.close();
  std::erase_if(guests_, [](const Guest& guest) { return guest.state != GuestState::kJoined; });
  phase_ = Phase::kMeeting;
  send_places();
  return places_;
}

Status NodeHost::check() {
  poll_once(Deadline::Clock::now());
  if (failure_) {
    return *failure_;
  }
  return request_.check_interruption();
}

Result<std::vector<std::string>> NodeHost::finish(const Status& met, std::string rail_address) {
  if (!met.ok()) {
    fail_all(met);
  }
  seats_[0].ready = true;
  seats_[0].rail_address = std::move(rail_address);
  SENNIT_RETURN_IF_ERROR(wait_for_all());
  send_rails();
  send_to_all(NodeMessageType::kGo, {});
  for (Guest& guest : guests_) {
    guest.link.flush(std::max(request_.deadline.end(), Deadline::Clock::now() + kFlushTime));
  }
  std::vector<std::string> rails;
  for (Seat& seat : seats_) {
    rails.push_back(std::move(seat.rail_address));
  }
  return rails;
}

std::shared_ptr<NodeLinks> NodeHost::take_links() {
  auto links = std::make_shared<NodeLinks>();
  std::vector<int> lowest;  // by node
  for (int rank = 0; rank < size_; ++rank) {
    const int node = places_[static_cast<std::size_t>(rank)].node;
    if (static_cast<std::size_t>(node) == lowest.size()) {
      lowest.push_back(rank);
    }
  }
  links->to_node.resize(lowest.size());
  for (Guest& guest : guests_) {
    const auto node = std::ranges::find(lowest, guest.rank);
    if (guest.state == GuestState::kJoined && node != lowest.end()) {
      links->to_node[static_cast<std::size_t>(node - lowest.begin())] =
          std::make_unique<NodeLink>(std::move(guest.link));
    }
  }
  guests_.clear();
  return links;
}

Status NodeHost::wait_for_all() {
  while (!failure_ && !missing_ranks().empty()) {
    poll_once(request_.next_check());
    warn_if_slow();
    if (request_.deadline.passed()) {
      fail_all(timed_out());
    } else if (Status why = request_.check_interruption(); !why.ok()) {
      fail_all(std::move(why));
    }
  }
  return failure_ ? leave() : Status();
}

void NodeHost::poll_once(TimePoint until) {
  std::vector<pollfd> watched;
  for (const UniqueFd& listener : listener_.sockets()) {
    watched.push_back({is_full_ ? -1 : listener.get(), POLLIN, 0});
  }
  for (const Guest& guest : guests_) {
    watched.push_back({guest.link.socket(), guest.link.events(), 0});
  }
  const int timeout_ms = Deadline::poll_ms(wake_time(until));
  if (poll(watched.data(), watched.size(), timeout_ms) < 0) {
    return;  // EINTR; the caller looks at the clock and comes back
  }
  auto events = watched.begin() + static_cast<std::ptrdiff_t>(listener_.sockets().size());
  for (Guest& guest : guests_) {
    if ((events++)->revents != 0) {
      pump(guest);
    }
  }
  drop_overdue_guests();
  std::erase_if(guests_, [](const Guest& guest) { return guest.state == GuestState::kGone; });
  is_full_ = false;
  for (const UniqueFd& listener : listener_.sockets()) {
    accept_guests(listener.get());
  }
}

NodeHost::TimePoint NodeHost::wake_time(TimePoint until) const {
  TimePoint wake = std::min(until, Deadline::Clock::now() + seconds(1));  // for the warnings
  for (const Guest& guest : guests_) {
    if (guest.state == GuestState::kSilent) {
      wake = std::min(wake, guest.since + (is_full_ ? milliseconds(kTimeForRank) : kProvingTime));
    }
  }
  return wake;
}

void NodeHost::accept_guests(int listener) {
  while (true) {
    if (!make_room()) {
      is_full_ = true;
      return;
    }
    UniqueFd socket = accept_tcp(listener);
    if (!socket.valid()) {
      if ((errno == EMFILE || errno == ENFILE) && phase_ != Phase::kFailing) {
        fail_all(descriptor_shortage(size_));
      }
      return;
    }
    watch_connection(socket.get(), kLostSeconds);
    const TcpAddress address = peer_address(socket.get());
    guests_.push_back(
        {NodeLink(std::move(socket), SecureStream::root(request_.key, random_nonce())),
         address,
         Deadline::Clock::now()});
  }
}

// For one more connection of which nothing is known.
bool NodeHost::make_room() {
  if (std::ranges::count(guests_, GuestState::kSilent, &Guest::state) < kMaxSilentGuests) {
    return true;
  }
  const auto oldest = std::ranges::find(guests_, GuestState::kSilent, &Guest::state);
  if (oldest->since + kTimeForRank > Deadline::Clock::now()) {
    return false;
  }
  guests_.erase(oldest);
  return true;
}

void NodeHost::drop_overdue_guests() {
  const auto now = Deadline::Clock::now();
  for (Guest& guest : guests_) {
    if (guest.state == GuestState::kSilent && guest.since + kProvingTime <= now) {
      guest.state = GuestState::kGone;
    }
  }
}

void NodeHost::pump(Guest& guest) {
  guest.link.pump();
  while (guest.state != GuestState::kGone) {
    const std::optional<StreamMessage> message = guest.link.next();
    if (!message) {
      break;
    }
    if (guest.state == GuestState::kSilent) {
      on_silent_guest_message(guest, *message);
    } else if (phase_ != Phase::kFailing) {
      on_member_message(guest, *message);
    }
  }
  const NodeLink::State state = guest.link.state();
  if (state == NodeLink::State::kClosed || state == NodeLink::State::kLost) {
    on_lost(guest);
  }
}

void NodeHost::on_silent_guest_message(Guest& guest, const StreamMessage& message) {
  guest.state = GuestState::kGone;  // unless all that follows holds
  if (guest.link.stream().peer_protocol() != kNodeProtocol) {
    refuse(guest,
           join_failure(Code::kMismatch,
                        fmt::format("rank {} uses another version of Sennit",
                                    guest.link.stream().guest_rank()),
                        {},
                        fmt::format("protocol version between nodes: {} on rank 0, {} there",
                                    kNodeProtocol,
                                    guest.link.stream().peer_protocol()),
                        "run all ranks with the same installation"));
    return;
  }
  const std::optional<NodeHello> hello =
      message.type == static_cast<std::uint16_t>(NodeMessageType::kHello)
          ? decode_node_hello(message.payload)
          : std::nullopt;
  if (!hello || hello->hello.rank != guest.link.stream().guest_rank()) {
    return;
  }
  guest.rank = hello->hello.rank;
  Status verdict = phase_ == Phase::kFailing ? *failure_ : judge(*hello, guest);
  if (!verdict.ok()) {
    refuse(guest, std::move(verdict));
    return;
  }
  guest.state = GuestState::kJoined;
  ++answered_;
  seat(guest.rank) = {true, false, *hello, guest.address.host(), {}};
  guest.link.send(static_cast<std::uint16_t>(NodeMessageType::kAccepted), {});
}

Status NodeHost::judge(const NodeHello& hello, const Guest& guest) const {
  // First: only when the sizes agree has the rank a seat.
  SENNIT_RETURN_IF_ERROR(check_agreement(request_.hello.hello, hello.hello, hello.pid));
  const Seat& seat = seats_[static_cast<std::size_t>(hello.hello.rank)];
  if (seat.taken) {
    return join_failure(
        Code::kInvalidArgument,
        fmt::format("rank {} joined twice", hello.hello.rank),
        {hello.hello.rank},
        fmt::format("{} pid {} and {} pid {} ({}) both say they are it",
                    seat.hello.hello.host,
                    seat.hello.pid,
                    hello.hello.host,
                    hello.pid,
                    guest.address.host()),
        "give each process a rank of its own, and each job a key of its own (SENNIT_KEY)");
  }
  return {};
}

// Counts the guest among those that have said hello, and sends it and all others why the join
// fails.
void NodeHost::refuse(Guest& guest, Status why) {
  guest.state = GuestState::kJoined;
  ++answered_;
  if (phase_ == Phase::kFailing) {
    guest.link.send(static_cast<std::uint16_t>(NodeMessageType::kFailure),
                    encode_failure(*failure_));
  } else {
    fail_all(std::move(why));
  }
}

void NodeHost::on_member_message(const Guest& guest, const StreamMessage& message) {
  const auto type = static_cast<NodeMessageType>(message.type);
  if (type == NodeMessageType::kReady && phase_ == Phase::kMeeting &&
      message.payload.size() <= kMaxRailAddress) {
    seat(guest.rank).ready = true;
    seat(guest.rank).rail_address = message.payload;
    return;
  }
  if (type == NodeMessageType::kFailure) {
    if (const std::optional<Status> failure = decode_failure(message.payload); failure) {
      fail_all(failure->code() == Code::kJoinTimeout && phase_ == Phase::kGathering ? timed_out()
                                                                                    : *failure);
      return;
    }
  }
  fail_all(
      join_failure(Code::kInternalError,
                   fmt::format("rank {} sent what does not belong here", guest.rank),
                   {guest.rank},
                   fmt::format("{} bytes from {}", message.payload.size(), guest.address.text()),
                   "run all ranks with the same installation"));
}

void NodeHost::on_lost(Guest& guest) {
  const bool was_joined = guest.state == GuestState::kJoined;
  const bool is_lost = guest.link.state() == NodeLink::State::kLost;
  guest.state = GuestState::kGone;
  if (!was_joined || phase_ == Phase::kFailing) {
    return;
  }
  const NodeHello& hello = seat(guest.rank).hello;
  fail_all(join_failure(
      Code::kRankFailed,
      fmt::format("rank {} ({} pid {}) {} while joining",
                  guest.rank,
                  hello.hello.host,
                  hello.pid,
                  is_lost ? "was lost" : "died"),
      {guest.rank},
      is_lost ? fmt::format("its machine no longer answers at {}", guest.address.text())
              : "it closed its connection before all ranks had joined",
      "look at the output of that rank, then start the job again"));
}

void NodeHost::send_places() {
  using Numbers = std::map<std::string, int>;
  Numbers nodes;
  Numbers machines;
  const auto number_of = [](const std::string& name, Numbers& known) {
    return known.emplace(name, static_cast<int>(known.size())).first->second;
  };
  for (const Seat& seat : seats_) {
    places_.push_back({.node = number_of(seat.hello.node, nodes),
                       .machine = number_of(seat.hello.machine, machines),
                       .pid = seat.hello.pid,
                       .host = seat.hello.hello.host,
                       .address = seat.address});
  }
  for (int first = 0; first < size_; first += kPlacesAFrame) {
    const int last = std::min(size_, first + kPlacesAFrame);
    send_to_all(NodeMessageType::kPlaces,
                encode_places({first, {places_.begin() + first, places_.begin() + last}}));
  }
}

void NodeHost::send_rails() {
  for (int first = 0; first < size_; first += kRailsAFrame) {
    RailBatch batch{first, {}};
    for (int rank = first; rank < std::min(size_, first + kRailsAFrame); ++rank) {
      batch.addresses.push_back(seat(rank).rail_address);
    }
    send_to_all(NodeMessageType::kRails, encode_rails(batch));
  }
}

void NodeHost::send_to_all(NodeMessageType type, const std::string& payload) {
  for (Guest& guest : guests_) {
    if (guest.state == GuestState::kJoined) {
      guest.link.send(static_cast<std::uint16_t>(type), payload);
    }
  }
}

void NodeHost::fail_all(Status failure) {
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
  send_to_all(NodeMessageType::kFailure, encode_failure(*failure_));
}

Status NodeHost::leave() {
  const auto is_done = [this] {
    const auto now = Deadline::Clock::now();
    return all_sent() ? answered_ >= size_ - 1 || now >= farewell_until_ : now >= flush_until_;
  };
  while (!is_done()) {
    poll_once(all_sent() ? farewell_until_ : flush_until_);
  }
  return *failure_;
}

bool NodeHost::all_sent() const {
  return std::ranges::all_of(guests_, [](const Guest& guest) {
    return guest.state != GuestState::kJoined || !guest.link.has_output();
  });
}

Status NodeHost::timed_out() const {
  return ranks_missing(
      missing_ranks(),
      size_,
      phase_ == Phase::kGathering,
      fmt::format("{} on {}", listener_.text(), request_.hello.hello.host),
      "look at the output of the missing ranks; all ranks need the same key and size, and must "
      "reach that address");
}

void NodeHost::warn_if_slow() {
  const double elapsed_s = request_.deadline.elapsed_s();
  if (phase_ != Phase::kFailing && patience_.due(elapsed_s)) {
    const std::vector<int> missing = missing_ranks();
    SENNIT_WARN("comm",
                "joining for {:.0f} s: {} of {} ranks are here, {} missing (rank 0 listens at {})",
                elapsed_s,
                static_cast<std::size_t>(size_) - missing.size(),
                size_,
                rank_list(missing),
                listener_.text());
  }
}

// Those that have not got to the end of the phase.
std::vector<int> NodeHost::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    const Seat& seat = seats_[static_cast<std::size_t>(rank)];
    if (phase_ == Phase::kMeeting ? !seat.ready : !seat.taken) {
      missing.push_back(rank);
    }
  }
  return missing;
}

}  // namespace sennit
