#include "algo/all_reduce/all_reduce.hpp"
#include "algo/groups.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

#include <algorithm>

namespace sennit::algo::all_reduce {
namespace {

// Two instances: a leader collects its group's next tile while it exchanges this one.
constexpr int kScratchDepth = 2;

// The first member of each group leads it. Each stage has lanes of its own, so that the stages of
// consecutive tiles overlap; within a tile they are ordered by `after`.
class Build {
 public:
  explicit Build(const Shape& shape)
      : groups_(shape),
        b_("hierarchical", {.collective = Collective::kAllReduce, .ranks = shape.ranks}),
        totals_(static_cast<std::size_t>(groups_.count())) {
    if (groups_.count() > 1 && groups_.largest() > 1) {
      partial_ = b_.scratch("partial", 1, kScratchDepth);
    }
  }

  Schedule run() {
    if (groups_.count() == 1) {
      totals_[0] = collect(0);
    } else {
      exchange();
    }
    for (int group = 0; group < groups_.count(); ++group) {
      spread(group);
    }
    return std::move(b_).finish();
  }

 private:
  [[nodiscard]] int leader(int group) const { return groups_.members(group).front(); }

  // The sum over a group, at its leader. Of a group alone it is the result; a leader alone has it
  // from the start.
  [[nodiscard]] Block partial(int group) const {
    return groups_.count() == 1       ? output_block(0)
           : groups_.size(group) == 1 ? input_block(0)
                                      : scratch_block(partial_, 0);
  }

  // Stage 1: the leader sums its group in the order of its members.
  StepRef collect(int group) {
    const LaneId sum = b_.lane(leader(group), Need::kReduce);
    if (groups_.size(group) == 1) {
      return b_.copy(sum, {input_block(0)}, {partial(group)});
    }
    Step step{.kind = StepKind::kRecvReduce, .from = {input_block(0)}, .to = {partial(group)}};
    for (const int member : groups_.other_members(leader(group))) {
      const LaneId sender = b_.lane(member, Need::kMove);
      step.in.push_back(b_.channel(sender, sum));
      b_.send(sender, {input_block(0)}, step.in.back());
    }
    return b_.step(sum, std::move(step));
  }

  // Stage 2: all leaders exchange, and sum in the order of the groups, so that they form one
  // expression. In one lane: in place, the partial sum of a leader alone lies where the total will.
  void exchange() {
    std::vector<int> leaders;
    for (int group = 0; group < groups_.count(); ++group) {
      leaders.push_back(leader(group));
    }
    const auto lanes = lanes_on(b_, leaders, Need::kReduce);
    const auto channels = pair_channels(b_, lanes, lanes);
    for (int group = 0; group < groups_.count(); ++group) {
      const bool alone = groups_.size(group) == 1;
      const StepRef collected = alone ? StepRef{} : collect(group);
      for (const int peer : successors(group, groups_.count())) {
        b_.send(at(lanes, group), {partial(group)}, at(at(channels, group), peer));
        if (!alone) {
          b_.after(at(lanes, group), {collected});
        }
      }
      totals_[static_cast<std::size_t>(group)] = b_.step(
          at(lanes, group), reduce_in_order(channels, group, {partial(group)}, {output_block(0)}));
    }
  }

  // Stage 3: a lane a member, so that a slow one does not hold up the others.
  void spread(int group) {
    for (const int member : groups_.other_members(leader(group))) {
      const LaneId sender = b_.lane(leader(group), Need::kMove);
      const LaneId receiver = b_.lane(member, Need::kMove);
      const int channel = b_.channel(sender, receiver);
      b_.send(sender, {output_block(0)}, channel);
      b_.after(sender, {at(totals_, group)});
      b_.recv(receiver, channel, {output_block(0)});
    }
  }

  Groups groups_;
  Builder b_;
  int partial_ = 0;
  std::vector<StepRef> totals_;  // by group, at its leader
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  const bool from_leader = groups.place_of(from) == 0;
  const bool to_leader = groups.place_of(to) == 0;
  const bool same_group = groups.group_of(from) == groups.group_of(to);
  return from != to && (same_group ? from_leader || to_leader : from_leader && to_leader) ? 1 : 0;
}

}  // namespace

// A chain goes up in one group, across, and down in another one; so it has all three stages only if
// two groups have more than one member.
std::int64_t hierarchical_rounds(const Shape& shape) {
  const Groups groups(shape);
  if (groups.count() == 1) {
    return shape.ranks == 1 ? 0 : 2;
  }
  return 1 + std::min(groups.count_of_many(), 2);
}

Algorithm hierarchical() {
  return {
      .collective = Collective::kAllReduce,
      .name = "hierarchical",
      .summary = "three stages: to the leader of each group, among the leaders, back to the groups",
      .source = "Temucin et al. 2021 (hierarchical pipelined all-reduce)",
      .build = build,
      .refuses = refuses_nothing,
      .blocks_on_link = blocks_on_link,
      .rounds = hierarchical_rounds,
      .in_place = true,
      .takes_groups = true};
}

}  // namespace sennit::algo::all_reduce
