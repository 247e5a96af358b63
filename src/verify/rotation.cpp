#include "rotation.hpp"

#include <algorithm>

namespace sennit {
namespace {

class Rotation {
 public:
  Rotation(const Problem& problem, int shift) : problem_(problem), shift_(shift) {}

  [[nodiscard]] int rank(int r) const { return (r + shift_) % problem_.ranks; }

  [[nodiscard]] LaneId lane(LaneId id) const { return {rank(id.rank), id.lane}; }

  [[nodiscard]] bool maps(const Problem& from, const Problem& to) const {
    Problem renamed = from;
    renamed.root = rank(from.root);
    return renamed == to;
  }

  [[nodiscard]] bool maps(const Channel& from, const Channel& to) const {
    return lane(from.writer) == to.writer && from.single_hop == to.single_hop &&
           std::ranges::equal(
               from.readers, to.readers, {}, [this](LaneId reader) { return lane(reader); });
  }

  [[nodiscard]] bool maps(const Lane& from, const Lane& to) const {
    return from.need == to.need &&
           std::ranges::equal(from.steps, to.steps, [this](const Step& a, const Step& b) {
             return a.kind == b.kind && a.in == b.in && a.out == b.out && a.order == b.order &&
                    a.pre == b.pre && a.post == b.post && a.after == b.after &&
                    maps(a.from, b.from) && maps(a.to, b.to);
           });
  }

 private:
  [[nodiscard]] bool maps(const std::vector<Block>& from, const std::vector<Block>& to) const {
    return std::ranges::equal(from, to, {}, [this](Block block) {
      if (is_numbered_by_rank(block)) {
        block.index = rank(block.index);
      }
      return block;
    });
  }

  // The root's blocks in gather and scatter are those of all ranks.
  [[nodiscard]] bool is_numbered_by_rank(const Block& block) const {
    return (problem_.collective == Collective::kGather && block.space == Space::kOutput) ||
           (problem_.collective == Collective::kScatter && block.space == Space::kInput);
  }

  const Problem& problem_;
  int shift_;
};

}  // namespace

bool is_rotated(const Schedule& schedule, const Schedule& rotated, int shift) {
  const Rotation rotation(schedule.problem, shift);
  const auto same = [&](const auto& from, const auto& to) { return rotation.maps(from, to); };
  if (!is_rooted(schedule.problem.collective) || schedule.algorithm != rotated.algorithm ||
      !rotation.maps(schedule.problem, rotated.problem) || schedule.scratch != rotated.scratch ||
      !std::ranges::equal(schedule.channels, rotated.channels, same)) {
    return false;
  }
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    const auto& lanes = schedule.ranks[static_cast<std::size_t>(rank)];
    const auto& others = rotated.ranks[static_cast<std::size_t>(rotation.rank(rank))];
    if (!std::ranges::equal(lanes, others, same)) {
      return false;
    }
  }
  return true;
}

}  // namespace sennit
