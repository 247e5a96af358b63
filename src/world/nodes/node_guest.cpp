#include "world/nodes/node_guest.hpp"

#include "world/nodes/root_search.hpp"
#include "world/nodes/tcp_socket.hpp"
#include "world/rendezvous/join_request.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace sennit {
namespace {

constexpr auto kRetry = std::chrono::milliseconds(5);
// How long a rank that has lost patience waits for rank 0 to say who is missing.
constexpr double kVerdictSeconds = 1.0;

std::uint16_t number_of(NodeMessageType type) { return static_cast<std::uint16_t>(type); }

}  // namespace

template <typename Predicate>
Status NodeGuest::wait_for(const Predicate& is_there) {
  while (!is_there()) {
    SENNIT_RETURN_IF_ERROR(pump(request_.next_check()));
    if (is_there()) {
      break;
    }
    if (request_.deadline.passed()) {
      return await_verdict(host_silent());
    }
    if (Status why = request_.check_interruption(); !why.ok()) {
      return give_up(std::move(why));
    }
  }
  return {};
}

Result<std::vector<Place>> NodeGuest::introduce() {
  do {
    is_dropped_ = false;
    SENNIT_ASSIGN_OR_RETURN(link_, RootSearch(request_).run());
    root_text_ = peer_address(link_->socket()).text();
    if (link_->stream().peer_protocol() != kNodeProtocol) {
      return join_failure(Code::kMismatch,
                          "rank 0 uses another version of Sennit",
                          {0},
                          fmt::format("protocol version between nodes: {} on rank 0, {} here",
                                      link_->stream().peer_protocol(),
                                      kNodeProtocol),
                          "run all ranks with the same installation");
    }
    link_->send(number_of(NodeMessageType::kHello), encode_node_hello(request_.hello));
    SENNIT_RETURN_IF_ERROR(wait_for([this] { return is_dropped_ || places_.size() == size(); }));
    if (is_dropped_) {
      std::this_thread::sleep_for(kRetry);
    }
  } while (is_dropped_);
  return places_;
}

Status NodeGuest::check() {
  SENNIT_RETURN_IF_ERROR(pump(Deadline::Clock::now()));
  return request_.check_interruption();
}

Result<std::vector<std::string>> NodeGuest::finish(const Status& met,
                                                   const std::string& rail_address) {
  if (!met.ok()) {
    SENNIT_RETURN_IF_ERROR(await_verdict(met));
    return met;
  }
  link_->send(number_of(NodeMessageType::kReady), rail_address);
  // A rank that has said it is ready leaves only when rank 0 says so: rank 0 may just have said so
  // to the others that all are there.
  while (!is_gone_) {
    SENNIT_RETURN_IF_ERROR(pump(request_.deadline.end()));
    if (!is_gone_ && request_.deadline.passed()) {
      SENNIT_RETURN_IF_ERROR(await_verdict(host_silent()));
    }
  }
  return rails_;
}

std::shared_ptr<NodeLinks> NodeGuest::take_links() {
  auto links = std::make_shared<NodeLinks>();
  links->to_node.push_back(std::move(link_));
  return links;
}

// One round, which may wait.
Status NodeGuest::pump(Deadline::Clock::time_point until) {
  if (!failure_) {
    if (Status status = pump_link(until); !status.ok()) {
      failure_ = std::move(status);
    }
  }
  return failure_ ? *failure_ : Status();
}

Status NodeGuest::pump_link(Deadline::Clock::time_point until) {
  pollfd watched{link_->socket(), link_->events(), 0};
  poll(&watched, 1, Deadline::poll_ms(until));
  link_->pump();
  while (!is_gone_) {
    const std::optional<StreamMessage> message = link_->next();
    if (!message) {
      break;
    }
    SENNIT_RETURN_IF_ERROR(on_message(*message));
  }
  const NodeLink::State state = link_->state();
  if (is_gone_ || state == NodeLink::State::kOpen) {
    return {};
  }
  if (!is_accepted_ && state == NodeLink::State::kClosed) {
    is_dropped_ = true;
    return {};
  }
  return host_lost();
}

Status NodeGuest::on_message(const StreamMessage& message) {
  switch (static_cast<NodeMessageType>(message.type)) {
    case NodeMessageType::kFailure: {
      const std::optional<Status> failure = decode_failure(message.payload);
      return failure ? *failure : nonsense("a failure that cannot be read");
    }
    case NodeMessageType::kAccepted:
      is_accepted_ = true;
      return {};
    case NodeMessageType::kPlaces:
      return take_places(message);
    case NodeMessageType::kRails:
      return take_rails(message);
    case NodeMessageType::kGo:
      is_gone_ = places_.size() == size() && rails_.size() == size();
      return is_gone_ ? Status() : give_up(nonsense("\"go\" before its time"));
    case NodeMessageType::kHello:
    case NodeMessageType::kReady:
      break;
  }
  return give_up(nonsense("a message out of its place"));
}

Status NodeGuest::take_places(const StreamMessage& message) {
  std::optional<PlaceBatch> batch = decode_places(message.payload);
  if (!batch || static_cast<std::size_t>(batch->first_rank) != places_.size() ||
      batch->places.size() > size() - places_.size()) {
    return give_up(nonsense("nodes that cannot be"));
  }
  std::ranges::move(batch->places, std::back_inserter(places_));
  return {};
}

Status NodeGuest::take_rails(const StreamMessage& message) {
  std::optional<RailBatch> batch = decode_rails(message.payload);
  if (!batch || static_cast<std::size_t>(batch->first_rank) != rails_.size() ||
      batch->addresses.size() > size() - rails_.size()) {
    return give_up(nonsense("rail addresses that cannot be"));
  }
  std::ranges::move(batch->addresses, std::back_inserter(rails_));
  return {};
}

Status NodeGuest::give_up(Status reason) {
  // Best effort: if it does not arrive, rank 0 sees the connection close.
  link_->send(number_of(NodeMessageType::kFailure), encode_failure(reason));
  return reason;
}

// This rank's time may be over before rank 0's, which knows who is missing.
Status NodeGuest::await_verdict(Status reason) {
  if (failure_) {
    return *failure_;
  }
  const Status mine = give_up(std::move(reason));
  const Deadline verdict(kVerdictSeconds);
  while (!is_gone_ && !is_dropped_ && !verdict.passed()) {
    SENNIT_RETURN_IF_ERROR(pump(verdict.end()));
  }
  return is_gone_ ? Status() : mine;
}

Status NodeGuest::host_lost() const {
  const bool is_lost = link_->state() == NodeLink::State::kLost;
  return join_failure(Code::kRankFailed,
                      fmt::format("rank 0 {} while joining", is_lost ? "was lost" : "died"),
                      {0},
                      is_lost ? fmt::format("its machine no longer answers at {}", root_text_)
                              : fmt::format("it closed the connection from {} before all ranks had "
                                            "joined",
                                            root_text_),
                      "look at the output of rank 0, then start the job again");
}

Status NodeGuest::host_silent() const {
  return join_failure(Code::kJoinTimeout,
                      "rank 0 does not answer",
                      {0},
                      fmt::format("it listens at {}, but has said neither who is missing nor that "
                                  "all are here",
                                  root_text_),
                      "see whether that process is stopped");
}

Status NodeGuest::nonsense(std::string_view what) const {
  return join_failure(Code::kMismatch,
                      fmt::format("rank 0 sent {}", what),
                      {0},
                      fmt::format("at {}", root_text_),
                      "run all ranks with the same installation and the same key");
}

}  // namespace sennit
