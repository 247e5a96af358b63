#include "sim/fabric.hpp"

namespace sennit::sim {

Fabric::Fabric(const Topology& topology, const Placement& placement)
    : topology_(topology), placement_(placement), devices_(topology.devices()) {
  number_resources();
}

Result<Fabric> Fabric::build(const Topology& topology, const Placement& placement) {
  Fabric fabric(topology, placement);
  const auto devices = static_cast<int>(fabric.devices_.size());
  const bool on_gpus =
      topology.vertices[static_cast<std::size_t>(fabric.devices_.front())].kind == VertexKind::kGpu;
  if (!on_gpus) {
    // CPU ranks of one machine: as many on a processor as it takes.
    fabric.placement_.ranks_per_device = (placement.ranks + devices - 1) / devices;
  }
  const int used = (placement.ranks + fabric.placement_.ranks_per_device - 1) /
                   fabric.placement_.ranks_per_device;
  fabric.nodes_ = (used + devices - 1) / devices;
  if (fabric.nodes_ > 1 && !topology.has_fabric()) {
    return fail(Code::kInvalidArgument,
                "{} ranks need {} nodes of machine {}, which has no fabric to join them",
                placement.ranks,
                fabric.nodes_,
                topology.name);
  }
  for (int node = 0; node < fabric.nodes_; ++node) {
    fabric.capacities_.insert(
        fabric.capacities_.end(), fabric.local_capacities_.begin(), fabric.local_capacities_.end());
  }
  return fabric;
}

int Fabric::add_resource(std::string local_name, double gbps) {
  local_names_.push_back(std::move(local_name));
  local_capacities_.push_back(gbps * kBytesPerPicosecond);
  return static_cast<int>(local_names_.size()) - 1;
}

void Fabric::number_resources() {
  for (const Wire& wire : topology_.wires) {
    const std::string& a = topology_.vertices[static_cast<std::size_t>(wire.a)].name;
    const std::string& b = topology_.vertices[static_cast<std::size_t>(wire.b)].name;
    WireResources resources;
    resources.forward = add_resource(fmt::format("{}>{} {}", a, b, name(wire.kind)), wire.gbps);
    resources.backward = add_resource(fmt::format("{}>{} {}", b, a, name(wire.kind)), wire.gbps);
    if (wire.both_gbps > 0) {
      resources.both =
          add_resource(fmt::format("{}<>{} {}", a, b, name(wire.kind)), wire.both_gbps);
    }
    of_wire_.push_back(resources);
  }
  for (const Vertex& vertex : topology_.vertices) {
    memory_.push_back(
        vertex.memory_gbps > 0 ? add_resource(vertex.name + " memory", vertex.memory_gbps) : -1);
    reducer_.push_back(
        vertex.reduce_gbps > 0 ? add_resource(vertex.name + " reduce", vertex.reduce_gbps) : -1);
  }
}

int Fabric::device_of(int rank) const { return rank / placement_.ranks_per_device; }

Fabric::Place Fabric::place_of(int rank) const {
  const auto devices = static_cast<int>(devices_.size());
  const int device = device_of(rank);
  return {.node = device / devices, .vertex = devices_[static_cast<std::size_t>(device % devices)]};
}

std::string Fabric::resource_name(int resource) const {
  const auto count = static_cast<int>(local_names_.size());
  const std::string& local = local_names_[static_cast<std::size_t>(resource % count)];
  return nodes_ == 1 ? local : fmt::format("node{} {}", resource / count, local);
}

int Fabric::memory_of(int rank) const {
  const Place place = place_of(rank);
  const int local = memory_[static_cast<std::size_t>(place.vertex)];
  return local < 0 ? -1 : place.node * static_cast<int>(local_names_.size()) + local;
}

int Fabric::reducer_of(int rank) const {
  const Place place = place_of(rank);
  const int local = reducer_[static_cast<std::size_t>(place.vertex)];
  return local < 0 ? -1 : place.node * static_cast<int>(local_names_.size()) + local;
}

const Route* Fabric::route(int from_rank, int to_rank, const Path& path) {
  const Key key{device_of(from_rank), device_of(to_rank), path};
  if (const auto known = routes_.find(key); known != routes_.end()) {
    return &known->second;
  }
  const Place from = place_of(from_rank);
  const Place to = place_of(to_rank);
  const auto vertices = static_cast<int>(topology_.vertices.size());
  const Endpoints ends{.from = from.vertex,
                       .to = to.vertex + (from.node == to.node ? 0 : vertices)};
  const LocalKey local_key{ends.from, ends.to, path};
  auto local = local_routes_.find(local_key);
  if (local == local_routes_.end()) {
    local = local_routes_.emplace(local_key, find_route(ends, path)).first;
  }
  if (!local->second) {
    return nullptr;
  }
  Route route{.put = leg(local->second->put, from.node, to.node),
              .fetch = leg(local->second->fetch, from.node, to.node),
              .staged = local->second->staged};
  return &routes_.emplace(key, std::move(route)).first->second;
}

Leg Fabric::leg(const std::vector<LocalUse>& local, int from_node, int to_node) const {
  Leg leg;
  const auto per_node = static_cast<int>(local_names_.size());
  for (const LocalUse& use : local) {
    const int node = use.end == 0 ? from_node : to_node;
    leg.uses.push_back({.resource = node * per_node + use.resource, .weight = use.weight});
  }
  return leg;
}

}  // namespace sennit::sim
