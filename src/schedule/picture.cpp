#include "schedule/picture.hpp"

#include "base/svg_text.hpp"
#include "schedule/logical_time.hpp"
#include "schedule/step_looks.hpp"
#include "schedule/text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sennit {
namespace {

// Lengths in pixels.
constexpr int kBoxWidth = 148;
constexpr int kBoxHeight = 36;
constexpr int kStripeWidth = 9;
constexpr int kColumn = kBoxWidth + 46;  // the gap is where arrows run
constexpr int kLaneHeight = kBoxHeight + 14;
constexpr int kBoxInset = (kLaneHeight - kBoxHeight) / 2;
constexpr int kRankGap = 12;
constexpr int kLeft = 152;
constexpr int kTop = 46;
constexpr int kMargin = 16;
constexpr int kLegendItem = 126;

// Characters of one list of blocks; two lists and an arrow fit a box at its font size.
constexpr std::size_t kLabelCharacters = 10;

struct Point {
  double x = 0;
  double y = 0;
};

class Picture {
 public:
  explicit Picture(const Schedule& schedule) : schedule_(schedule), time_(logical_time(schedule)) {
    int y = kTop;
    for (const auto& lanes : schedule.ranks) {
      rank_top_.push_back(y);
      y += std::max(1, static_cast<int>(lanes.size())) * kLaneHeight + kRankGap;
    }
    bottom_ = y;
    width_ = std::max(kLeft + time_.ticks * kColumn, kLeft + 5 * kLegendItem) + kMargin;
  }

  std::string run() && {
    add_head();
    add_axes();
    // Arrows first, so that one which passes behind a box does not cross its label.
    add_arrows();
    for (const StepNode& node : time_.nodes) {
      add_step(node);
    }
    add_legend();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Args>(args)...);
    svg_ += '\n';
  }

