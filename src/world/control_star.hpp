// ControlStar: what the lowest ranks of the nodes send each other while a communicator lives, over
// the connections of its join. A thread in each keeps the status lines of other nodes' ranks in its
// node's segment as they were when somebody last asked, passes on deaths and alarms, and notices
// when a node is lost. All goes through rank 0.
//
// The thread sleeps until a rank of its node asks or sounds an alarm (by the node's waker), a
// message comes, or a process of its node dies.
#pragma once

#include "world/line_copy.hpp"
#include "world/nodes/node_links.hpp"
#include "world/world.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

struct pollfd;

namespace sennit {

class ControlStar {
 public:
  // `world` outlives it.
  ControlStar(World& world, const std::shared_ptr<NodeLinks>& links);
  // Sends what this node's lines say at last, for a bounded time.
  ~ControlStar();
  ControlStar(const ControlStar&) = delete;
  ControlStar& operator=(const ControlStar&) = delete;

 private:
  enum class Type : std::uint16_t {
    kAsk = 16,      // send the lines of your node, if they have changed
    kLines = 17,    // status lines of some ranks; also the answer that none has changed
    kAlarm = 18,    // look at the lines
    kReports = 19,  // of some ranks, what others have found: that they are dead, lost or stopped
    kBye = 20,      // the communicator is destroyed here
  };

  struct Neighbor {
    std::unique_ptr<NodeLink> link;  // null: it has ended
    int node = 0;
    bool has_left = false;                      // after "bye"
    std::optional<Clock::time_point> asked_at;  // and not answered
    bool is_silent = false;                     // for so long that it counts as stopped
    bool lacks_lines = false;                   // they were held back
  };

  void run();
  void poll_once();
  void watch_processes(std::vector<pollfd>& watched, std::vector<int>& ranks) const;
  [[nodiscard]] int timeout_ms(Clock::time_point now) const;
  void take_local_news(Clock::time_point now);
  void pump(Neighbor& neighbor);
  void on_message(Neighbor& neighbor, const StreamMessage& message);
  void on_lines(Neighbor& neighbor, const std::string& payload);
  void on_reports(Neighbor& neighbor, const std::string& payload);
  void on_end(Neighbor& neighbor, NodeLink::State state);
  void on_death(int rank);
  // Asks the other nodes, at most every few milliseconds.
  void ask(Clock::time_point now);
  void find_silent(Clock::time_point now);
  // Sends the lines of this node that have changed to all; to `asker` also that none has.
  void send_lines(const Neighbor* asker);
  [[nodiscard]] std::vector<std::pair<int, LineCopy>> changed_lines();
  void report(const std::vector<int>& ranks, std::uint32_t what);
  void send_to_all(Type type, const std::string& payload, const Neighbor* but = nullptr);
  void send_all_lines(const Neighbor& neighbor);
  void sound_alarm_here();
  [[nodiscard]] bool is_root() const { return world_.rank() == 0; }
  [[nodiscard]] std::vector<int> ranks_of(int node) const;

  World& world_;
  std::vector<Neighbor> neighbors_;
  std::map<int, LineCopy> sent_;  // by rank of this node
  std::map<int, bool> stopped_;
  std::vector<bool> dead_;
  Clock::time_point stopped_at_{};  // when it was last looked who is
  Clock::time_point asked_at_{};
  bool is_ask_due_ = false;
  std::uint32_t asks_seen_ = 0;
  std::uint32_t alarms_seen_ = 0;  // of this node's ranks
  std::uint32_t alarms_made_ = 0;  // here, for those of other nodes
  std::atomic<bool> is_ending_{false};
  std::uint64_t generation_;
  std::unique_ptr<std::thread> thread_;  // last: it uses all of the above
};

}  // namespace sennit
