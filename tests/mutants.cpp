#include "mutants.hpp"

#include "schedule_edits.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

// ---- The kinds ----

// With its messages: at their other ends they are not named any more, and what is idle then goes,
// too.
bool remove_any(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const auto place = any_step(random, schedule, is_any);
  if (!place) {
    return false;
  }
  const std::vector<Use> uses = uses_of(schedule, *place);
  std::vector<std::pair<Place, Use>> ends;
  for (const Use& use : uses) {
    for (const Place& end : other_ends(schedule, use)) {
      ends.emplace_back(end, use);
    }
  }
  for (const auto& [end, use] : ends) {
    Step& step = step_at(schedule, end);
    auto& named = use.sends ? step.in : step.out;
    named.erase(std::ranges::find(named, use.channel));
  }
  remove_step(schedule, *place);
  while (const auto idle = any_step(random, schedule, [](const Step& step) {
           return step.in.empty() && step.out.empty() && step.kind != StepKind::kCopy &&
                  step.kind != StepKind::kReduce;
         })) {
    remove_step(schedule, *idle);
  }
  return true;
}

bool double_any(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const auto place = any_step(random, schedule, is_any);
  if (!place) {
    return false;
  }
  std::vector<Place> twice{*place};
  for (const Use& use : uses_of(schedule, *place)) {
    const std::vector<Place> ends = other_ends(schedule, use);
    twice.insert(twice.end(), ends.begin(), ends.end());
  }
  for (const Place& each : twice) {
    insert_step(schedule, {each.lane, each.step + 1}, step_at(schedule, each));
  }
  return true;
}

bool swap_neighbours(Random& random, Mutant& mutant) {
  const auto place = any_step(random, mutant.schedule, is_any);
  if (!place || place->step == 0) {
    return false;
  }
  std::swap(step_at(mutant.schedule, *place),
            step_at(mutant.schedule, {place->lane, place->step - 1}));
  return true;
}

// Two channels exchange their readers.
bool change_peer(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const int channels = static_cast<int>(schedule.channels.size());
  if (channels < 2) {
    return false;
  }
  const int a = pick(random, channels);
  const int b = pick(random, channels);
  Channel& first = schedule.channels[static_cast<std::size_t>(a)];
  Channel& second = schedule.channels[static_cast<std::size_t>(b)];
  const bool fits = a != b && first.readers.size() == 1 && second.readers.size() == 1 &&
                    first.readers[0].rank != second.readers[0].rank &&
                    first.writer.rank != second.readers[0].rank &&
                    second.writer.rank != first.readers[0].rank &&
                    messages_per_tile(schedule, a) == messages_per_tile(schedule, b);
  if (!fits) {
    return false;
  }
  const auto rename = [&](LaneId reader, int from, int to) {
    for (Step& step : lane_at(schedule, reader).steps) {
      std::ranges::replace(step.in, from, to);
    }
  };
  rename(first.readers[0], a, b);
  rename(second.readers[0], b, a);
  std::swap(first.readers, second.readers);
  return true;
}

int blocks_of(const Schedule& schedule, int rank, const Block& block) {
  switch (block.space) {
    case Space::kInput:
      return schedule.problem.input_blocks(rank);
    case Space::kOutput:
      return schedule.problem.output_blocks(rank);
    case Space::kScratch:
      return schedule.scratch[static_cast<std::size_t>(block.scratch)].blocks;
  }
  return 0;
}

// Any block that a step names, with its rank.
std::pair<Block*, int> any_block(Random& random, Schedule& schedule) {
  const auto place =
      any_step(random, schedule, [](const Step& s) { return !s.from.empty() || !s.to.empty(); });
  if (!place) {
    return {nullptr, 0};
  }
  Step& step = step_at(schedule, *place);
  const int count = static_cast<int>(step.from.size() + step.to.size());
  const auto chosen = static_cast<std::size_t>(pick(random, count));
  Block& block = chosen < step.from.size() ? step.from[chosen] : step.to[chosen - step.from.size()];
  return {&block, place->lane.rank};
}

bool change_block(Random& random, Mutant& mutant) {
  const auto [block, rank] = any_block(random, mutant.schedule);
  if (block == nullptr || blocks_of(mutant.schedule, rank, *block) < 2) {
    return false;
  }
  const int blocks = blocks_of(mutant.schedule, rank, *block);
  block->index = (block->index + 1 + pick(random, blocks - 1)) % blocks;
  return true;
}

// The block of the same or the nearest number in another buffer.
bool change_buffer(Random& random, Mutant& mutant) {
  const auto [block, rank] = any_block(random, mutant.schedule);
  if (block == nullptr) {
    return false;
  }
  Block other =
      block->space == Space::kInput ? output_block(block->index) : input_block(block->index);
  if (!mutant.schedule.scratch.empty() && block->space != Space::kScratch && pick(random, 3) == 0) {
    other = scratch_block(0, block->index);
  }
  const int blocks = blocks_of(mutant.schedule, rank, other);
  if (blocks == 0) {
    return false;
  }
  other.index = std::min(other.index, blocks - 1);
  *block = other;
  return true;
}

