#include "sim/stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sennit::sim {
namespace {

// Blocks of a kernel begin one after the other: one in each of eight clusters a nanosecond, by
// estimate. What begins in step stays in step among flows that share fairly, and then no block
// sends while another one sums; what begins with a gap gets a larger gap. So it matters most that
// they differ: 8 ns instead make an all_reduce of 2 ranks from 64 MB on up to an eighth faster,
// other calls up to 3 %. Blocks that run step by step wait for other ranks in every step, and are
// left in step.
constexpr int kBeginTogether = 8;
constexpr Time kBeginApart = 1000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

bool Stage::is_over(const RunningLane& lane, const Wait& wait) const {
  const std::int64_t tile = lane.last_tile() - wait.delay;
  if (tile < 0) {
    return true;
  }
  const RunningLane& other = lanes[at(copy_of(lane).first_lane + wait.lane)];
  const std::int64_t unit = tile / other.burst;
  return other.unit > unit || (other.unit == unit && other.step > wait.step);
}

bool Stage::is_released(const RunningLane& lane) const {
  return std::ranges::all_of(step_of(lane).sent, [&](const Sent& out) {
    return channels.is_released(channel_of(lane, out.channel));
  });
}

bool Stage::is_taken(const RunningLane& lane, const CostStep& step, const Part& part) const {
  if (part.alternative < 0) {
    return true;
  }
  const int channel = channel_of(lane, part.channel);
  const auto in = std::ranges::find(step.taken, part.channel, &Taken::channel);
  const std::int64_t message =
      in == step.taken.end() ? channels.sent(channel) : channels.taken(channel, in->reader);
  return channels.path_of(channel, message) == part.alternative;
}

Status Stage::set(const Plan& plan, Fabric& fabric, const SimulationRequest& request) {
  callers.resize(at(plan.problem().ranks));
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const Strand& strand = plan.strands[s];
    SENNIT_ASSIGN_OR_RETURN(CostForm form, CostForm::build(strand, fabric, request.in_turn));
    forms.push_back(std::move(form));
    layouts.push_back(lay_out(plan, static_cast<int>(s), request.count, request.element_bytes));
    for (int copy = 0; copy < strand.width; ++copy) {
      add_copy(plan, static_cast<int>(s), copy);
    }
  }
  return {};
}

void Stage::add_copy(const Plan& plan, int strand, int copy) {
  const StrandCopy here{.strand = strand,
                        .copy = copy,
                        .first_lane = static_cast<int>(lanes.size()),
                        .first_channel = channels.size()};
  copies.push_back(here);
  const int width = plan.strands[at(strand)].width;
  add_lanes(plan.strands[at(strand)], (layouts.back().tiles - copy + width - 1) / width);
  add_channels(plan.strands[at(strand)], here.first_lane);
}

// Of the last copy, each of which has so many tiles.
void Stage::add_lanes(const Strand& bound, std::int64_t tiles) {
  const CostForm& form = forms.back();
  int block = -1;
  int rank = -1;
  for (std::size_t l = 0; l < form.flat().lanes().size(); ++l) {
    const FlatStrand::LaneInfo& info = form.flat().lanes()[l];
    const auto number = static_cast<int>(lanes.size());
    if (info.rank != rank) {
      rank = info.rank;
      block = rounds.add(number, form.round_tiles());
    }
    rounds.add_lane(block);
    const bool drifts =
        bound.lanes[at(rank)][at(info.lane)].engine == Engine::kSm && !bound.by_steps;
    callers[at(rank)].lanes.push_back(number);
    lanes.push_back(
        {.copy = static_cast<int>(copies.size()) - 1,
         .block = block,
         .flat = static_cast<int>(l),
         .goes_last = form.goes_last(static_cast<int>(l)),
         .burst = info.burst,
         .tiles = tiles,
         .units = info.steps == 0 ? 0 : (tiles + info.burst - 1) / info.burst,
         .begins_after = drifts ? copies.back().copy / kBeginTogether * kBeginApart : 0});
  }
}

void Stage::add_channels(const Strand& bound, int first_lane) {
  const FlatStrand& flat = forms.back().flat();
  const auto number = [&](LaneId lane) {
    return first_lane + flat.lane_index(lane.rank, lane.lane);
  };
  for (std::size_t c = 0; c < bound.channels.size(); ++c) {
    const sennit::Channel& ends = bound.schedule->channels[c];
    ChannelCounts::Ends numbers{.slots = bound.channels[c].slots,
                                .writer = number(ends.writer),
                                .paths = static_cast<int>(bound.channels[c].paths.size())};
    for (const LaneId reader : ends.readers) {
      numbers.readers.push_back(number(reader));
    }
    const int channel = channels.add(std::move(numbers));
    if (channels.is_bundle(channel)) {
      callers[at(ends.writer.rank)].bundles.push_back(channel);
    }
  }
}

Time call_time(const Plan& plan, const Topology& machine) {
  const bool kernels = std::ranges::any_of(plan.strands, [](const Strand& strand) {
    return std::ranges::any_of(strand.lanes, [](const std::vector<LaneBinding>& lanes) {
      return std::ranges::find(lanes, Engine::kSm, &LaneBinding::engine) != lanes.end();
    });
  });
  constexpr double kTicksPerMicrosecond = 1e6;
  double most_us = 0;
  for (const Vertex& vertex : machine.vertices) {
    most_us = std::max(most_us, vertex.call_us);
  }
  return kernels ? std::llround(most_us * kTicksPerMicrosecond) : 0;
}

}  // namespace sennit::sim
