#include "exec/cpu/call_layout.hpp"

#include "exec/cpu/coded_block.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace sennit {
namespace {

// Of `tiles` tiles, those that copy `copy` of `width` runs: copy, copy + width, ...
std::int64_t in_copy(std::int64_t tiles, int copy, int width) {
  return (tiles - copy + width - 1) / width;
}

}  // namespace

CallLayout::CallLayout(const BoundProgram& bound, const Call& call)
    : bound_(bound),
      program_(bound.program()),
      call_(call),
      element_bytes_(static_cast<std::int64_t>(size_bytes(call.dtype))) {
  for (std::size_t s = 0; s < program_.plan->strands.size(); ++s) {
    strands_.push_back(view_of(static_cast<int>(s)));
  }
  open_links();
}

void CallLayout::allocate_scratch() {
  if (program_.scratch_bytes > 0) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(program_.scratch_bytes));
  }
}

// What of each block the strand carries, and how many tiles that makes.
CallLayout::StrandView CallLayout::view_of(int strand_index) const {
  const Plan& plan = *program_.plan;
  const Strand& strand = plan.strands[static_cast<std::size_t>(strand_index)];
  const Problem& problem = strand.schedule->problem;
  StrandView view;
  view.tile_elements = std::max<std::int64_t>(1, strand.tile_bytes / element_bytes_);
  std::int64_t longest = 0;
  const auto part = [&](const ElementRange& whole) {
    const ElementRange ours = strand_range(plan, strand_index, whole.length, element_bytes_);
    longest = std::max(longest, ours.length);
    return ElementRange{.begin = whole.begin + ours.begin, .length = ours.length};
  };
  if (problem.varying) {
    std::ranges::transform(call_.inputs, std::back_inserter(view.parts), part);
    std::ranges::transform(call_.outputs, std::back_inserter(view.output_parts), part);
  } else if (is_cut(problem.collective)) {
    for (int block = 0; block < problem.cut; ++block) {
      view.parts.push_back(part(block_range(problem, call_.count, element_bytes_, block)));
    }
  } else {
    view.part = part(block_range(problem, call_.count, element_bytes_, 0));
  }
  // A barrier has no blocks; its program runs once. So does that of a message without elements,
  // which its receiver has to see come.
  const bool is_empty_message = problem.collective == Collective::kSendRecv && call_.count == 0;
  view.all_tiles = problem.collective == Collective::kBarrier || is_empty_message
                       ? 1
                       : (longest + view.tile_elements - 1) / view.tile_elements;
  view.tiles = view.all_tiles;
  view.grain_tiles =
      plan.division == Division::kClaimed ? grain_bytes(plan) / strand.tile_bytes : 0;
  return view;
}

void CallLayout::open_links() {
  links_.resize(program_.links.size());
  for (std::size_t l = 0; l < links_.size(); ++l) {
    const ProgramLink& link = program_.links[l];
    LinkState& state = links_[l];
    state.base = *bound_.links()[l].position;
    state.fingerprint = call_.fingerprint;
    const StrandView& view = strands_[static_cast<std::size_t>(link.strand)];
    for (const std::vector<LengthOf>& message : link.messages) {
      std::int64_t longest = 0;
      for (const LengthOf block : message) {
        const std::int64_t length = part_of(view, block).length;
        longest = std::max(longest, length);
        state.fingerprint =
            channel::with_length(state.fingerprint, static_cast<std::uint64_t>(length));
      }
      if (link.skips) {
        const std::int64_t tiles = (longest + view.tile_elements - 1) / view.tile_elements;
        state.tiles.push_back(in_copy(tiles, link.copy, width_of(link.strand)));
      }
    }
  }
}

int CallLayout::width_of(int strand) const {
  return program_.plan->strands[static_cast<std::size_t>(strand)].width;
}

std::int64_t CallLayout::tiles_of_copy(int strand, int copy) const {
  return in_copy(strands_[static_cast<std::size_t>(strand)].tiles, copy, width_of(strand));
}

void CallLayout::begin_claims() {
  for (StrandView& view : strands_) {
    view.tiles = 0;
  }
}

void CallLayout::add_grain(int strand, std::int64_t grain) {
  StrandView& view = strands_[static_cast<std::size_t>(strand)];
  view.grains.push_back(grain);
  // The last grain of a message may be short.
  view.tiles += std::min(view.grain_tiles, view.all_tiles - grain * view.grain_tiles);
}

ElementRange CallLayout::part_of(const StrandView& view, LengthOf block) const {
  const bool by_output = block.space == Space::kOutput && !view.output_parts.empty();
  const std::vector<ElementRange>& parts = by_output ? view.output_parts : view.parts;
  if (!parts.empty()) {
    return parts[static_cast<std::size_t>(block.index)];
  }
  return {.begin = block.index * call_.count + view.part.begin, .length = view.part.length};
}

