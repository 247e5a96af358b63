// Fabric: a topology for a number of ranks, as resources with capacities, and which of them a
// message between two ranks uses.
//
//   Fabric fabric = Fabric::build(topology, {.ranks = 8}).value();
//   const Route* route = fabric.route(0, 5, PathKind::kNvlink);   nullptr: no such path
//   network.start(now, route->put.uses, ...);
//
// A path is the one with the fewest links of the kinds that may serve it; where several are equal,
// the one whose links stand first in the file. A rail with a number passes the nics with this
// number alone, in the order of the file.
#pragma once

#include "machine/path.hpp"
#include "machine/topology.hpp"
#include "sim/flow_network.hpp"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace sennit::sim {

// Of a GB/s, of 10^9 bytes.
inline constexpr double kBytesPerPicosecond = 1e-3;

struct Placement {
  int ranks = 1;
  int ranks_per_device = 1;  // neighbours in rank share a GPU
};

struct Leg {
  std::vector<Use> uses;
};

// A staged path has its slots in host memory: the writer moves bytes there, the reader fetches
// them.
struct Route {
  Leg put;    // writer to slot, or all the way
  Leg fetch;  // slot to reader; empty unless staged
  bool staged = false;
};

class Fabric {
 public:
  // kInvalidArgument when the ranks do not fit: several nodes need a fabric.
  static Result<Fabric> build(const Topology& topology, const Placement& placement);

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] int node_count() const { return nodes_; }
  [[nodiscard]] int node_of(int rank) const { return place_of(rank).node; }
  // Ranks with the same number share a device.
  [[nodiscard]] int device_of(int rank) const;

  // Bytes a picosecond, and names ("node0 gpu0>gpu1"), by resource.
  [[nodiscard]] const std::vector<double>& capacities() const { return capacities_; }
  [[nodiscard]] std::string resource_name(int resource) const;

  // Lives as long as the fabric. nullptr where the machine has no such path.
  const Route* route(int from_rank, int to_rank, const Path& path);

  [[nodiscard]] const Vertex& device(int rank) const {
    return topology_.vertices[static_cast<std::size_t>(place_of(rank).vertex)];
  }
  // Of the rank's device; -1 where the file gives no such rate.
  [[nodiscard]] int memory_of(int rank) const;
  [[nodiscard]] int reducer_of(int rank) const;

 private:
  struct Place {
    int node = 0;
    int vertex = 0;
  };
  // A use of a resource of one of the two nodes that a route joins.
  struct LocalUse {
    int end = 0;  // 0: the writer's node
    int resource = 0;
    double weight = 1;
  };
  struct LocalRoute {
    std::vector<LocalUse> put{};
    std::vector<LocalUse> fetch{};
    bool staged = false;
  };
  struct Hop {
    int wire = 0;
    bool backward = false;
    int end = 0;
  };
  using Hops = std::vector<Hop>;
  // A vertex of the two nodes of a route: end * (number of vertices) + vertex.
  struct Endpoints {
    int from = 0;
    int to = 0;
  };

  // How a search first came to a vertex; `from` is below 0 where it has not.
  struct Arrival {
    int from = -1;
    Hop by{};
  };

  Fabric(const Topology& topology, const Placement& placement);

  void number_resources();
  int add_resource(std::string local_name, double gbps);
  [[nodiscard]] Place place_of(int rank) const;
  [[nodiscard]] int local_memory(int vertex) const;

  [[nodiscard]] std::optional<LocalRoute> find_route(Endpoints ends, const Path& path) const;
  [[nodiscard]] std::optional<LocalRoute> staged_route(Endpoints ends) const;
  [[nodiscard]] std::optional<LocalRoute> memory_route(Endpoints ends, PathKind path) const;
  [[nodiscard]] std::optional<Hops> shortest(Endpoints ends, const Path& path) const;
  [[nodiscard]] static Hops retrace(Endpoints ends, const std::vector<Arrival>& arrivals);
  [[nodiscard]] std::optional<int> nearest_cpu(int from) const;
  [[nodiscard]] bool may_use(const Wire& wire, PathKind path) const;
  [[nodiscard]] bool may_pass(int vertex, const Path& path) const;
  [[nodiscard]] std::vector<LocalUse> uses_of(const Hops& hops) const;
  [[nodiscard]] Leg leg(const std::vector<LocalUse>& local, int from_node, int to_node) const;

  Topology topology_;
  Placement placement_;
  std::vector<int> devices_;
  int nodes_ = 1;
  // Of one node.
  std::vector<std::string> local_names_;
  std::vector<double> local_capacities_;
  struct WireResources {
    int forward = 0;
    int backward = 0;
    int both = -1;
  };
  std::vector<WireResources> of_wire_;
  std::vector<int> memory_;   // by vertex, -1: none
  std::vector<int> reducer_;  // by vertex, -1: none
  std::vector<double> capacities_;
  using LocalKey = std::tuple<int, int, Path>;
  std::map<LocalKey, std::optional<LocalRoute>> local_routes_;
  using Key = std::tuple<int, int, Path>;  // by device
  std::map<Key, Route> routes_;
};

}  // namespace sennit::sim
