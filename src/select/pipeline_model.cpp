#include "select/pipeline_model.hpp"

#include "schedule/logical_time.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace sennit {
namespace {

// Steps that send: the others take no time where bytes are put straight into place.
int sends(const Step& step) { return step.out.empty() ? 0 : 1; }

int busiest_lane(const Schedule& schedule) {
  int busiest = 1;
  for (const auto& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) {
      int count = 0;
      for (const Step& step : lane.steps) {
        count += sends(step);
      }
      busiest = std::max(busiest, count);
    }
  }
  return busiest;
}

// The most sends of one tile that wait for each other.
int longest_chain(const Schedule& schedule) {
  const LogicalTime time = logical_time(schedule);
  std::vector<std::size_t> by_tick(time.nodes.size());
  std::iota(by_tick.begin(), by_tick.end(), 0);
  std::ranges::stable_sort(by_tick, {}, [&](std::size_t node) { return time.nodes[node].tick; });
  std::vector<std::vector<std::size_t>> before(time.nodes.size());
  for (const StepEdge& edge : time.edges) {
    before[edge.to].push_back(edge.from);
  }
  std::vector<int> chain(time.nodes.size(), 0);
  int longest = 1;
  for (const std::size_t node : by_tick) {
    const StepNode& at = time.nodes[node];
    for (const std::size_t earlier : before[node]) {
      chain[node] = std::max(chain[node], chain[earlier]);
    }
    chain[node] +=
        sends(schedule.ranks[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.lane)]
                  .steps[static_cast<std::size_t>(at.step)]);
    longest = std::max(longest, chain[node]);
  }
  return longest;
}

}  // namespace

double PipelineModel::seconds(double block_bytes, double tile_bytes) const {
  const double tile = std::min(tile_bytes, block_bytes);
  const double tiles = tile > 0 ? std::ceil(block_bytes / tile) : 1;
  return ((tiles - 1) * lane_steps + rounds) * (start_s + message_blocks * tile / bytes_per_s);
}

double PipelineModel::best_tile_bytes(double block_bytes) const {
  const double waiting = message_blocks * (rounds - lane_steps);
  if (waiting <= 0) {
    return block_bytes;
  }
  return std::min(block_bytes,
                  std::sqrt(block_bytes * lane_steps * start_s * bytes_per_s / waiting));
}

PipelineModel pipeline_model(const Schedule& schedule) {
  PipelineModel model;
  model.lane_steps = busiest_lane(schedule);
  model.rounds = longest_chain(schedule);
  model.message_blocks = std::max(1, largest_message_blocks(schedule));
  return model;
}

}  // namespace sennit