// Where tile `tile` of a strand copy begins in every block.
std::int64_t CallLayout::tile_begin(const ProgramLane& lane, std::int64_t tile) const {
  const StrandView& view = strands_[static_cast<std::size_t>(lane.strand)];
  const std::int64_t index = lane.copy + tile * width_of(lane.strand);
  if (view.grain_tiles == 0) {
    return index * view.tile_elements;
  }
  const auto grain = static_cast<std::size_t>(index / view.grain_tiles);
  return (view.grains[grain] * view.grain_tiles + index % view.grain_tiles) * view.tile_elements;
}

std::int64_t CallLayout::slice_elements(const ProgramLane& lane,
                                        LengthOf block,
                                        std::int64_t tile) const {
  const StrandView& view = strands_[static_cast<std::size_t>(lane.strand)];
  return std::clamp<std::int64_t>(
      part_of(view, block).length - tile_begin(lane, tile), 0, view.tile_elements);
}

std::int64_t CallLayout::buffer_offset(const ProgramLane& lane,
                                       const Piece& piece,
                                       std::int64_t tile) const {
  const StrandView& view = strands_[static_cast<std::size_t>(lane.strand)];
  return (part_of(view, {piece.space, piece.index}).begin + tile_begin(lane, tile)) *
         element_bytes_;
}

CallLayout::Slice CallLayout::slice(const ProgramLane& lane,
                                    const Piece& piece,
                                    std::int64_t tile) const {
  const LengthOf block{piece.space, piece.index};
  Slice out{.data = nullptr, .elements = slice_elements(lane, block, tile)};
  if (piece.space == Space::kScratch) {
    out.data = scratch_.get() + piece.offset + (tile % piece.depth) * piece.instance_bytes;
    return out;
  }
  auto* base = piece.space == Space::kInput
                   ? static_cast<std::byte*>(const_cast<void*>(call_.input))
                   : static_cast<std::byte*>(call_.output);
  out.data = base + buffer_offset(lane, piece, tile);
  return out;
}

std::size_t CallLayout::message_bytes(const ProgramLane& lane,
                                      const ProgramStep& step,
                                      std::optional<Codec> codec,
                                      std::int64_t tile) const {
  std::int64_t elements = 0;
  std::size_t coded = 0;
  for (const LengthOf block : step.lengths_of) {
    const std::int64_t length = slice_elements(lane, block, tile);
    elements += length;
    coded += codec ? coded_room(*codec, call_.dtype, length) : 0;
  }
  return codec ? coded : static_cast<std::size_t>(elements * element_bytes_);
}

bool CallLayout::exists(const MessageRef& ref, std::int64_t tile) const {
  const std::vector<std::int64_t>& tiles = links_[static_cast<std::size_t>(ref.link)].tiles;
  return tiles.empty() || tile < tiles[static_cast<std::size_t>(ref.index)];
}

Spot CallLayout::spot(const MessageRef& ref, std::int64_t tile) const {
  const auto link = static_cast<std::size_t>(ref.link);
  const BoundProgram::BoundLink& bound = bound_.links()[link];
  const LinkState& state = links_[link];
  std::int64_t before = tile * bound.messages_per_tile + ref.index;
  if (!state.tiles.empty()) {
    // Those of earlier tiles, and the earlier ones of this tile.
    before = 0;
    for (std::size_t m = 0; m < state.tiles.size(); ++m) {
      before += std::min(tile + (std::cmp_less(m, ref.index) ? 1 : 0), state.tiles[m]);
    }
  }
  return {.link = &bound,
          .position = state.base + static_cast<std::uint64_t>(before),
          .protocol = ref.protocol,
          .codec = ref.codec};
}

std::byte* CallLayout::payload(const ProgramLane& lane,
                               const ProgramStep& step,
                               const Spot& spot,
                               std::int64_t tile) const {
  const std::size_t bytes = spot.protocol == Protocol::kDirectGet
                                ? step.lengths_of.size() * sizeof(cma::Descriptor)
                                : message_bytes(lane, step, spot.codec, tile);
  return spot.link->ring.payload(spot.position, bytes);
}

void CallLayout::finish() const {
  for (std::size_t l = 0; l < program_.links.size(); ++l) {
    const ProgramLink& link = program_.links[l];
    const std::vector<std::int64_t>& tiles = links_[l].tiles;
    const std::int64_t messages =
        tiles.empty() ? tiles_of_copy(link.strand, link.copy) * link.messages_per_tile
                      : std::accumulate(tiles.begin(), tiles.end(), std::int64_t{0});
    *bound_.links()[l].position = links_[l].base + static_cast<std::uint64_t>(messages);
  }
}

}  // namespace sennit
