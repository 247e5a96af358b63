#include "machine/topology_picture.hpp"

#include "base/svg_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

namespace sennit {
namespace {

struct WireLook {
  WireKind kind;
  std::string_view colour;  // of Okabe and Ito, "Color Universal Design" (2008)
  std::string_view dash;
  int width;
};

constexpr std::array kWireLooks = {
    WireLook{WireKind::kNvlink, "#009E73", "", 4},
    WireLook{WireKind::kPcie, "#0072B2", "8 4", 2},
    WireLook{WireKind::kBus, "#D55E00", "2 4", 4},
    WireLook{WireKind::kHostBus, "#E69F00", "2 6", 2},
    WireLook{WireKind::kNet, "#CC79A7", "12 4 2 4", 2},
};

// From top to bottom.
constexpr std::array kRows = {
    VertexKind::kFabric, VertexKind::kNic, VertexKind::kCpu, VertexKind::kSwitch, VertexKind::kGpu};

// Lengths in pixels.
constexpr int kColumn = 92;
constexpr int kRow = 110;
constexpr int kBoxWidth = 76;
constexpr int kBoxHeight = 32;
constexpr int kMargin = 24;
constexpr int kTop = 60;
constexpr int kLegendLine = 18;
constexpr int kLegendWidth = 460;

struct Point {
  int x = 0;
  int y = 0;
};

class Picture {
 public:
  explicit Picture(const Topology& topology) : topology_(topology) { place(); }

  std::string run() && {
    const int legend = static_cast<int>(kWireLooks.size()) * kLegendLine;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#000">)",
        width_,
        bottom_ + legend + kMargin);
    const std::string title = svg_escaped(topology_.name + ": " + topology_.title);
    add("<title>{}</title>", title);
    add(R"(<rect width="100%" height="100%" fill="#fff"/>)");
    add(R"(<text x="{}" y="28" font-size="15" font-weight="bold">{}</text>)", kMargin, title);
    for (const Wire& wire : topology_.wires) {
      add_wire(wire);
    }
    for (std::size_t v = 0; v < topology_.vertices.size(); ++v) {
      add_vertex(topology_.vertices[v], at_[v]);
    }
    add_legend();
    add("</svg>");
    return std::move(svg_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Args>(args)...);
    svg_ += '\n';
  }

  void place() {
    at_.resize(topology_.vertices.size());
    std::size_t widest = 1;
    for (const VertexKind kind : kRows) {
      const auto count = std::ranges::count(topology_.vertices, kind, &Vertex::kind);
      widest = std::max(widest, static_cast<std::size_t>(count));
    }
    width_ = std::max(static_cast<int>(widest) * kColumn, kLegendWidth) + 2 * kMargin;
    int y = kTop;
    for (const VertexKind kind : kRows) {
      const auto count =
          static_cast<int>(std::ranges::count(topology_.vertices, kind, &Vertex::kind));
      int column = 0;
      for (std::size_t v = 0; v < at_.size(); ++v) {
        if (topology_.vertices[v].kind == kind) {
          at_[v] = {.x = kMargin + (2 * column + 1) * (width_ - 2 * kMargin) / (2 * count), .y = y};
          ++column;
        }
      }
      y += count > 0 ? kRow : 0;
    }
    bottom_ = y;
  }

  static const WireLook& look_of(WireKind kind) {
    return *std::ranges::find(kWireLooks, kind, &WireLook::kind);
  }

  void add_wire(const Wire& wire) {
    const WireLook& look = look_of(wire.kind);
    const Point a = at_[static_cast<std::size_t>(wire.a)];
    const Point b = at_[static_cast<std::size_t>(wire.b)];
    // Between boxes of one row the line bends, or it would pass behind those in between.
    const int bend = a.y == b.y ? kRow / 3 : 0;
    add(R"(<path d="M{} {}Q{} {} {} {}" fill="none" stroke="{}" stroke-width="{}" )"
        R"(stroke-dasharray="{}"><title>{:g} GB/s</title></path>)",
        a.x,
        a.y,
        (a.x + b.x) / 2,
        (a.y + b.y) / 2 + 2 * bend,
        b.x,
        b.y,
        look.colour,
        look.width,
        look.dash,
        wire.gbps);
  }

  void add_vertex(const Vertex& vertex, Point at) {
    add(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="4" fill="#fff" stroke="#000"/>)",
        at.x - kBoxWidth / 2,
        at.y - kBoxHeight / 2,
        kBoxWidth,
        kBoxHeight);
    add(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)",
        at.x,
        at.y - 1,
        svg_escaped(vertex.name));
    if (vertex.memory_gbps > 0) {
      add(R"(<text x="{}" y="{}" text-anchor="middle" font-size="9">{:g} GB/s</text>)",
          at.x,
          at.y + 11,
          vertex.memory_gbps);
    }
  }

  void add_legend() {
    int y = bottom_;
    for (const WireLook& look : kWireLooks) {
      std::set<std::string> rates;
      for (const Wire& wire : topology_.wires) {
        if (wire.kind == look.kind) {
          rates.insert(wire.both_gbps > 0
                           ? fmt::format("{:g} GB/s ({:g} both ways)", wire.gbps, wire.both_gbps)
                           : fmt::format("{:g} GB/s", wire.gbps));
        }
      }
      if (rates.empty()) {
        continue;
      }
      std::string text;
      for (const std::string& rate : rates) {
        text += (text.empty() ? "" : ", ") + rate;
      }
      add(R"(<path d="M{} {}h50" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>)",
          kMargin,
          y - 4,
          look.colour,
          look.width,
          look.dash);
      add(R"(<text x="{}" y="{}">{}: {} each way</text>)", kMargin + 60, y, name(look.kind), text);
      y += kLegendLine;
    }
  }

  const Topology& topology_;
  std::vector<Point> at_;
  int width_ = 0;
  int bottom_ = 0;
  std::string svg_;
};

}  // namespace

std::string topology_svg(const Topology& topology) { return Picture(topology).run(); }

}  // namespace sennit
