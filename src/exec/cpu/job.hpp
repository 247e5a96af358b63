// Job: one call of one rank on the cpu engine. Lanes are state machines; advance() lets each try
// its next step and never waits, so that one thread can run many jobs.
//
//   Job job(bound, call);
//   while (!job.finished()) {
//     if (!job.advance()) { ... sleep, look after failures ... }
//   }
#pragma once

#include "base/die_at.hpp"
#include "exec/cpu/assigner.hpp"
#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/bundle.hpp"
#include "exec/cpu/claim_log.hpp"
#include "exec/cpu/coded_block.hpp"
#include "exec/cpu/trace.hpp"
#include "schedule/path_policy.hpp"
#include "types/reduce.hpp"
#include "world/waiting.hpp"

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

class Job {
 public:
  // `trace` may be null. `bound` must outlive the job.
  Job(const BoundProgram& bound, const Call& call, Trace* trace = nullptr);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Lets every lane try; true when anything moved.
  bool advance();
  [[nodiscard]] bool finished() const { return finished_; }
  // Not ok when a copy out of a peer's memory failed; the job cannot go on then.
  [[nodiscard]] const Status& status() const { return status_; }

  // What the first unfinished lane that depends on another rank waits for.
  [[nodiscard]] Waiting waiting() const;

  // Of a job that has not advanced, of a call that has begun as a SingleTile: goes on behind the
  // steps that each lane has done.
  void go_on(std::span<const std::uint8_t> steps_done, DieAt* die_at);

 private:
  friend class CodedStep;
  friend class SingleTile;

  struct LaneState {
    std::int64_t units = 0;  // bursts of tiles this lane has to run
    std::int64_t unit = 0;
    int step = 0;
    bool posted = false;  // the step has run; its direct_get messages are not all fetched yet
  };
  struct StrandView {
    std::int64_t tile_elements = 0;
    std::int64_t tiles = 0;           // of a claimed plan: as far as they are claimed
    std::int64_t all_tiles = 0;       // of the message
    std::int64_t grain_tiles = 0;     // of a claimed plan
    std::vector<ElementRange> parts;  // of the user's buffer, by block of a cut vector; or by input
    std::vector<ElementRange> output_parts;  // block, and by output block, where lengths vary
    ElementRange part;                       // of one rank's part otherwise
  };
  // A link during this call.
  struct LinkState {
    std::uint64_t base = 0;           // messages before it
    std::uint32_t fingerprint = 0;    // of its full words
    std::vector<std::int64_t> tiles;  // that have message i; empty: all tiles have all messages
  };
  struct Slice {
    std::byte* data = nullptr;
    std::int64_t elements = 0;
  };

  void lay_out();
  [[nodiscard]] StrandView view_of(int strand) const;
  void open_links();
  [[nodiscard]] int width_of(int strand) const;
  [[nodiscard]] std::int64_t tiles_of_copy(int strand, int copy) const;
  [[nodiscard]] ElementRange part_of(const StrandView& view, LengthOf block) const;
  [[nodiscard]] std::int64_t tile_begin(const ProgramLane& lane, std::int64_t tile) const;
  [[nodiscard]] std::int64_t slice_elements(const ProgramLane& lane,
                                            LengthOf block,
                                            std::int64_t tile) const;
  // Bytes from the beginning of the user's buffer.
  [[nodiscard]] std::int64_t buffer_offset(const ProgramLane& lane,
                                           const Piece& piece,
                                           std::int64_t tile) const;
  [[nodiscard]] Slice slice(const ProgramLane& lane, const Piece& piece, std::int64_t tile) const;
  [[nodiscard]] std::size_t message_bytes(const ProgramLane& lane,
                                          const ProgramStep& step,
                                          std::optional<Codec> codec,
                                          std::int64_t tile) const;
  // Whether the tile has the message; where lengths vary, it may be left out at both ends. Only a
  // message that exists has a spot.
  [[nodiscard]] bool exists(const MessageRef& ref, std::int64_t tile) const;
  [[nodiscard]] Spot spot(const MessageRef& ref, std::int64_t tile) const;
  void publish_spot(const Spot& spot, std::uint32_t fingerprint);
  void begin_choices();
  bool advance_choices();
  [[nodiscard]] bool wants_grain(int strand);
  bool take_claims();
  void add_grain(int strand, std::uint64_t tick);
  void end_lane();
  bool arrived(const MessageRef& ref, std::int64_t tile);
  bool has_slot(const MessageRef& ref, std::int64_t tile);
  bool has_slots(const ProgramStep& step, std::int64_t tile);
  void await(const ProgramStep& step, const MessageRef& in, std::int64_t tile);
  bool pick_path(Bundle& bundle);
  bool bundle_ended(const ProgramLane& lane,
                    const ProgramStep& step,
                    const MessageRef& out,
                    std::int64_t tile);
  void pass_sent(const ProgramStep& step);
  void pass_taken(std::size_t bundle);
  void record(const Bundle& bundle, TraceMessage::Event event, int path);

  bool try_lane(std::size_t index);
  void reach_moment() const {
    if (call_.die_at != nullptr) {
      call_.die_at->pass();
    }
  }
  void run_unit(const ProgramLane& lane, int index, std::int64_t first, std::int64_t last);
  [[nodiscard]] bool ready(const ProgramStep& step, std::int64_t first, std::int64_t last);
  [[nodiscard]] bool waits_over(const ProgramStep& step, std::int64_t last) const;
  [[nodiscard]] bool ended(const ProgramLane& lane,
                           const ProgramStep& step,
                           std::int64_t first,
                           std::int64_t last);
  void run(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  [[nodiscard]] Operand own_operand(const ProgramLane& lane,
                                    const ProgramStep& step,
                                    const Piece& piece,
                                    std::int64_t tile) const;
  void move(const ProgramStep& step, const Piece& piece, const Slice& from, std::byte* to);
  void take(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void fetch(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void combine(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void fill(const ProgramLane& lane,
            const ProgramStep& step,
            const std::vector<Piece>& from,
            std::int64_t tile);
  void fill_slot(const ProgramLane& lane,
                 const ProgramStep& step,
                 const Spot& spot,
                 const std::vector<Piece>& from,
                 std::int64_t tile);
  void forward(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void publish(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void release(const ProgramStep& step, std::int64_t tile);
  [[nodiscard]] std::uint32_t fingerprint(const MessageRef& ref) const {
    return links_[static_cast<std::size_t>(ref.link)].fingerprint;
  }
  [[nodiscard]] std::byte* payload(const ProgramLane& lane,
                                   const ProgramStep& step,
                                   const Spot& spot,
                                   std::int64_t tile) const;
  void finish();
  bool find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const;

  const BoundProgram& bound_;
  const Program& program_;
  Call call_;
  std::int64_t element_bytes_;
  Trace* trace_;
  std::vector<StrandView> strands_;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::unique_ptr<std::byte[]> scratch_;
  CodingBuffers coding_;
  std::vector<Bundle> bundles_;
  std::optional<Assigner> assigner_;
  std::optional<ClaimLog> claims_;
  std::size_t lanes_left_ = 0;
  bool finished_ = false;
  Status status_;
};

}  // namespace sennit
