// FlowNetwork: bytes that move at the same time share the resources they use. Rates are max-min
// fair: no flow can get more without another one, which has no more than it, getting less.
//
//   FlowNetwork network({0.39, 0.39});              two resources, in bytes a picosecond
//   network.start(0, {{.resource = 0}}, 0, 1e6);    now, uses, limit, bytes -> number of the flow
//   network.settle(0);                              rates follow from what has started and ended
//   Time t = network.next_end();                    when the first flow ends
//   network.take_ended(t);                          those that end then
//
// Only the flows that share a resource, directly or through others, with one that came or went get
// new rates, so the cost of an event does not grow with the machine.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

namespace sennit::sim {

using Time = std::int64_t;  // picoseconds
inline constexpr Time kNever = std::numeric_limits<Time>::max();

// A flow of rate r takes r * weight of the resource.
struct Use {
  int resource = 0;
  double weight = 1;
};

class FlowNetwork {
 public:
  // `capacities` in bytes a picosecond, each above 0.
  explicit FlowNetwork(std::vector<double> capacities);

  // `limit` is the most the flow can take, 0 for none; with no `uses` it must be above 0. `uses`
  // must live until the flow has ended. Its rate is 0 until settle(). `bytes` is above 0.
  int start(Time now, std::span<const Use> uses, double limit, double bytes);

  // Gives every flow that is touched by starts and ends since the last call its rate.
  void settle(Time now);

  // Of the settled flows; kNever when there are none.
  Time next_end();
  // The flows that end at `now`, in the order in which they were started; their numbers are free
  // for new flows afterwards. The view is valid until the next call.
  std::span<const int> take_ended(Time now);

  [[nodiscard]] double rate(int flow) const { return flows_[at(flow)].rate; }
  // The rate that one more flow would get at most, if each resource were shared evenly.
  [[nodiscard]] double fair_share(std::span<const Use> uses) const;
  // Bytes that went through a resource, by flows that have ended.
  [[nodiscard]] double carried(int resource) const { return resources_[at(resource)].carried; }

 private:
  struct Flow {
    std::span<const Use> uses;
    double limit = 0;
    double bytes = 0;
    double left = 0;
    double rate = 0;
    Time since = 0;           // when `left` was true
    std::uint64_t order = 0;  // of its start; also identifies a stale entry of the queue
    std::uint32_t version = 0;
    bool alive = false;
    bool marked = false;
  };
  struct Resource {
    double capacity = 0;
    double carried = 0;
    double weight = 0;       // of all its flows
    std::vector<int> flows;  // one entry for each use
    bool dirty = false;
    // While rates are found:
    double free = 0;
    double waiting = 0;  // weight of the flows without a rate
  };
  struct End {
    Time time = 0;
    std::uint64_t order = 0;
    int flow = 0;
    std::uint32_t version = 0;

    bool operator>(const End& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void touch(int resource);
  void gather_component(int seed);
  void share_component(Time now);
  double smallest_share() const;
  void fix(int flow, double rate, Time now);
  void leave(int flow);
  [[nodiscard]] bool is_stale(const End& end) const;

  std::vector<Resource> resources_;
  std::vector<Flow> flows_;
  std::vector<int> free_flows_;
  std::vector<int> dirty_;      // resources
  std::vector<int> unlimited_;  // started flows that use no resource
  std::vector<int> component_resources_;
  std::vector<int> component_flows_;
  std::vector<int> ended_;
  std::uint64_t started_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace sennit::sim
