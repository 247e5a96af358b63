// RootSearch: how a rank finds rank 0 among its hosts and ports. All are tried at once, since a
// port may belong to anybody and be mute.
#pragma once

#include "world/nodes/node_link.hpp"
#include "world/nodes/node_request.hpp"
#include "world/nodes/tcp_socket.hpp"

#include <memory>
#include <string>
#include <vector>

namespace sennit {

class RootSearch {
 public:
  explicit RootSearch(const NodeRequest& request) : request_(request) {}

  // A connection to rank 0, both ends of which have proved that they are of the job.
  Result<std::unique_ptr<NodeLink>> run();

 private:
  using TimePoint = Deadline::Clock::time_point;

  struct Attempt {
    TcpAddress address;
    TimePoint next_try{};
    Deadline::Clock::duration pause{};
    UniqueFd connecting;             // until it stands
    std::unique_ptr<NodeLink> link;  // from then on
    TimePoint give_up{};
  };

  Status find_addresses();
  void begin(Attempt& attempt) const;
  void advance(Attempt& attempt) const;
  static void end(Attempt& attempt);
  void poll_once(TimePoint until);
  [[nodiscard]] Status not_found() const;
  void warn_if_slow();

  const NodeRequest& request_;
  std::vector<Attempt> attempts_;
  bool has_met_strangers_ = false;
  Status unresolved_;
  PatienceTimer patience_;
};

}  // namespace sennit