  void add_head() {
    const Problem& p = schedule_.problem;
    const int height = bottom_ + 112;
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#000">)",
        width_,
        height);
    const std::string root = is_rooted(p.collective) ? fmt::format(", root {}", p.root) : "";
    const std::string title = svg_escaped(fmt::format("{} {}, {} {}{}: one tile",
                                                      name(p.collective),
                                                      schedule_.algorithm,
                                                      p.ranks,
                                                      p.ranks == 1 ? "rank" : "ranks",
                                                      root));
    add("<title>{}</title>", title);
    add(R"(<rect width="{}" height="{}" fill="#fff"/>)", width_, height);
    svg_ += "<defs>\n";
    svg_ += step_patterns();
    add(R"(<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" )"
        R"(orient="auto"><path d="M0 0L8 4L0 8Z"/></marker>)");
    svg_ += "</defs>\n";
    add(R"(<text x="{}" y="24" font-size="15" font-weight="bold">{}</text>)", kMargin, title);
  }

  void add_axes() {
    const int right = width_ - kMargin;
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& lanes = schedule_.ranks[rank];
      const int height = std::max(1, static_cast<int>(lanes.size())) * kLaneHeight;
      add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#f4f4f4"/>)",
          kMargin,
          rank_top_[rank],
          right - kMargin,
          height);
      add(R"(<text x="{}" y="{}" font-weight="bold">rank {}</text>)",
          kMargin + 6,
          rank_top_[rank] + kLaneHeight / 2 + 4,
          rank);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        add(R"(<text x="{}" y="{}" fill="#444" font-size="9" text-anchor="end">lane {}, {}</text>)",
            kLeft - 8,
            rank_top_[rank] + static_cast<int>(lane) * kLaneHeight + kLaneHeight / 2 + 4,
            lane,
            name(lanes[lane].need));
      }
    }
    add(R"(<path d="M{} {}H{}" stroke="#000" marker-end='url(#head)'/>)", kLeft, bottom_, right);
    for (int tick = 0; tick < time_.ticks; ++tick) {
      const int x = kLeft + tick * kColumn + kBoxWidth / 2;
      add(R"(<path d="M{0} {1}v5" stroke="#000"/>)"
          R"(<text x="{0}" y="{2}" text-anchor="middle">{3}</text>)",
          x,
          bottom_,
          bottom_ + 18,
          tick);
    }
    add(R"(<text x="{}" y="{}">logical time: steps before, on the longest chain{}</text>)",
        kLeft,
        bottom_ + 38,
        time_.cyclic ? " (steps wait for each other in a circle: this schedule cannot end)" : "");
  }

  [[nodiscard]] Point corner(const StepNode& node) const {
    return {.x = static_cast<double>(kLeft + node.tick * kColumn),
            .y = static_cast<double>(rank_top_[static_cast<std::size_t>(node.rank)] +
                                     node.lane * kLaneHeight + kBoxInset)};
  }

  [[nodiscard]] const Step& step_of(const StepNode& node) const {
    return schedule_.ranks[static_cast<std::size_t>(node.rank)][static_cast<std::size_t>(node.lane)]
        .steps[static_cast<std::size_t>(node.step)];
  }

  // Two of these and an arrow fit a box; the tooltip has the rest.
  static std::string shortened(const std::string& blocks) {
    return blocks.size() <= kLabelCharacters ? blocks
                                             : blocks.substr(0, kLabelCharacters - 1) + "…";
  }

  // What the step does; messages have their arrows.
  [[nodiscard]] std::string blocks_label(const Step& step) const {
    const std::string from = shortened(to_text(schedule_, step.from));
    const std::string to = shortened(to_text(schedule_, step.to));
    return from + (to.empty() ? "" : from.empty() ? "→ " : " → ") + to;
  }

  void add_step(const StepNode& node) {
    const Step& step = step_of(node);
    const Point at = corner(node);
    const bool forwards = !step.out.empty() && step.kind != StepKind::kSend;
    const std::string title = svg_escaped(fmt::format(
        "rank {} lane {} step {}: {}", node.rank, node.lane, node.step, to_text(schedule_, step)));
    add(R"(<g><title>{}</title>)"
        R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#fff" stroke="#000"/>)",
        title,
        at.x,
        at.y,
        kBoxWidth,
        kBoxHeight);
    add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill='url(#{})' stroke="#000"/>)",
        at.x,
        at.y,
        kStripeWidth,
        kBoxHeight,
        name(step.kind));
    add(R"(<text x="{}" y="{}" font-size="10" font-weight="bold">{}{}</text>)",
        at.x + kStripeWidth + 5,
        at.y + 14,
        name(step.kind),
        forwards && step.kind != StepKind::kToken ? "+send" : "");
    add(R"(<text x="{}" y="{}" font-size="10">{}</text></g>)",
        at.x + kStripeWidth + 5,
        at.y + 28,
        svg_escaped(blocks_label(step)));
  }

  void add_arrows() {
    // Arrows at one side of a box share its height evenly.
    std::vector<std::pair<int, int>> count(time_.nodes.size());
    std::vector<std::pair<int, int>> used(time_.nodes.size());
    const auto is_drawn = [](const StepEdge& edge) { return edge.kind != EdgeKind::kLane; };
    for (const StepEdge& edge : time_.edges) {
      count[edge.from].first += is_drawn(edge) ? 1 : 0;
      count[edge.to].second += is_drawn(edge) ? 1 : 0;
    }
    const auto height = [](int& index, int total) {
      return static_cast<double>(kBoxHeight) * ++index / (total + 1);
    };
    for (const StepEdge& edge : time_.edges) {
      if (is_drawn(edge)) {
        Point from = corner(time_.nodes[edge.from]);
        Point to = corner(time_.nodes[edge.to]);
        from.x += kBoxWidth;
        from.y += height(used[edge.from].first, count[edge.from].first);
        to.y += height(used[edge.to].second, count[edge.to].second);
        add_arrow(edge, from, to);
      }
    }
  }

  void add_arrow(const StepEdge& edge, Point from, Point to) {
    constexpr double kBend = 30;
    const bool is_message = edge.kind == EdgeKind::kMessage;
    add(R"(<path d="M{:.0f} {:.1f}C{:.0f} {:.1f} {:.0f} {:.1f} {:.0f} {:.1f}" fill="none" )"
        R"(stroke="{}"{} stroke-width="1.2" marker-end='url(#head)'/>)",
        from.x,
        from.y,
        from.x + kBend,
        from.y,
        to.x - kBend,
        to.y,
        to.x,
        to.y,
        is_message ? "#000" : "#0072B2",
        is_message ? "" : R"( stroke-dasharray="4 3")");
    if (is_message) {
      add(R"(<text x="{:.0f}" y="{:.1f}" font-size="8" text-anchor="end" )"
          R"(stroke="#fff" stroke-width="3" paint-order="stroke">c{}</text>)",
          to.x - 9,
          to.y - 3,
          edge.channel);
    }
  }

  void add_legend() {
    int x = kLeft;
    int y = bottom_ + 58;
    const auto next = [&] {
      x += kLegendItem;
      if (x + kLegendItem > width_) {
        x = kLeft;
        y += 22;
      }
    };
    for (const StepLook& look : kStepLooks) {
      const bool used = std::ranges::any_of(
          time_.nodes, [&](const StepNode& node) { return step_of(node).kind == look.kind; });
      if (used) {
        add(R"(<rect x="{}" y="{}" width="14" height="14" fill='url(#{})' stroke="#000"/>)",
            x,
            y,
            name(look.kind));
        add(R"(<text x="{}" y="{}">{}</text>)", x + 20, y + 11, name(look.kind));
        next();
      }
    }
    for (const EdgeKind kind : {EdgeKind::kMessage, EdgeKind::kAfter}) {
      if (std::ranges::count(time_.edges, kind, &StepEdge::kind) > 0) {
        const bool is_message = kind == EdgeKind::kMessage;
        add(R"(<path d="M{} {}h28" stroke="{}"{} marker-end='url(#head)'/>)",
            x,
            y + 7,
            is_message ? "#000" : "#0072B2",
            is_message ? "" : R"( stroke-dasharray="4 3")");
        add(R"(<text x="{}" y="{}">{}</text>)", x + 34, y + 11, is_message ? "message" : "after");
        next();
      }
    }
  }

  const Schedule& schedule_;
  LogicalTime time_;
  std::vector<int> rank_top_;
  int bottom_ = 0;
  int width_ = 0;
  std::string svg_;
};

}  // namespace

std::string space_time_svg(const Schedule& schedule) { return Picture(schedule).run(); }

}  // namespace sennit
