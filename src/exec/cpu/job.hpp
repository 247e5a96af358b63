// Job: one call of one rank on the cpu engine. Lanes are state machines; advance() lets each try
// its next step and never waits, so that one thread can run many jobs.
//
//   Job job(bound, call);
//   while (!job.finished()) {
//     if (!job.advance()) { ... sleep, look after failures ... }
//   }
#pragma once

#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/call_layout.hpp"
#include "exec/cpu/choices.hpp"
#include "exec/cpu/coded_block.hpp"
#include "exec/cpu/target.hpp"
#include "exec/cpu/trace.hpp"
#include "world/waiting.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sennit {

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

  // Where its next message is due lies that of another call. Paths of bundles are not looked at.
  [[nodiscard]] bool has_met_foreign() const { return has_met_foreign_; }

  // What the first unfinished lane that depends on another rank waits for.
  [[nodiscard]] Waiting waiting() const;

  // Of a job that has not advanced, of a call that has begun as a SingleTile: goes on behind the
  // steps that each lane has done.
  void go_on(std::span<const std::uint8_t> steps_done, DieAt* die_at);

 private:
  friend class Choices;
  friend class CodedStep;
  friend class SingleTile;

  struct LaneState {
    std::int64_t units = 0;  // bursts of tiles this lane has to run
    std::int64_t unit = 0;
    int step = 0;
    bool posted = false;  // the step has run; its direct_get messages are not all fetched yet
  };
  using Slice = CallLayout::Slice;

  [[nodiscard]] Spot spot(const MessageRef& ref, std::int64_t tile) const {
    if (ref.bundle >= 0) [[unlikely]] {
      return choices_->spot(ref.bundle);
    }
    return layout_.spot(ref, tile);
  }
  void end_lane();
  void finish_if_ended();
  bool arrived(const MessageRef& ref, std::int64_t tile);
  bool has_slot(const MessageRef& ref, std::int64_t tile);
  bool has_slots(const ProgramStep& step, std::int64_t tile);
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
  void move(const ProgramStep& step, const Piece& piece, const Slice& from, const Target& to);
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
  bool find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const;

  const BoundProgram& bound_;
  const Program& program_;
  Call call_;
  Trace* trace_;
  CallLayout layout_;
  std::vector<LaneState> lanes_;
  CodingBuffers coding_;
  std::optional<Choices> choices_;
  std::size_t lanes_left_ = 0;
  bool finished_ = false;
  bool has_met_foreign_ = false;
  Status status_;
};

}  // namespace sennit
