// Rank 0's side of the rendezvous: one poll(2) loop over the listener and all connections.
#pragma once

#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <poll.h>

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

class RendezvousHost {
 public:
  explicit RendezvousHost(const JoinRequest& request);

  // Listens, gathers the ranks, hands out segment and pidfds, and waits until all have them. A
  // failure of one is reported to all, also, for some seconds, to those that come late.
  Result<Membership> run();

 private:
  using TimePoint = Deadline::Clock::time_point;

  enum class Phase {
    kGathering,  // the listener is open
    kHandingOut,
    kReleasing,  // "go" is on its way
    kFailing,
  };

  enum class GuestState {
    kSilent,  // connected; has not said a valid hello
    kJoined,
    kReady,
    kGone,
  };

  struct Outgoing {
    std::shared_ptr<const std::string> bytes;
    // Descriptors are looked up when the message is sent: those of the ranks [first, last) that
    // live in another process than the receiver, or the segment's.
    int first_rank = 0;
    int last_rank = 0;
    bool with_segment = false;
  };

  struct Guest {
    UniqueFd socket;
    ucred peer{};
    TimePoint hello_due;
    GuestState state = GuestState::kSilent;
    int rank = -1;
    Token process{};
    std::deque<Outgoing> outgoing;
  };

  struct Seat {
    bool taken = false;
    bool ready = false;
    pid_t pid = 0;  // by SO_PEERCRED
    Token process{};
    std::string host;
    UniqueFd pidfd;  // of rank 0 it is in the request
  };

  Status open_listener();
  void take_own_seat();
  void poll_once();
  [[nodiscard]] int poll_timeout_ms() const;
  void accept_guests();
  void accept_guest(UniqueFd socket);
  void drop_oldest_silent_guest();
  void drop_overdue_guests();

  void receive_from(Guest& guest);
  void on_silent_guest_message(Guest& guest, Received& received);
  [[nodiscard]] Status judge(const Hello& hello, const Guest& guest, const UniqueFd& pidfd) const;
  void refuse(Guest& guest, Status why);
  void on_member_message(Guest& guest, const Received& received);
  void on_member_lost(Guest& guest);

  void advance();
  void hand_out();
  Status queue_members_and_segment();
  void queue(Guest& guest, FrameType type, std::string payload);
  void queue_to_all(FrameType type, const std::string& payload);
  void send_queued(Guest& guest);
  [[nodiscard]] std::vector<int> descriptors_for(const Guest& guest, const Outgoing& message) const;

  void fail_all(Status failure);
  [[nodiscard]] Status timed_out() const;
  void warn_if_slow();
  [[nodiscard]] std::vector<int> missing_ranks() const;
  [[nodiscard]] bool all_sent() const;
  [[nodiscard]] bool finished() const;
  Membership make_membership();

  const JoinRequest& request_;
  const int size_;
  Listener listener_;
  Phase phase_ = Phase::kGathering;
  std::list<Guest> guests_;  // oldest first
  std::vector<Seat> seats_;  // by rank
  int heard_ = 0;            // ranks that have said hello, refused ones included
  bool sends_blocked_ = false;
  UniqueFd segment_file_;
  UniqueFd waker_;
  std::shared_ptr<SharedSegment> segment_;
  std::optional<Status> failure_;
  TimePoint farewell_until_;  // for ranks that have not answered
  TimePoint flush_until_;     // for ranks that have not read their failure
  PatienceTimer patience_;
};

}  // namespace sennit