bool lose_an_operand(Random& random, Mutant& mutant) {
  const auto place = any_step(random, mutant.schedule, [](const Step& s) {
    return (s.kind == StepKind::kRecvReduce && !s.from.empty() &&
            (s.in.size() > 1 || !s.to.empty() || !s.out.empty())) ||
           s.kind == StepKind::kReduce;
  });
  if (!place) {
    return false;
  }
  Step& step = step_at(mutant.schedule, *place);
  step.order.clear();
  if (step.kind == StepKind::kRecvReduce) {
    step.from.clear();
    step.kind = step.in.size() == 1 ? StepKind::kRecv : StepKind::kRecvReduce;
  } else {
    step.from.resize(step.to.size());
    step.kind = StepKind::kCopy;
  }
  return true;
}

// A message is added to what lies where it should have been stored.
bool add_an_operand(Random& random, Mutant& mutant) {
  const auto place = any_step(random, mutant.schedule, [](const Step& s) {
    return s.kind == StepKind::kRecv && !s.to.empty();
  });
  if (!place) {
    return false;
  }
  Step& step = step_at(mutant.schedule, *place);
  step.kind = StepKind::kRecvReduce;
  step.from = step.to;
  for (Block& block : step.from) {
    const int inputs = mutant.schedule.problem.input_blocks(place->lane.rank);
    if (inputs > 0 && pick(random, 2) == 0) {
      block = input_block(std::min(block.index, inputs - 1));
    }
  }
  return true;
}

bool reorder_operands(Random& random, Mutant& mutant) {
  const auto operands = [](const Step& s) -> std::size_t {
    if (s.kind == StepKind::kReduce) {
      return s.from.size() / s.to.size();
    }
    return s.kind == StepKind::kRecvReduce ? s.in.size() + (s.from.empty() ? 0 : 1) : 0;
  };
  const auto place =
      any_step(random, mutant.schedule, [&](const Step& s) { return operands(s) > 1; });
  if (!place) {
    return false;
  }
  Step& step = step_at(mutant.schedule, *place);
  const std::vector<int> before = step.order;
  step.order.resize(operands(step));
  std::iota(step.order.begin(), step.order.end(), 0);
  std::ranges::shuffle(step.order, random);
  return step.order != before;
}

void move_ends(Schedule& schedule, LaneId from, LaneId to, const std::vector<int>& channels) {
  for (const int c : channels) {
    Channel& channel = schedule.channels[static_cast<std::size_t>(c)];
    channel.writer = channel.writer == from ? to : channel.writer;
    std::ranges::replace(channel.readers, from, to);
  }
}

std::vector<int> channels_of(const std::vector<Step>& steps) {
  std::vector<int> channels;
  for (const Step& step : steps) {
    channels.insert(channels.end(), step.in.begin(), step.in.end());
    channels.insert(channels.end(), step.out.begin(), step.out.end());
  }
  return channels;
}

// The steps of one lane behind those of another of the rank, which stays without steps.
bool merge_lanes(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const int rank = pick(random, schedule.problem.ranks);
  const int lanes = static_cast<int>(schedule.ranks[static_cast<std::size_t>(rank)].size());
  if (lanes < 2) {
    return false;
  }
  const LaneId first{rank, pick(random, lanes)};
  const LaneId second{rank, (first.lane + 1 + pick(random, lanes - 1)) % lanes};
  auto& kept = lane_at(schedule, first).steps;
  auto& moved = lane_at(schedule, second).steps;
  if (kept.empty() || moved.empty()) {
    return false;
  }
  const int offset = static_cast<int>(kept.size());
  move_ends(schedule, second, first, channels_of(moved));
  kept.insert(kept.end(), moved.begin(), moved.end());
  moved.clear();
  for (Lane& lane : schedule.ranks[static_cast<std::size_t>(rank)]) {
    for (Step& step : lane.steps) {
      for (StepRef& ref : step.after) {
        ref = ref.lane == second.lane ? StepRef{first.lane, ref.step + offset} : ref;
      }
    }
  }
  return true;
}

