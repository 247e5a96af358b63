// RootListener: the sockets at which rank 0 waits for the ranks of a job.
#pragma once

#include "base/fd.hpp"
#include "world/nodes/node_request.hpp"
#include "world/nodes/tcp_socket.hpp"

#include <string>
#include <vector>

namespace sennit {

class RootListener {
 public:
  // At all addresses of the request's hosts that are this machine's, on the first port that is
  // free; waits for one until the join's deadline.
  Status open(const NodeRequest& request);
  void close() { sockets_.clear(); }

  [[nodiscard]] const std::vector<UniqueFd>& sockets() const { return sockets_; }
  [[nodiscard]] const std::string& text() const { return text_; }  // for messages

 private:
  bool listen_at(const std::vector<TcpAddress>& addresses, std::uint16_t port);

  std::vector<UniqueFd> sockets_;
  std::string text_;
  int last_error_ = 0;
};

}  // namespace sennit
