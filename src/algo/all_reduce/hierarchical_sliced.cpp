#include "algo/all_reduce/all_reduce.hpp"
#include "algo/groups.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::all_reduce {
namespace {

// Two instances: a group collects the next tile while this one crosses.
constexpr int kScratchDepth = 2;

// The vector is cut into as many slices as the largest group has members. Member i of a group of g
// leads slices i, i + g, ...: one where groups are equal, several in a smaller one.
class Build {
 public:
  explicit Build(const Shape& shape)
      : groups_(shape),
        slices_(groups_.largest()),
        b_("hierarchical_sliced",
           {.collective = Collective::kAllReduce, .ranks = shape.ranks, .cut = slices_}),
        collected_(static_cast<std::size_t>(shape.ranks)),
        finished_(collected_.size()) {
    if (groups_.count() > 1 && slices_ > 1) {
      partial_ = b_.scratch("partial", slices_, kScratchDepth);
    }
  }

  Schedule run() {
    if (b_.problem().ranks == 1) {
      b_.copy(b_.lane(0, Need::kMove), {input_block(0)}, {output_block(0)});
      return std::move(b_).finish();
    }
    for (int group = 0; group < groups_.count(); ++group) {
      if (groups_.size(group) > 1) {
        collect(group);
      }
    }
    if (groups_.count() > 1) {
      cross();
    } else {
      finished_ = collected_;
    }
    for (int group = 0; group < groups_.count(); ++group) {
      if (groups_.size(group) > 1) {
        spread(group);
      }
    }
    return std::move(b_).finish();
  }

 private:
  // The blocks of the slices that the member at `place` of `group` leads.
  template <typename MakeBlock>
  [[nodiscard]] Blocks led(int group, int place, MakeBlock make) const {
    Blocks blocks;
    for (int slice = place; slice < slices_; slice += groups_.size(group)) {
      blocks.push_back(make(slice));
    }
    return blocks;
  }

  // The sum of a slice over a group, at its leader. Of a group alone it is the result; a member
  // alone has it from the start.
  [[nodiscard]] Block partial(int group, int slice) const {
    return groups_.count() == 1       ? output_block(slice)
           : groups_.size(group) == 1 ? input_block(slice)
                                      : scratch_block(partial_, slice);
  }

  // Stage 1: a reduce-scatter in the group, summed in the order of its members.
  void collect(int group) {
    const auto sends = lanes_on(b_, groups_.members(group), Need::kMove);
    const auto sums = lanes_on(b_, groups_.members(group), Need::kReduce);
    const auto channels = pair_channels(b_, sends, sums);
    for (int place = 0; place < groups_.size(group); ++place) {
      for (const int peer : successors(place, groups_.size(group))) {
        b_.send(at(sends, place), led(group, peer, input_block), at(at(channels, place), peer));
      }
      const auto to = [&](int slice) { return partial(group, slice); };
      const StepRef sum = b_.step(
          at(sums, place),
          reduce_in_order(channels, place, led(group, place, input_block), led(group, place, to)));
      collected_[static_cast<std::size_t>(at(groups_.members(group), place))] = sum;
    }
  }

  // Stage 2: the leaders of each slice exchange, and sum in the order of the groups, so that they
  // form one expression. A total waits for the sends of its slice: in place, the partial sum of a
  // member alone lies where the total will.
  void cross() {
    const auto sends = b_.lane_on_every_rank(Need::kMove);
    const auto totals = b_.lane_on_every_rank(Need::kReduce);
    for (int slice = 0; slice < slices_; ++slice) {
      std::vector<LaneId> senders;
      std::vector<LaneId> summers;
      for (int group = 0; group < groups_.count(); ++group) {
        const int leader = at(groups_.members(group), slice % groups_.size(group));
        senders.push_back(at(sends, leader));
        summers.push_back(at(totals, leader));
      }
      const auto channels = pair_channels(b_, senders, summers);
      for (int group = 0; group < groups_.count(); ++group) {
        cross_slice(slice, at(senders, group), at(summers, group), channels);
      }
    }
  }

  // `channels` between the leaders of the slice, by group.
  void cross_slice(int slice, LaneId sender, LaneId summer, const PairChannels& channels) {
    const int group = groups_.group_of(sender.rank);
    const Block own = partial(group, slice);
    StepRef sent;
    for (const int peer : successors(group, groups_.count())) {
      sent = b_.send(sender, {own}, at(at(channels, group), peer));
      if (groups_.size(group) > 1) {
        b_.after(sender, {at(collected_, sender.rank)});
      }
    }
    const StepRef total =
        b_.step(summer, reduce_in_order(channels, group, {own}, {output_block(slice)}));
    b_.after(summer, {sent});
    finished_[static_cast<std::size_t>(sender.rank)] = total;
  }

  // Stage 3: an all-gather in the group. The last total of a rank stands behind its others.
  void spread(int group) {
    const auto sends = lanes_on(b_, groups_.members(group), Need::kMove);
    const auto results = lanes_on(b_, groups_.members(group), Need::kMove);
    const auto channels = pair_channels(b_, sends, results);
    for (int place = 0; place < groups_.size(group); ++place) {
      for (const int peer : successors(place, groups_.size(group))) {
        b_.send(at(sends, place), led(group, place, output_block), at(at(channels, place), peer));
        b_.after(at(sends, place), {at(finished_, at(sends, place).rank)});
      }
      for (const int peer : predecessors(place, groups_.size(group))) {
        b_.recv(at(results, place), at(at(channels, peer), place), led(group, peer, output_block));
      }
    }
  }

  Groups groups_;
  int slices_;
  Builder b_;
  int partial_ = 0;
  std::vector<StepRef> collected_;  // by rank: its part of stage 1
  std::vector<StepRef> finished_;   // by rank: the last of its totals
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  const int slices = groups.largest();
  const int from_size = groups.size(groups.group_of(from));
  const int to_size = groups.size(groups.group_of(to));
  if (groups.group_of(from) == groups.group_of(to)) {
    return from == to ? 0
                      : numbers_below(slices, groups.place_of(from), from_size) +
                            numbers_below(slices, groups.place_of(to), to_size);
  }
  int shared = 0;
  for (int slice = 0; slice < slices; ++slice) {
    const bool both =
        slice % from_size == groups.place_of(from) && slice % to_size == groups.place_of(to);
    shared += both ? 1 : 0;
  }
  return shared;
}

}  // namespace

Algorithm hierarchical_sliced() {
  return {.collective = Collective::kAllReduce,
          .name = "hierarchical_sliced",
          .summary =
              "the three stages with every member the leader of a slice, so that all links work; "
              "groups may differ in size",
          .source = "Temucin et al. 2021, with a reduce-scatter and an all-gather in each group",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = hierarchical_rounds,
          .in_place = true,
          .takes_groups = true};
}

}  // namespace sennit::algo::all_reduce
