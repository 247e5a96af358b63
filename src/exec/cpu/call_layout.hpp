// CallLayout: where the parts of one call of one rank lie: blocks in the user's buffers, tiles in
// the blocks, messages in the rings.
#pragma once

#include "base/die_at.hpp"
#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/spot.hpp"
#include "exec/cpu/target.hpp"
#include "schedule/path_policy.hpp"
#include "types/reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sennit {

// What one call works on.
struct Call {
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  Scaling scaling{};
  std::uint32_t fingerprint = 0;
  PathPolicy path_policy{};  // of the bundles whose sender chooses
  DieAt* die_at = nullptr;   // for tests: where this rank ends in the call
  // Where lengths vary: this rank's blocks, instead of `count`. They must outlive the job.
  std::span<const ElementRange> inputs{};
  std::span<const ElementRange> outputs{};
};

class CallLayout {
 public:
  // What of each block a strand carries.
  struct StrandView {
    std::int64_t tile_elements = 0;
    std::int64_t tiles = 0;            // of a claimed plan: as far as they are claimed
    std::int64_t all_tiles = 0;        // of the message
    std::int64_t grain_tiles = 0;      // of a claimed plan
    std::vector<std::int64_t> grains;  // of a claimed plan: those claimed, in their order
    std::vector<ElementRange> parts;  // of the user's buffer, by block of a cut vector; or by input
    std::vector<ElementRange> output_parts;  // block, and by output block, where lengths vary
    ElementRange part;                       // of one rank's part otherwise
  };
  struct Slice {
    std::byte* data = nullptr;
    std::int64_t elements = 0;
  };

  // `bound` outlives the layout.
  CallLayout(const BoundProgram& bound, const Call& call);

  // Room for the blocks that only the program sees.
  void allocate_scratch();

  [[nodiscard]] std::int64_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] const std::vector<StrandView>& strands() const { return strands_; }
  [[nodiscard]] std::int64_t tiles_of_copy(int strand, int copy) const;

  // Of a claimed plan: no grain is claimed at first; the next one that is.
  void begin_claims();
  void add_grain(int strand, std::int64_t grain);

  [[nodiscard]] std::int64_t slice_elements(const ProgramLane& lane,
                                            LengthOf block,
                                            std::int64_t tile) const;
  // Bytes from the beginning of the user's buffer.
  [[nodiscard]] std::int64_t buffer_offset(const ProgramLane& lane,
                                           const Piece& piece,
                                           std::int64_t tile) const;
  [[nodiscard]] Slice slice(const ProgramLane& lane, const Piece& piece, std::int64_t tile) const;

  // Whether the tile has the message; where lengths vary, it may be left out at both ends. Only a
  // message that exists has a spot.
  [[nodiscard]] bool exists(const MessageRef& ref, std::int64_t tile) const;
  // Of a message that belongs to no bundle.
  [[nodiscard]] Spot spot(const MessageRef& ref, std::int64_t tile) const;
  [[nodiscard]] std::size_t message_bytes(const ProgramLane& lane,
                                          const ProgramStep& step,
                                          std::optional<Codec> codec,
                                          std::int64_t tile) const;
  [[nodiscard]] std::byte* payload(const ProgramLane& lane,
                                   const ProgramStep& step,
                                   const Spot& spot,
                                   std::int64_t tile) const;
  // Of an outgoing message.
  [[nodiscard]] Target target(const ProgramLane& lane,
                              const ProgramStep& step,
                              const Spot& spot,
                              std::int64_t tile,
                              std::size_t offset = 0) const {
    return {payload(lane, step, spot, tile) + offset, spot.link->stores};
  }
  [[nodiscard]] std::uint32_t fingerprint(const MessageRef& ref) const {
    return links_[static_cast<std::size_t>(ref.link)].fingerprint;
  }

  // Writes the positions of the links back when the call has ended.
  void finish() const;

 private:
  // A link during this call.
  struct LinkState {
    std::uint64_t base = 0;           // messages before it
    std::uint32_t fingerprint = 0;    // of its full words
    std::vector<std::int64_t> tiles;  // that have message i; empty: all tiles have all messages
  };

  [[nodiscard]] StrandView view_of(int strand) const;
  void open_links();
  [[nodiscard]] int width_of(int strand) const;
  [[nodiscard]] ElementRange part_of(const StrandView& view, LengthOf block) const;
  [[nodiscard]] std::int64_t tile_begin(const ProgramLane& lane, std::int64_t tile) const;

  const BoundProgram& bound_;
  const Program& program_;
  const Call& call_;
  std::int64_t element_bytes_;
  std::vector<StrandView> strands_;
  std::vector<LinkState> links_;
  std::unique_ptr<std::byte[]> scratch_;
};

}  // namespace sennit
