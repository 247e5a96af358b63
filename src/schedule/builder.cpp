#include "schedule/builder.hpp"

#include <utility>

namespace sennit {
namespace {

Blocks blocks_of(Block (*make)(int), int count) {
  Blocks blocks;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(make(i));
  }
  return blocks;
}

}  // namespace

Blocks input_blocks(int count) { return blocks_of(input_block, count); }
Blocks output_blocks(int count) { return blocks_of(output_block, count); }

Builder::Builder(std::string algorithm, const Problem& problem) {
  schedule_.algorithm = std::move(algorithm);
  schedule_.problem = problem;
  schedule_.ranks.resize(static_cast<std::size_t>(problem.ranks));
}

LaneId Builder::lane(int rank, Need need) {
  auto& lanes = schedule_.ranks.at(static_cast<std::size_t>(rank));
  lanes.push_back({need, {}});
  return {rank, static_cast<int>(lanes.size()) - 1};
}

std::vector<LaneId> Builder::lane_on_every_rank(Need need) {
  std::vector<LaneId> lanes;
  for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
    lanes.push_back(lane(rank, need));
  }
  return lanes;
}

int Builder::scratch(std::string name, int blocks, int depth, Place place) {
  schedule_.scratch.push_back({std::move(name), blocks, depth, place});
  return static_cast<int>(schedule_.scratch.size()) - 1;
}

int Builder::channel(LaneId writer, LaneId reader) { return hub(writer, {reader}); }

int Builder::hub(LaneId writer, std::vector<LaneId> readers) {
  schedule_.channels.push_back({writer, std::move(readers), false});
  return static_cast<int>(schedule_.channels.size()) - 1;
}

int Builder::single_hop_channel(LaneId writer, LaneId reader) {
  const int index = channel(writer, reader);
  schedule_.channels.back().single_hop = true;
  return index;
}

StepRef Builder::send(LaneId lane, Blocks from, int channel) {
  return step(lane, {.kind = StepKind::kSend, .from = std::move(from), .out = {channel}});
}

StepRef Builder::recv(LaneId lane, int channel, Blocks to) {
  return step(lane, {.kind = StepKind::kRecv, .to = std::move(to), .in = {channel}});
}

StepRef Builder::recv_reduce(LaneId lane, int channel, Blocks from, Blocks to) {
  return step(lane,
              {.kind = StepKind::kRecvReduce,
               .from = std::move(from),
               .to = std::move(to),
               .in = {channel}});
}

StepRef Builder::copy(LaneId lane, Blocks from, Blocks to) {
  return step(lane, {.kind = StepKind::kCopy, .from = std::move(from), .to = std::move(to)});
}

StepRef Builder::token(LaneId lane, std::vector<int> in, std::vector<int> out) {
  return step(lane, {.kind = StepKind::kToken, .in = std::move(in), .out = std::move(out)});
}

StepRef Builder::step(LaneId lane, Step step) {
  auto& steps = schedule_.ranks.at(static_cast<std::size_t>(lane.rank))
                    .at(static_cast<std::size_t>(lane.lane))
                    .steps;
  steps.push_back(std::move(step));
  return {lane.lane, static_cast<int>(steps.size()) - 1};
}

void Builder::after(LaneId lane, std::initializer_list<StepRef> steps) {
  auto& list = schedule_.ranks.at(static_cast<std::size_t>(lane.rank))
                   .at(static_cast<std::size_t>(lane.lane))
                   .steps;
  Step& last = list.at(list.size() - 1);  // without a step this throws, as a wrong index does
  last.after.insert(last.after.end(), steps);
}

Schedule Builder::finish() && { return std::move(schedule_); }

}  // namespace sennit
