#include "algo/all_reduce/all_reduce.hpp"
#include "algo/groups.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

#include <array>
#include <utility>

namespace sennit::algo::all_reduce {
namespace {

// Two instances: a group collects the next tile while this one crosses.
constexpr int kScratchDepth = 2;

// How the leaders of a slice come to its total.
enum class Crossing : std::uint8_t {
  kWhole,   // each sends its sum of the slice to all others
  kShares,  // each adds up a share of the slice, one a group, and sends that to all others
};

// The vector is cut into as many slices as the largest group has members. Member i of a group of g
// leads slices i, i + g, ...: one where groups are equal, several in a smaller one. A slice is one
// block, or one a group where it crosses in shares.
class Build {
 public:
  Build(const Shape& shape, const char* algorithm, Crossing crossing)
      : groups_(shape),
        slices_(groups_.largest()),
        shares_(crossing == Crossing::kShares ? groups_.count() : 1),
        b_(algorithm,
           {.collective = Collective::kAllReduce, .ranks = shape.ranks, .cut = slices_ * shares_}),
        collected_(static_cast<std::size_t>(shape.ranks)),
        finished_(collected_.size()) {
    if (groups_.count() > 1 && slices_ > 1) {
      partial_ = b_.scratch("partial", slices_ * shares_, kScratchDepth);
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
    if (groups_.count() == 1) {
      for (std::size_t rank = 0; rank < collected_.size(); ++rank) {
        finished_[rank] = {collected_[rank]};
      }
    } else if (shares_ == 1) {
      cross();
    } else {
      cross_in_shares();
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
      for (int share = 0; share < shares_; ++share) {
        blocks.push_back(make(slice * shares_ + share));
      }
    }
    return blocks;
  }

  // The sum of a block over a group, at its leader. Of a group alone it is the result; a member
  // alone has it from the start.
  [[nodiscard]] Block partial(int group, int block) const {
    return groups_.count() == 1       ? output_block(block)
           : groups_.size(group) == 1 ? input_block(block)
                                      : scratch_block(partial_, block);
  }

  // The leader of a slice in each group, by group.
  [[nodiscard]] std::vector<int> leaders(int slice) const {
    std::vector<int> ranks;
    for (int group = 0; group < groups_.count(); ++group) {
      ranks.push_back(at(groups_.members(group), slice % groups_.size(group)));
    }
    return ranks;
  }

  static std::vector<LaneId> lanes_of(const std::vector<LaneId>& lanes,
                                      const std::vector<int>& ranks) {
    std::vector<LaneId> picked;
    for (const int rank : ranks) {
      picked.push_back(at(lanes, rank));
    }
    return picked;
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
      const auto to = [&](int block) { return partial(group, block); };
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
      const auto senders = lanes_of(sends, leaders(slice));
      const auto summers = lanes_of(totals, leaders(slice));
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
      sent = send_collected(group, sender, own, at(at(channels, group), peer));
    }
    const StepRef total =
        b_.step(summer, reduce_in_order(channels, group, {own}, {output_block(slice)}));
    b_.after(summer, {sent});
    finished_[static_cast<std::size_t>(sender.rank)] = {total};
  }

  StepRef send_collected(int group, LaneId sender, Block block, int channel) {
    const StepRef sent = b_.send(sender, {block}, channel);
    if (groups_.size(group) > 1) {
      b_.after(sender, {at(collected_, sender.rank)});
    }
    return sent;
  }

  // Stage 2 as a reduce-scatter and an all-gather among the leaders of each slice: a wire carries 2
  // (N - 1) / N of a slice, not N - 1. The lanes are those of two_shot.
  void cross_in_shares() {
    const auto sends = b_.lane_on_every_rank(Need::kMove);
    const auto totals = b_.lane_on_every_rank(Need::kReduce);
    const auto results = b_.lane_on_every_rank(Need::kMove);
    for (int slice = 0; slice < slices_; ++slice) {
      const auto senders = lanes_of(sends, leaders(slice));
      const auto summers = lanes_of(totals, leaders(slice));
      const auto takers = lanes_of(results, leaders(slice));
      const auto sums = pair_channels(b_, senders, summers);
      const auto shares = pair_channels(b_, summers, takers);
      for (int group = 0; group < groups_.count(); ++group) {
        add_up_share(slice, at(senders, group), at(summers, group), sums, shares);
        for (const int peer : predecessors(group, groups_.count())) {
          const StepRef taken = b_.recv(at(takers, group),
                                        at(at(shares, peer), group),
                                        {output_block(slice * shares_ + peer)});
          finished_[static_cast<std::size_t>(at(takers, group).rank)][1] = taken;
        }
      }
    }
  }

