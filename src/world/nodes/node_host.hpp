// Rank 0's side of a join over nodes: one poll(2) loop over the listener and all connections.
#pragma once

#include "world/nodes/node_link.hpp"
#include "world/nodes/node_links.hpp"
#include "world/nodes/node_request.hpp"
#include "world/nodes/root_listener.hpp"
#include "world/nodes/tcp_socket.hpp"

#include <poll.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

class NodeHost {
 public:
  explicit NodeHost(const NodeRequest& request);

  // Listens, and gathers the ranks; then each knows which ranks are on which node.
  Result<std::vector<Place>> gather();
  // While this rank meets those of its own node: why that is in vain, or ok.
  Status check();
  // How that has ended. Waits for all other nodes, and gives everybody's rail addresses.
  Result<std::vector<std::string>> finish(const Status& met, std::string rail_address);
  // To the lowest ranks of the other nodes; once, after finish().
  std::shared_ptr<NodeLinks> take_links();

 private:
  using TimePoint = Deadline::Clock::time_point;

  enum class Phase {
    kGathering,  // the listener is open
    kMeeting,    // on their nodes
    kFailing,
  };

  enum class GuestState {
    kSilent,  // connected; has not said a valid hello
    kJoined,
    kGone,
  };

  struct Guest {
    NodeLink link;
    TcpAddress address;
    TimePoint since;
    GuestState state = GuestState::kSilent;
    int rank = -1;
  };

  struct Seat {
    bool taken = false;
    bool ready = false;
    NodeHello hello;
    std::string address;
    std::string rail_address;
  };

  void poll_once(TimePoint until);
  [[nodiscard]] TimePoint wake_time(TimePoint until) const;
  void accept_guests(int listener);
  bool make_room();
  void drop_overdue_guests();
  void pump(Guest& guest);
  void on_silent_guest_message(Guest& guest, const StreamMessage& message);
  [[nodiscard]] Status judge(const NodeHello& hello, const Guest& guest) const;
  void refuse(Guest& guest, Status why);
  void on_member_message(const Guest& guest, const StreamMessage& message);
  void on_lost(Guest& guest);
  // Until nobody is missing, or it has failed.
  Status wait_for_all();
  void send_places();
  void send_rails();
  void send_to_all(NodeMessageType type, const std::string& payload);
  void fail_all(Status failure);
  // Stays to send the failure to those that come late; gives it back.
  Status leave();
  [[nodiscard]] bool all_sent() const;
  [[nodiscard]] Status timed_out() const;
  void warn_if_slow();
  [[nodiscard]] std::vector<int> missing_ranks() const;
  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }

  const NodeRequest& request_;
  const int size_;
  RootListener listener_;
  Phase phase_ = Phase::kGathering;
  std::list<Guest> guests_;  // oldest first
  std::vector<Seat> seats_;  // by rank
  std::vector<Place> places_;
  int answered_ = 0;  // ranks that have said hello, refused ones included
  bool is_full_ = false;
  std::optional<Status> failure_;
  TimePoint farewell_until_;  // for ranks that have not said hello
  TimePoint flush_until_;     // for ranks that have not read their failure
  PatienceTimer patience_;
};

}  // namespace sennit
