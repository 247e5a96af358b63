// The side of all ranks but 0 of the rendezvous.
#pragma once

#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace sennit {

class RendezvousGuest {
 public:
  explicit RendezvousGuest(const JoinRequest& request) : request_(request) {}

  // Finds rank 0, says hello, and takes what rank 0 hands out, until it says "go".
  Result<Membership> run();

 private:
  enum class Talk {
    kGoesOn,
    kDone,  // "go" has come
    kLost,  // the connection closed before rank 0 had counted this rank
  };

  Status connect();
  Result<Talk> talk();
  Status say_hello();
  Result<Talk> take_message();
  Result<Talk> on_frame(const Frame& frame, std::vector<UniqueFd> fds);
  Status take_members(const MemberBatch& batch, std::vector<UniqueFd> fds);
  Status take_segment(const SegmentNotice& notice, std::vector<UniqueFd> fds);
  Status send(FrameType type, std::string payload, std::span<const int> fds = {});
  // Reports to rank 0 that this rank gives up; gives back what is to be reported.
  Status give_up(Status reason);
  Result<Talk> await_verdict();
  [[nodiscard]] Status host_not_found() const;
  [[nodiscard]] Status host_lost() const;
  [[nodiscard]] Status host_silent() const;
  [[nodiscard]] Status nonsense(std::string_view what) const;

  const JoinRequest& request_;
  UniqueFd socket_;
  pid_t host_pid_ = 0;
  bool accepted_ = false;
  std::vector<Member> members_;  // those that rank 0 has sent so far
  std::shared_ptr<SharedSegment> segment_;
  UniqueFd waker_;
  PatienceTimer patience_;
};

}  // namespace sennit
