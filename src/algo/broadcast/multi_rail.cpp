#include "algo/broadcast/broadcast.hpp"
#include "algo/groups.hpp"
#include "algo/ranks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sennit::algo::broadcast {
namespace {

// The vector is cut into as many slices as the largest group has members, and a slice into a share
// for each group but the root's. Member i of a group of g leads slices i, i + g, ...: it gets the
// share of its own group from the slice's leader in the root's group, sends it to the slice's
// leaders in the other groups, and takes theirs. So each card carries every byte of its slice once.
//
// Steps are added in one order of all messages of a tile. Whoever waits, waits for an earlier one.
class Build {
 public:
  explicit Build(const Shape& shape)
      : groups_(shape),
        home_(groups_.group_of(shape.root)),
        slices_(groups_.largest()),
        shares_(std::max(1, groups_.count() - 1)),
        b_("multi_rail",
           {.collective = Collective::kBroadcast,
            .ranks = shape.ranks,
            .root = shape.root,
            .cut = slices_ * shares_}) {}

  Schedule run() {
    copy_at_root(b_);
    for (int slice = 0; slice < slices_; ++slice) {
      for (int share = 0; share < shares_; ++share) {
        send_from_home(slice, share);
      }
    }
    for (int distance = 1; distance < shares_; ++distance) {
      for (int slice = 0; slice < slices_; ++slice) {
        for (int share = 0; share < shares_; ++share) {
          send_across(slice, share, wrap(share + distance, shares_));
        }
      }
    }
    return std::move(b_).finish();
  }

 private:
  // What a rank does with a share; each in a lane of its own.
  enum class Role : std::uint8_t {
    kGive,   // in the root's group, to one peer
    kLead,   // a leader, its own share
    kCross,  // a leader, shares of other groups
    kTake,   // from the leaders of its group their own shares
    kTakeCrossed,
  };

  [[nodiscard]] int group_of_share(int share) const {
    return wrap(home_ + 1 + share, groups_.count());
  }
  [[nodiscard]] int leader(int group, int slice) const {
    return at(groups_.members(group), slice % groups_.size(group));
  }
  [[nodiscard]] Block block(int rank, int slice, int share) const {
    const int index = slice * shares_ + share;
    return rank == b_.problem().root ? input_block(index) : output_block(index);
  }

  // `peer`: of the lanes of a role that has one for each.
  LaneId lane(Role role, int rank, int peer = -1) {
    const auto [found, is_new] = lanes_.try_emplace({role, rank, peer});
    if (is_new) {
      found->second = b_.lane(rank, Need::kMove);
    }
    return found->second;
  }

  // `arrival`: of what is passed, if that is in another lane. Returns the arrival at `to`.
  StepRef pass(LaneId from, LaneId to, int slice, int share, std::optional<StepRef> arrival = {}) {
    const auto [found, is_new] = channels_.try_emplace({from, to});
    if (is_new) {
      found->second = b_.channel(from, to);
    }
    b_.send(from, {block(from.rank, slice, share)}, found->second);
    if (arrival) {
      b_.after(from, {*arrival});
    }
    return b_.recv(to, found->second, {block(to.rank, slice, share)});
  }

  // To the share's group, within the root's, and within the share's. A card that sends to all
  // groups at once is busy although each of them hears from others as well; so a lane for each.
  void send_from_home(int slice, int share) {
    const int root = b_.problem().root;
    const int head = leader(home_, slice);
    std::optional<StepRef> arrival;
    if (head != root) {
      arrival = pass(lane(Role::kGive, root, head), lane(Role::kLead, head), slice, share);
    }
    if (groups_.count() > 1) {
      const int receiver = leader(group_of_share(share), slice);
      pass(lane(Role::kGive, head, receiver), lane(Role::kLead, receiver), slice, share, arrival);
    }
    spread(home_, slice, share, Role::kLead);
    if (groups_.count() > 1) {
      spread(group_of_share(share), slice, share, Role::kLead);
    }
  }

  void send_across(int slice, int share, int other) {
    const int from = leader(group_of_share(share), slice);
    const int to = leader(group_of_share(other), slice);
    pass(lane(Role::kLead, from), lane(Role::kCross, to), slice, share);
    spread(group_of_share(other), slice, share, Role::kCross);
  }

  void spread(int group, int slice, int share, Role role) {
    const int from = leader(group, slice);
    for (const int member : groups_.other_members(from)) {
      if (member != b_.problem().root) {
        pass(role == Role::kLead ? sending_lane(from, member) : lane(role, from),
             lane(role == Role::kLead ? Role::kTake : Role::kTakeCrossed, member),
             slice,
             share);
      }
    }
  }

  // The root has all it sends, so no peer of its holds up another.
  LaneId sending_lane(int head, int peer) {
    return head == b_.problem().root ? lane(Role::kGive, head, peer) : lane(Role::kLead, head);
  }

  struct LaneKey {
    Role role{};
    int rank = 0;
    int peer = 0;
    auto operator<=>(const LaneKey&) const = default;
  };

  Groups groups_;
  int home_;
  int slices_;
  int shares_;
  Builder b_;
  std::map<LaneKey, LaneId> lanes_;
  std::map<std::pair<LaneId, LaneId>, int> channels_;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

// How many slices both ranks lead.
int common_slices(const Groups& groups, int one, int other) {
  int common = 0;
  for (int slice = 0; slice < groups.largest(); ++slice) {
    const auto leads = [&](int rank) {
      return slice % groups.size(groups.group_of(rank)) == groups.place_of(rank);
    };
    common += leads(one) && leads(other) ? 1 : 0;
  }
  return common;
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  const int home = groups.group_of(shape.root);
  if (from == to || to == shape.root) {
    return 0;
  }
  if (groups.group_of(from) != groups.group_of(to)) {
    return groups.group_of(to) == home ? 0 : common_slices(groups, from, to);
  }
  const auto led = [&](int rank) {
    return numbers_below(
        groups.largest(), groups.place_of(rank), groups.size(groups.group_of(rank)));
  };
  const int slices = led(from) + (from == shape.root ? led(to) : 0);
  return static_cast<std::int64_t>(slices) * std::max(1, groups.count() - 1);
}

// To the leader of a slice in the root's group, across twice, and on within a group.
std::int64_t rounds(const Shape& shape) {
  const Groups groups(shape);
  const int home = groups.group_of(shape.root);
  const int to_leaders = groups.size(home) > 1 ? 1 : 0;
  if (groups.count() == 1) {
    return to_leaders + (groups.size(home) > 2 ? 1 : 0);
  }
  const int many_elsewhere = groups.count_of_many() - to_leaders;
  return to_leaders + std::min(groups.count() - 1, 2) + (many_elsewhere > 0 ? 1 : 0);
}

}  // namespace

Algorithm multi_rail() {
  return {.collective = Collective::kBroadcast,
          .name = "multi_rail",
          .summary =
              "shares of slices cross to every group once, and on to the other groups; members of "
              "a group hand them on: all network cards work",
          .source = "Thakur, Rabenseifner and Gropp 2005 (van de Geijn), between the groups",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_groups = true};
}

}  // namespace sennit::algo::broadcast