  // `sums` and `shares` between the leaders of the slice, by group.
  void add_up_share(int slice,
                    LaneId sender,
                    LaneId summer,
                    const PairChannels& sums,
                    const PairChannels& shares) {
    const int group = groups_.group_of(sender.rank);
    const int own = slice * shares_ + group;
    StepRef sent;
    for (const int peer : successors(group, groups_.count())) {
      sent = send_collected(
          group, sender, partial(group, slice * shares_ + peer), at(at(sums, group), peer));
    }
    Step total = reduce_in_order(sums, group, {partial(group, own)}, {output_block(own)});
    for (const int peer : successors(group, groups_.count())) {
      total.out.push_back(at(at(shares, group), peer));
    }
    const StepRef added = b_.step(summer, std::move(total));
    b_.after(summer, {sent});
    finished_[static_cast<std::size_t>(sender.rank)] = {added, added};
  }

  // Stage 3: an all-gather in the group.
  void spread(int group) {
    const auto sends = lanes_on(b_, groups_.members(group), Need::kMove);
    const auto results = lanes_on(b_, groups_.members(group), Need::kMove);
    const auto channels = pair_channels(b_, sends, results);
    for (int place = 0; place < groups_.size(group); ++place) {
      for (const int peer : successors(place, groups_.size(group))) {
        b_.send(at(sends, place), led(group, place, output_block), at(at(channels, place), peer));
        const Ends& ends = at(finished_, at(sends, place).rank);
        b_.after(at(sends, place), {ends.front()});
        if (shares_ > 1) {
          b_.after(at(sends, place), {ends.back()});
        }
      }
      for (const int peer : predecessors(place, groups_.size(group))) {
        b_.recv(at(results, place), at(at(channels, peer), place), led(group, peer, output_block));
      }
    }
  }

  // The last total of a rank, and the last one that it takes; each stands behind the others of its
  // lane.
  using Ends = std::array<StepRef, 2>;

  Groups groups_;
  int slices_;
  int shares_;
  Builder b_;
  int partial_ = 0;
  std::vector<StepRef> collected_;  // by rank: its part of stage 1
  std::vector<Ends> finished_;      // by rank
};

Schedule build(const Shape& shape) {
  return Build(shape, "hierarchical_sliced", Crossing::kWhole).run();
}

Schedule build_in_shares(const Shape& shape) {
  return Build(shape, "hierarchical_shares", Crossing::kShares).run();
}

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

std::int64_t blocks_in_shares(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  const bool same_group = groups.group_of(from) == groups.group_of(to);
  return (same_group ? groups.count() : 2) * blocks_on_link(shape, from, to);
}

// Up in one group, across twice, and down in that group again.
std::int64_t rounds_in_shares(const Shape& shape) {
  const Groups groups(shape);
  if (groups.count() == 1) {
    return hierarchical_rounds(shape);
  }
  return 2 + (groups.count_of_many() > 0 ? 2 : 0);
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

Algorithm hierarchical_shares() {
  return {.collective = Collective::kAllReduce,
          .name = "hierarchical_shares",
          .summary =
              "as hierarchical_sliced, but slices cross as a reduce-scatter and an all-gather: "
              "fewer bytes between three groups or more",
          .source = "Thakur, Rabenseifner and Gropp 2005, between the groups and in each group",
          .build = build_in_shares,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_in_shares,
          .rounds = rounds_in_shares,
          .in_place = true,
          .takes_groups = true};
}

}  // namespace sennit::algo::all_reduce