// The later steps of a lane in a new lane of their own, with the channels that only they use.
bool split_lane(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const auto place = any_step(random, schedule, is_any);
  if (!place || place->step == 0) {
    return false;
  }
  auto& lanes = schedule.ranks[static_cast<std::size_t>(place->lane.rank)];
  const LaneId fresh{place->lane.rank, static_cast<int>(lanes.size())};
  lanes.push_back({.need = lane_at(schedule, place->lane).need, .steps = {}});
  auto& steps = lane_at(schedule, place->lane).steps;
  auto& later = lanes.back().steps;
  later.assign(steps.begin() + place->step, steps.end());
  steps.resize(static_cast<std::size_t>(place->step));
  move_ends(schedule, place->lane, fresh, channels_of(later));
  for (Lane& lane : lanes) {
    for (Step& step : lane.steps) {
      for (StepRef& ref : step.after) {
        ref = ref.lane == place->lane.lane && ref.step >= place->step
                  ? StepRef{fresh.lane, ref.step - place->step}
                  : ref;
      }
    }
  }
  return true;
}

bool drop_after(Random& random, Mutant& mutant) {
  const auto place =
      any_step(random, mutant.schedule, [](const Step& s) { return !s.after.empty(); });
  if (!place) {
    return false;
  }
  auto& after = step_at(mutant.schedule, *place).after;
  after.erase(after.begin() + pick(random, static_cast<int>(after.size())));
  return true;
}

bool drop_slots(Random&, Mutant& mutant) {
  mutant.slots = 1;
  return !mutant.schedule.channels.empty();
}

bool drop_scratch_instance(Random& random, Mutant& mutant) {
  auto& scratch = mutant.schedule.scratch;
  if (scratch.empty()) {
    return false;
  }
  Scratch& any = scratch[static_cast<std::size_t>(pick(random, static_cast<int>(scratch.size())))];
  // One instance less, or one block less where there is one instance.
  return any.depth > 1 ? --any.depth > 0 : --any.blocks > 0;
}

bool change_root(Random& random, Mutant& mutant) {
  Problem& problem = mutant.schedule.problem;
  if (!is_rooted(problem.collective) || problem.ranks < 2) {
    return false;
  }
  problem.root = (problem.root + 1 + pick(random, problem.ranks - 1)) % problem.ranks;
  return true;
}

// A fused step becomes a step that stores and a send of what it stored: what was never stored gets
// scratch.
bool undo_fusion(Random& random, Mutant& mutant) {
  Schedule& schedule = mutant.schedule;
  const auto place = any_step(random, schedule, [](const Step& s) {
    return !s.in.empty() && !s.out.empty() && s.kind != StepKind::kToken;
  });
  if (!place) {
    return false;
  }
  Step& fused = step_at(schedule, *place);
  if (fused.to.empty()) {
    if (fused.from.empty()) {
      return false;  // it does not say how many blocks pass
    }
    const int last = std::ranges::max_element(fused.from, {}, &Block::index)->index;
    schedule.scratch.push_back({.name = "undone", .blocks = last + 1});
    for (const Block& block : fused.from) {
      fused.to.push_back(scratch_block(static_cast<int>(schedule.scratch.size()) - 1, block.index));
    }
  }
  Step send{.kind = StepKind::kSend, .from = fused.to, .out = std::exchange(fused.out, {})};
  insert_step(schedule, {place->lane, place->step + 1}, std::move(send));
  return true;
}

bool flip_single_hop(Random& random, Mutant& mutant) {
  auto& channels = mutant.schedule.channels;
  if (channels.empty()) {
    return false;
  }
  Channel& any =
      channels[static_cast<std::size_t>(pick(random, static_cast<int>(channels.size())))];
  any.single_hop = !any.single_hop;
  return true;
}

}  // namespace

std::span<const MutantKind> mutant_kinds() {
  static constexpr std::array kKinds = {
      MutantKind{
          "step removed", remove_any, "a copy of a block onto itself; tokens that others imply"},
      MutantKind{"step doubled", double_any, "the same block is stored twice"},
      MutantKind{"neighbours swapped", swap_neighbours, "the two do not depend on each other"},
      MutantKind{"peer changed", change_peer, "both channels carry the same blocks, or tokens"},
      MutantKind{"block changed", change_block, "scratch blocks that are free at that time"},
      MutantKind{"buffer changed", change_buffer, "both hold the same value then"},
      MutantKind{"operand lost", lose_an_operand, ""},
      MutantKind{"operand added", add_an_operand, ""},
      MutantKind{
          "operands reordered", reorder_operands, "the sum is nobody else's, or the first two"},
      MutantKind{"lanes merged", merge_lanes, "less overlap, and no circle"},
      MutantKind{"lane split", split_lane, "the parts do not depend on each other"},
      MutantKind{"after dropped", drop_after, "another wait implies it"},
      MutantKind{"one slot", drop_slots, "no circle of ranks holds a message in its hand"},
      MutantKind{"scratch dropped", drop_scratch_instance, "tiles overlap less"},
      MutantKind{"root changed", change_root, ""},
      MutantKind{"fusion undone", undo_fusion, "fusion changes no value"},
      MutantKind{
          "single_hop flipped", flip_single_hop, "the mark may be missing; it must not be false"},
  };
  return kKinds;
}

}  // namespace sennit::tests
