// How Fabric finds the way of a path through a node, or through two nodes and what joins them.
#include "sim/fabric.hpp"

#include <algorithm>
#include <deque>

namespace sennit::sim {

bool Fabric::may_use(const Wire& wire, PathKind path) const {
  switch (path) {
    case PathKind::kNvlink:
      return wire.kind == WireKind::kNvlink;
    case PathKind::kPcie:
      return wire.kind != WireKind::kNet && wire.kind != WireKind::kHostBus;
    case PathKind::kRail:
      return wire.kind != WireKind::kHostBus;
    case PathKind::kHost:
    case PathKind::kShm:
    case PathKind::kCma:
      return wire.kind != WireKind::kNet;
    case PathKind::kDevice:
      return false;
  }
  return false;
}

// Bytes end at GPUs, they do not pass them.
bool Fabric::may_pass(int vertex, const Path& path) const {
  const auto own = topology_.vertices.begin() + vertex;
  switch (own->kind) {
    case VertexKind::kGpu:
      return false;
    case VertexKind::kSwitch:
      return true;
    case VertexKind::kCpu:
      return path.kind != PathKind::kNvlink;
    case VertexKind::kNic:
      return path.kind == PathKind::kRail &&
             (path.card == Path::kReadersCard ||
              path.card == std::ranges::count(
                               topology_.vertices.begin(), own, VertexKind::kNic, &Vertex::kind));
    case VertexKind::kFabric:
      return path.kind == PathKind::kRail;
  }
  return false;
}

std::optional<Fabric::Hops> Fabric::shortest(Endpoints ends, const Path& path) const {
  const auto count = topology_.vertices.size();
  std::vector<Arrival> arrivals(2 * count);
  std::deque<int> open{ends.from};
  arrivals[static_cast<std::size_t>(ends.from)].from = ends.from;
  while (!open.empty() && arrivals[static_cast<std::size_t>(ends.to)].from < 0) {
    const int here = open.front();
    open.pop_front();
    const auto vertex = static_cast<std::size_t>(here) % count;
    const VertexKind kind = topology_.vertices[vertex].kind;
    if (here != ends.from && !may_pass(static_cast<int>(vertex), path)) {
      continue;
    }
    for (std::size_t w = 0; w < topology_.wires.size(); ++w) {
      const Wire& wire = topology_.wires[w];
      const bool backward = wire.b == static_cast<int>(vertex);
      if (!may_use(wire, path.kind) || (!backward && wire.a != static_cast<int>(vertex))) {
        continue;
      }
      const int other = backward ? wire.a : wire.b;
      const bool to_fabric =
          topology_.vertices[static_cast<std::size_t>(other)].kind == VertexKind::kFabric;
      // The fabric is one vertex for both nodes; from it the way leads into the second.
      const int end = kind == VertexKind::kFabric ? 1 : here / static_cast<int>(count);
      const int there = other + (to_fabric ? 0 : end) * static_cast<int>(count);
      Arrival& arrival = arrivals[static_cast<std::size_t>(there)];
      if (arrival.from < 0) {
        arrival = {.from = here,
                   .by = {.wire = static_cast<int>(w), .backward = backward, .end = end}};
        open.push_back(there);
      }
    }
  }
  if (arrivals[static_cast<std::size_t>(ends.to)].from < 0) {
    return std::nullopt;
  }
  return retrace(ends, arrivals);
}

Fabric::Hops Fabric::retrace(Endpoints ends, const std::vector<Arrival>& arrivals) {
  Hops hops;
  for (int at = ends.to; at != ends.from; at = arrivals[static_cast<std::size_t>(at)].from) {
    hops.push_back(arrivals[static_cast<std::size_t>(at)].by);
  }
  std::ranges::reverse(hops);
  return hops;
}

std::optional<int> Fabric::nearest_cpu(int from) const {
  const auto count = static_cast<int>(topology_.vertices.size());
  std::optional<int> best;
  std::size_t best_hops = 0;
  for (int v = 0; v < count; ++v) {
    if (topology_.vertices[static_cast<std::size_t>(v)].kind != VertexKind::kCpu) {
      continue;
    }
    const int cpu = v + from / count * count;
    const auto hops = shortest({.from = from, .to = cpu}, PathKind::kHost);
    if (hops && (!best || hops->size() < best_hops)) {
      best = cpu;
      best_hops = hops->size();
    }
  }
  return best;
}

std::vector<Fabric::LocalUse> Fabric::uses_of(const Hops& hops) const {
  std::vector<LocalUse> uses;
  for (const Hop& hop : hops) {
    const WireResources& wire = of_wire_[static_cast<std::size_t>(hop.wire)];
    uses.push_back({.end = hop.end, .resource = hop.backward ? wire.backward : wire.forward});
    if (wire.both >= 0) {
      uses.push_back({.end = hop.end, .resource = wire.both});
    }
  }
  return uses;
}

int Fabric::local_memory(int vertex) const {
  return memory_[static_cast<std::size_t>(vertex) % topology_.vertices.size()];
}

// D2H into a slot at the writer's processor, H2D out of it.
std::optional<Fabric::LocalRoute> Fabric::staged_route(Endpoints ends) const {
  const auto cpu = nearest_cpu(ends.from);
  if (!cpu) {
    return std::nullopt;
  }
  const auto there = shortest({.from = ends.from, .to = *cpu}, PathKind::kHost);
  const auto back = shortest({.from = *cpu, .to = ends.to}, PathKind::kHost);
  if (!there || !back) {
    return std::nullopt;
  }
  LocalRoute route{.put = uses_of(*there), .fetch = uses_of(*back), .staged = true};
  if (const int memory = local_memory(*cpu); memory >= 0) {
    route.put.push_back({.end = 0, .resource = memory});
    route.fetch.push_back({.end = 0, .resource = memory});
  }
  return route;
}

// Copies between ranks of one device or of one host: each byte is read once and written once.
std::optional<Fabric::LocalRoute> Fabric::memory_route(Endpoints ends, PathKind path) const {
  const bool shm = path == PathKind::kShm;
  if (path == PathKind::kDevice && ends.from != ends.to) {
    return std::nullopt;
  }
  const auto hops = shortest(ends, path);
  if (!hops) {
    return std::nullopt;
  }
  LocalRoute route{.staged = shm};
  std::vector<LocalUse>& crossing = shm ? route.fetch : route.put;
  crossing = uses_of(*hops);
  const auto count = static_cast<int>(topology_.vertices.size());
  const auto touch = [&](std::vector<LocalUse>& uses, int vertex, double weight) {
    if (const int memory = local_memory(vertex); memory >= 0) {
      uses.push_back({.end = vertex / count, .resource = memory, .weight = weight});
    }
  };
  if (shm) {
    touch(route.put, ends.from, 2);
  }
  if (ends.from == ends.to) {
    touch(crossing, ends.from, 2);
  } else {
    touch(crossing, ends.from, 1);
    touch(crossing, ends.to, 1);
  }
  return route;
}

std::optional<Fabric::LocalRoute> Fabric::find_route(Endpoints ends, const Path& path) const {
  const auto count = static_cast<int>(topology_.vertices.size());
  const bool one_node = ends.from / count == ends.to / count;
  const bool on_gpus =
      topology_.vertices[static_cast<std::size_t>(ends.from % count)].kind == VertexKind::kGpu;
  switch (path.kind) {
    case PathKind::kShm:
    case PathKind::kCma:
      return one_node && !on_gpus ? memory_route(ends, path.kind) : std::nullopt;
    case PathKind::kDevice:
      return one_node ? memory_route(ends, path.kind) : std::nullopt;
    case PathKind::kHost:
      return one_node && on_gpus ? staged_route(ends) : std::nullopt;
    case PathKind::kNvlink:
    case PathKind::kPcie:
    case PathKind::kRail: {
      if ((path.kind == PathKind::kRail) == one_node || ends.from == ends.to) {
        return std::nullopt;
      }
      const auto hops = shortest(ends, path);
      return hops ? std::optional(LocalRoute{.put = uses_of(*hops)}) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace sennit::sim
