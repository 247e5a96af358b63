#include "machine/topology.hpp"

#include <algorithm>
#include <numeric>

namespace sennit {

std::string_view name(VertexKind kind) {
  switch (kind) {
    case VertexKind::kGpu:
      return "gpu";
    case VertexKind::kCpu:
      return "cpu";
    case VertexKind::kNic:
      return "nic";
    case VertexKind::kSwitch:
      return "switch";
    case VertexKind::kFabric:
      return "fabric";
  }
  return "?";
}

std::string_view name(WireKind kind) {
  switch (kind) {
    case WireKind::kNvlink:
      return "nvlink";
    case WireKind::kPcie:
      return "pcie";
    case WireKind::kBus:
      return "bus";
    case WireKind::kHostBus:
      return "hostbus";
    case WireKind::kNet:
      return "net";
  }
  return "?";
}

std::vector<int> Topology::devices() const {
  for (const VertexKind kind : {VertexKind::kGpu, VertexKind::kCpu}) {
    std::vector<int> found;
    for (std::size_t v = 0; v < vertices.size(); ++v) {
      if (vertices[v].kind == kind) {
        found.push_back(static_cast<int>(v));
      }
    }
    if (!found.empty()) {
      return found;
    }
  }
  return {};
}

std::vector<int> Topology::islands() const {
  std::vector<int> label(vertices.size());
  std::iota(label.begin(), label.end(), 0);
  for (const Wire& wire : wires) {
    if (wire.kind == WireKind::kNvlink || wire.kind == WireKind::kPcie) {
      const int from = label[static_cast<std::size_t>(wire.a)];
      const int to = label[static_cast<std::size_t>(wire.b)];
      std::ranges::replace(label, std::max(from, to), std::min(from, to));
    }
  }
  std::vector<int> seen;
  std::vector<int> islands;
  for (const int device : devices()) {
    const int own = label[static_cast<std::size_t>(device)];
    const auto known = std::ranges::find(seen, own);
    islands.push_back(static_cast<int>(known - seen.begin()));
    if (known == seen.end()) {
      seen.push_back(own);
    }
  }
  return islands;
}

bool Topology::has_fabric() const {
  return std::ranges::find(vertices, VertexKind::kFabric, &Vertex::kind) != vertices.end();
}

PathCost Topology::cost(PathKind path) const {
  const auto row = std::ranges::find(paths, path, &PathCost::path);
  return row == paths.end() ? PathCost{.path = path} : *row;
}

namespace {

std::string number_form(std::string_view key, double value, std::string_view unit) {
  return value == 0 ? "" : fmt::format(" {}{}{} {}", key, key.empty() ? "" : " ", value, unit);
}

std::string source_form(const std::string& source) {
  return source.empty() ? "" : " from " + source;
}

bool is_numbered(VertexKind kind) {
  return kind != VertexKind::kSwitch && kind != VertexKind::kFabric;
}

}  // namespace

std::string to_text(const Topology& topology) {
  std::string out = fmt::format("machine {} {}\n", topology.name, topology.title);
  for (const auto& [key, text] : topology.sources) {
    out += fmt::format("source {} {}\n", key, text);
  }
  for (const Vertex& vertex : topology.vertices) {
    const std::string_view kind = name(vertex.kind);
    out += fmt::format("{} {}{}{}{}{}{}{}{}{}\n",
                       kind,
                       is_numbered(vertex.kind) ? vertex.name.substr(kind.size()) : vertex.name,
                       number_form("memory", vertex.memory_gbps, "GB/s"),
                       number_form("reduce", vertex.reduce_gbps, "GB/s"),
                       number_form("switch", vertex.switch_us, "us"),
                       number_form("copy_switch", vertex.copy_switch_us, "us"),
                       number_form("call", vertex.call_us, "us"),
                       number_form("load", vertex.load_us, "us"),
                       number_form("step", vertex.step_us, "us"),
                       source_form(vertex.source));
  }
  for (const Wire& wire : topology.wires) {
    out += fmt::format("link {} {} {}{}{}{}\n",
                       topology.vertices[static_cast<std::size_t>(wire.a)].name,
                       topology.vertices[static_cast<std::size_t>(wire.b)].name,
                       name(wire.kind),
                       number_form("", wire.gbps, "GB/s"),
                       number_form("both", wire.both_gbps, "GB/s"),
                       source_form(wire.source));
  }
  for (const PathCost& cost : topology.paths) {
    out += fmt::format("path {}{}{}{}{}{}{}{}\n",
                       name(cost.path),
                       number_form("start", cost.start_us, "us"),
                       number_form("sm", cost.sm_start_us, "us"),
                       number_form("free", cost.free_us, "us"),
                       number_form("sm_free", cost.sm_free_us, "us"),
                       number_form("lane", cost.lane_gbps, "GB/s"),
                       number_form("sms", cost.sms_gbps, "GB/s"),
                       source_form(cost.source));
  }
  return out;
}

}  // namespace sennit
