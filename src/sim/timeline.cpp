#include "sim/timeline.hpp"

#include "base/svg_text.hpp"
#include "schedule/step_looks.hpp"
#include "schedule/text.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace sennit {
namespace {

const Step& step_of(const Plan& plan, const TimelineEvent& event) {
  return plan.strands[static_cast<std::size_t>(event.strand)]
      .schedule->ranks[static_cast<std::size_t>(event.rank)][static_cast<std::size_t>(event.lane)]
      .steps[static_cast<std::size_t>(event.step)];
}

// A row of the picture, a thread of the trace.
using RowKey = std::tuple<int, int, int, int>;  // rank, strand, lane, copy

RowKey row_of(const TimelineEvent& event) {
  return {event.rank, event.strand, event.lane, event.copy};
}

std::map<RowKey, int> number_rows(const Simulation& run, int max_ranks) {
  std::map<RowKey, int> rows;
  for (const TimelineEvent& event : run.timeline) {
    if (event.rank < max_ranks) {
      rows.emplace(row_of(event), 0);
    }
  }
  int number = 0;
  for (auto& [key, row] : rows) {
    row = number++;
  }
  return rows;
}

// 1, 2 or 5 times a power of ten, so that about `count` of them fill `length`.
double round_step(double length, double count) {
  const double raw = length / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) {
      return factor * power;
    }
  }
  return 10 * power;
}

// Lengths in pixels.
constexpr int kLeft = 190;
constexpr int kPlotWidth = 1000;
constexpr int kRight = 24;
constexpr int kTop = 64;
constexpr int kRowHeight = 16;
constexpr int kBarHeight = 12;
constexpr int kLegendItem = 120;
constexpr int kAxisHeight = 44;
constexpr std::size_t kMaxLinks = 40;

class Picture {
 public:
  Picture(const Plan& plan, const Simulation& run, std::string_view of, int max_ranks)
      : plan_(plan), run_(run), of_(of), rows_(number_rows(run, max_ranks)) {
    end_us_ = std::max(run.seconds * 1e6, 1e-6);
    links_ = run.resources;
    std::ranges::stable_sort(links_, std::greater<>(), &ResourceUse::busy);
    links_.resize(std::min(links_.size(), kMaxLinks));
    rows_bottom_ = kTop + static_cast<int>(rows_.size()) * kRowHeight;
    links_top_ = rows_bottom_ + kAxisHeight + 30;
    height_ = links_top_ + static_cast<int>(links_.size()) * kRowHeight + kAxisHeight;
  }

