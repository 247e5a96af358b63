#include "sim/flow_network.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace sennit::sim {
namespace {

// Shares that differ by less than this are one level: they are sums of the same numbers in another
// order. Without it a symmetric pattern would be settled in as many rounds as it has resources.
constexpr double kSameLevel = 1 + 1e-12;

}  // namespace

FlowNetwork::FlowNetwork(std::vector<double> capacities) {
  resources_.resize(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    SENNIT_CHECK(capacities[r] > 0, "a resource needs a capacity");
    resources_[r].capacity = capacities[r];
  }
}

void FlowNetwork::touch(int resource) {
  Resource& touched = resources_[at(resource)];
  if (!touched.dirty) {
    touched.dirty = true;
    dirty_.push_back(resource);
  }
}

int FlowNetwork::start(Time now, std::span<const Use> uses, double limit, double bytes) {
  SENNIT_CHECK(bytes > 0 && (limit > 0 || !uses.empty()), "a flow needs bytes and a bound");
  int number = static_cast<int>(flows_.size());
  if (free_flows_.empty()) {
    flows_.emplace_back();
  } else {
    number = free_flows_.back();
    free_flows_.pop_back();
  }
  Flow& flow = flows_[at(number)];
  flow.uses = uses;
  flow.limit = limit;
  flow.bytes = flow.left = bytes;
  flow.rate = 0;
  flow.since = now;
  flow.order = started_++;
  flow.alive = true;
  for (const Use& use : uses) {
    resources_[at(use.resource)].flows.push_back(number);
    resources_[at(use.resource)].weight += use.weight;
    touch(use.resource);
  }
  if (uses.empty()) {
    unlimited_.push_back(number);
  }
  return number;
}

void FlowNetwork::settle(Time now) {
  for (const int flow : unlimited_) {
    fix(flow, flows_[at(flow)].limit, now);
  }
  unlimited_.clear();
  // gather_component() takes resources off the dirty state as it reaches them.
  for (const int seed : dirty_) {
    if (resources_[at(seed)].dirty) {
      gather_component(seed);
      share_component(now);
    }
  }
  dirty_.clear();
}

// All resources and flows that hang together with `seed`.
void FlowNetwork::gather_component(int seed) {
  component_resources_.assign(1, seed);
  component_flows_.clear();
  std::vector<bool>::size_type next = 0;
  resources_[at(seed)].dirty = false;
  resources_[at(seed)].waiting = -1;  // reached
  for (; next < component_resources_.size(); ++next) {
    for (const int number : resources_[at(component_resources_[next])].flows) {
      Flow& flow = flows_[at(number)];
      if (flow.marked) {
        continue;
      }
      flow.marked = true;
      component_flows_.push_back(number);
      for (const Use& use : flow.uses) {
        Resource& resource = resources_[at(use.resource)];
        if (resource.waiting >= 0) {
          resource.waiting = -1;
          resource.dirty = false;
          component_resources_.push_back(use.resource);
        }
      }
    }
  }
  for (const int resource : component_resources_) {
    resources_[at(resource)].free = resources_[at(resource)].capacity;
    resources_[at(resource)].waiting = 0;
  }
  for (const int number : component_flows_) {
    for (const Use& use : flows_[at(number)].uses) {
      resources_[at(use.resource)].waiting += use.weight;
    }
  }
}

// The least rate at which a resource or a flow's own limit stops some flow that has no rate yet.
double FlowNetwork::smallest_share() const {
  double share = std::numeric_limits<double>::infinity();
  for (const int resource : component_resources_) {
    const Resource& r = resources_[at(resource)];
    if (r.waiting > 0) {
      share = std::min(share, r.free / r.waiting);
    }
  }
  for (const int number : component_flows_) {
    const Flow& flow = flows_[at(number)];
    if (flow.limit > 0) {
      share = std::min(share, flow.limit);
    }
  }
  return share;
}

// Progressive filling: all rates grow together until something is full; the flows it stops keep
// their rate, the others go on.
void FlowNetwork::share_component(Time now) {
  while (!component_flows_.empty()) {
    const double share = smallest_share();
    const auto is_stopped = [&](int number) {
      const Flow& flow = flows_[at(number)];
      return (flow.limit > 0 && flow.limit <= share * kSameLevel) ||
             std::ranges::any_of(flow.uses, [&](const Use& use) {
               const Resource& r = resources_[at(use.resource)];
               return r.free <= share * kSameLevel * r.waiting;
             });
    };
    const auto stopped = std::stable_partition(
        component_flows_.begin(), component_flows_.end(), [&](int n) { return !is_stopped(n); });
    SENNIT_CHECK(stopped != component_flows_.end(), "some flow is stopped at the smallest share");
    for (auto flow = stopped; flow != component_flows_.end(); ++flow) {
      flows_[at(*flow)].marked = false;
      for (const Use& use : flows_[at(*flow)].uses) {
        Resource& r = resources_[at(use.resource)];
        r.free = std::max(0.0, r.free - share * use.weight);
        r.waiting -= use.weight;
      }
      fix(*flow, share, now);
    }
    component_flows_.erase(stopped, component_flows_.end());
    for (const int resource : component_resources_) {
      // What is left of the weights of flows that have all been fixed is rounding.
      constexpr double kRounding = 1e-9;
      if (resources_[at(resource)].waiting < kRounding) {
        resources_[at(resource)].waiting = 0;
      }
    }
  }
}

void FlowNetwork::fix(int number, double rate, Time now) {
  Flow& flow = flows_[at(number)];
  // An unchanged rate keeps its place in the queue, and rounds the end of the flow only once.
  if (flow.rate > 0 && std::abs(rate - flow.rate) <= flow.rate * (kSameLevel - 1)) {
    return;
  }
  flow.left = std::max(0.0, flow.left - flow.rate * static_cast<double>(now - flow.since));
  flow.since = now;
  flow.rate = rate;
  ++flow.version;
  const double duration = std::ceil(flow.left / rate);
  ends_.push({.time = now + static_cast<Time>(duration),
              .order = flow.order,
              .flow = number,
              .version = flow.version});
}

bool FlowNetwork::is_stale(const End& end) const {
  const Flow& flow = flows_[at(end.flow)];
  return !flow.alive || flow.version != end.version;
}

Time FlowNetwork::next_end() {
  while (!ends_.empty() && is_stale(ends_.top())) {
    ends_.pop();
  }
  return ends_.empty() ? kNever : ends_.top().time;
}

void FlowNetwork::leave(int number) {
  Flow& flow = flows_[at(number)];
  flow.alive = false;
  ++flow.version;
  for (const Use& use : flow.uses) {
    Resource& resource = resources_[at(use.resource)];
    resource.carried += flow.bytes * use.weight;
    resource.weight -= use.weight;
    // Order within a resource does not matter for rates; the last one takes the free place.
    const auto place = std::ranges::find(resource.flows, number);
    *place = resource.flows.back();
    resource.flows.pop_back();
    touch(use.resource);
  }
  free_flows_.push_back(number);
}

std::span<const int> FlowNetwork::take_ended(Time now) {
  ended_.clear();
  while (next_end() <= now) {
    ended_.push_back(ends_.top().flow);
    leave(ends_.top().flow);
    ends_.pop();
  }
  return ended_;
}

double FlowNetwork::fair_share(std::span<const Use> uses) const {
  double share = std::numeric_limits<double>::infinity();
  for (const Use& use : uses) {
    const Resource& resource = resources_[at(use.resource)];
    share = std::min(share, resource.capacity / (resource.weight + use.weight));
  }
  return share;
}

}  // namespace sennit::sim
