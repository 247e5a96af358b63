// PlanCache: from a call to the bound program that runs it, made and proved at first use.
#pragma once

#include "exec/cpu/job.hpp"
#include "select/select.hpp"

#include <map>
#include <memory>
#include <vector>

namespace sennit {

// What decides the program of a call; equal on all ranks but for `role` and `peer`.
struct PlanRequest {
  Collective collective = Collective::kBarrier;
  int root = 0;
  std::int64_t bytes = 0;  // of the vector, or of one rank's part
  int peer = -1;           // of a send (role 0) or recv (role 1)
  int role = -1;
  bool varying = false;
  CallRequest request;
  bool codec_is_by_rule = false;  // it is for the calls that can have it; others go without
  ScaledParts scaled;             // by the call's operator
};

class PlanCache {
 public:
  // `rank` must outlive the cache. Ports below `ports` serve collectives, those after them
  // send_recv.
  // `nodes`: of each rank, where there are several.
  PlanCache(HostRank& rank, HostFacts facts, int ports, std::vector<int> nodes);

  // The program of a call, valid as long as the cache. kNotProved for a plan without proof;
  // kUnsupported where rank order is requested and the proof did not find it in the algorithm;
  // where nobody asked for one copy by name and it cannot be carried or proved, slots are used
  // instead. kUnsupported, on all ranks, for a plan that
  // sends from one node to another where there are no rails.
  Result<const BoundProgram*> find(const PlanRequest& wanted);

 private:
  struct Key {
    Collective collective;
    int root;
    int peer;
    int role;
    bool varying;
    Choice choice;
    bool may_change;  // another plan stands here where that of the choice cannot be had

    auto operator<=>(const Key&) const = default;
  };

  Result<const BoundProgram*> find_any(const PlanRequest& wanted);
  Result<std::unique_ptr<const BoundProgram>> make(const PlanRequest& wanted,
                                                   const Shape& shape,
                                                   const Choice& choice);
  [[nodiscard]] Result<std::shared_ptr<const Plan>> bind_rails(const PlanRequest& wanted,
                                                               const Choice& choice,
                                                               const Plan& plan) const;
  [[nodiscard]] std::vector<Path> rails_of(const Choice& choice, int reader) const;
  [[nodiscard]] int node_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }
  // The rank of the communicator that is `rank` in the plan.
  [[nodiscard]] int rank_in_plan(const PlanRequest& wanted, int rank) const;

  HostRank& rank_;
  HostFacts facts_;
  int ports_;
  std::vector<int> nodes_;
  std::vector<std::vector<int>> groups_;  // the nodes, where each has as many ranks
  std::map<Key, std::unique_ptr<const BoundProgram>> programs_;
};

}  // namespace sennit