  std::string run() && {
    add_head();
    add_rows();
    add_axis(rows_bottom_, kTop, end_us_, "time in us");
    add_links();
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
    const int width = kLeft + kPlotWidth + kRight;
    const Schedule& schedule = *plan_.strands.front().schedule;
    const std::string title =
        svg_escaped(fmt::format("{} {} of {}, {} ranks, {} strand{}, tile {} bytes: {:.2f} us",
                                name(schedule.problem.collective),
                                schedule.algorithm,
                                of_,
                                schedule.problem.ranks,
                                plan_.strands.size(),
                                plan_.strands.size() == 1 ? "" : "s",
                                plan_.strands.front().tile_bytes,
                                end_us_));
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#000">)",
        width,
        height_);
    add("<title>{}</title>", title);
    add(R"(<rect width="{}" height="{}" fill="#fff"/>)", width, height_);
    add("<defs>\n{}</defs>", step_patterns());
    add(R"(<text x="16" y="24" font-size="15" font-weight="bold">{}</text>)", title);
    int x = kLeft;
    for (const StepLook& look : kStepLooks) {
      add(R"svg(<rect x="{}" y="36" width="20" height="12" fill="url(#{})" stroke="#000"/>)svg",
          x,
          name(look.kind));
      add(R"(<text x="{}" y="46">{}</text>)", x + 26, name(look.kind));
      x += kLegendItem;
    }
  }

  void add_rows() {
    for (const auto& [key, row] : rows_) {
      const auto& [rank, strand, lane, copy] = key;
      std::string label = fmt::format("rank {} lane {}", rank, lane);
      label += plan_.strands.size() > 1 ? fmt::format(" strand {}", strand) : "";
      label += plan_.strands[static_cast<std::size_t>(strand)].width > 1
                   ? fmt::format(" copy {}", copy)
                   : "";
      add(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)",
          kLeft - 8,
          kTop + row * kRowHeight + kBarHeight - 1,
          label);
    }
    for (const TimelineEvent& event : run_.timeline) {
      const auto row = rows_.find(row_of(event));
      if (row == rows_.end()) {
        continue;
      }
      const Step& step = step_of(plan_, event);
      const Schedule& schedule = *plan_.strands[static_cast<std::size_t>(event.strand)].schedule;
      const double begin = event.begin_us / end_us_ * kPlotWidth;
      const double width = (event.end_us - event.begin_us) / end_us_ * kPlotWidth;
      add(R"svg(<rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" fill="url(#{})" )svg"
          R"(stroke="#000" stroke-width="0.5"><title>tile {}: {}, )"
          R"({:.2f} to {:.2f} us</title></rect>)",
          kLeft + begin,
          kTop + row->second * kRowHeight,
          std::max(width, 0.5),
          kBarHeight,
          name(step.kind),
          event.tile,
          svg_escaped(to_text(schedule, step)),
          event.begin_us,
          event.end_us);
    }
  }

  // A horizontal axis at `y` with grid lines up to `top`.
  void add_axis(int y, int top, double end, std::string_view label) {
    const double tick = round_step(end, 10);
    for (int i = 0; i * tick <= end * (1 + 1e-9); ++i) {
      const double x = kLeft + i * tick / end * kPlotWidth;
      add(R"(<path d="M{:.2f} {}V{}" stroke="#999" stroke-width="0.5"/>)", x, top, y + 4);
      add(R"(<text x="{:.2f}" y="{}" text-anchor="middle">{:.4g}</text>)", x, y + 16, i * tick);
    }
    add(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)",
        kLeft + kPlotWidth / 2,
        y + 32,
        label);
  }

  void add_links() {
    int y = links_top_;
    for (const ResourceUse& link : links_) {
      add(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)",
          kLeft - 8,
          y + kBarHeight - 1,
          svg_escaped(link.name));
      add(R"(<rect x="{}" y="{}" width="{:.2f}" height="{}" fill="#0072B2"/>)",
          kLeft,
          y,
          link.busy * kPlotWidth,
          kBarHeight);
      y += kRowHeight;
    }
    if (!links_.empty()) {
      add_axis(y, links_top_, 100, "use of links over the whole run, in %");
    }
  }

  const Plan& plan_;
  const Simulation& run_;
  std::string_view of_;
  std::map<RowKey, int> rows_;
  std::vector<ResourceUse> links_;
  double end_us_ = 1;
  int rows_bottom_ = 0;
  int links_top_ = 0;
  int height_ = 0;
  std::string svg_;
};

}  // namespace

Json trace_json(const Plan& plan, const Simulation& run) {
  Json events = Json::array();
  const auto rows = number_rows(run, plan.problem().ranks);
  for (const auto& [key, row] : rows) {
    const auto& [rank, strand, lane, copy] = key;
    events.push_back(
        {{"name", "thread_name"},
         {"ph", "M"},
         {"pid", rank},
         {"tid", row},
         {"args", {{"name", fmt::format("strand {} lane {} copy {}", strand, lane, copy)}}}});
  }
  for (const TimelineEvent& event : run.timeline) {
    const Schedule& schedule = *plan.strands[static_cast<std::size_t>(event.strand)].schedule;
    const Step& step = step_of(plan, event);
    events.push_back({{"name", name(step.kind)},
                      {"ph", "X"},
                      {"pid", event.rank},
                      {"tid", rows.at(row_of(event))},
                      {"ts", event.begin_us},
                      {"dur", event.end_us - event.begin_us},
                      {"args", {{"tile", event.tile}, {"step", to_text(schedule, step)}}}});
  }
  return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
}

std::string timeline_svg(const Plan& plan,
                         const Simulation& run,
                         std::string_view of,
                         int max_ranks) {
  return Picture(plan, run, of, max_ranks).run();
}

}  // namespace sennit
