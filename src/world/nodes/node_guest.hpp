// The side of all ranks but 0 of a join over nodes.
#pragma once

#include "world/nodes/node_link.hpp"
#include "world/nodes/node_links.hpp"
#include "world/nodes/node_request.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

class NodeGuest {
 public:
  explicit NodeGuest(const NodeRequest& request) : request_(request) {}

  // Finds rank 0, says hello, and learns which ranks are on which node.
  Result<std::vector<Place>> introduce();
  // While this rank meets those of its own node: why that is in vain, or ok.
  Status check();
  // How that has ended. Waits until all nodes have met, and gives everybody's rail addresses.
  Result<std::vector<std::string>> finish(const Status& met, const std::string& rail_address);
  // To rank 0; once, after finish().
  std::shared_ptr<NodeLinks> take_links();

 private:
  // Takes messages until `is_there` holds; a failure or a lost connection ends it.
  template <typename Predicate>
  Status wait_for(const Predicate& is_there);
  Status pump(Deadline::Clock::time_point until);
  Status pump_link(Deadline::Clock::time_point until);
  Status on_message(const StreamMessage& message);
  Status take_places(const StreamMessage& message);
  Status take_rails(const StreamMessage& message);
  // Reports to rank 0 that this rank gives up; gives back what is to be reported.
  Status give_up(Status reason);
  // The same, and waits for what rank 0 says to all about it. Ok: "go" has come meanwhile.
  Status await_verdict(Status reason);
  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(request_.hello.hello.size);
  }
  [[nodiscard]] Status host_lost() const;
  [[nodiscard]] Status host_silent() const;
  [[nodiscard]] Status nonsense(std::string_view what) const;

  const NodeRequest& request_;
  std::unique_ptr<NodeLink> link_;
  std::string root_text_;
  bool is_accepted_ = false;
  bool is_dropped_ = false;  // before rank 0 had counted this rank
  bool is_gone_ = false;     // "go" has come
  std::vector<Place> places_;
  std::vector<std::string> rails_;
  std::optional<Status> failure_;  // that rank 0 has sent, or the loss of rank 0
};

}  // namespace sennit
