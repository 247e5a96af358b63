// StreamEngine: runs calls with copy engines, which put the blocks of this rank into the memory of
// the others; waiting is done by the streams, in words (world/stream_words.hpp), and
// no SM is busy meanwhile. What is to be reduced goes into staging memory of the rank that folds
// it, by a kernel that waits for nobody. docs/decisions/0037-copy-engines-put.md says why.
//
//   SENNIT_ASSIGN_OR_RETURN(auto engine, StreamEngine::create(driver, words));
//   SENNIT_RETURN_IF_ERROR(engine->use_rings(rings));   // for strands through host memory
//   SENNIT_RETURN_IF_ERROR(engine->reserve_staging(engine->staging_needs(program, extent)));
//   SENNIT_RETURN_IF_ERROR(engine->run(program, call, stream));
//
// The strands of a plan run side by side. Every rank runs the same call; calls of a rank come one
// after the other in stream order. What a rank puts into its streams waits only for what others put
// in before anything that waits for this rank in turn, so a device that has one queue for all
// streams runs it as well. It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/side_streams.hpp"
#include "exec/stream/staging.hpp"
#include "exec/stream/stream_call.hpp"
#include "exec/stream/stream_run.hpp"
#include "path/host/rings.hpp"
#include "world/stream_words.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sennit::stream {

class SlotRun;

class StreamEngine {
 public:
  // `words`: of every rank, as this device sees them.
  static Result<std::unique_ptr<StreamEngine>> create(
      CudaDriver& driver,
      std::vector<RankWords*> words,
      std::int64_t staging_bytes = Staging::kMostBytes);
  ~StreamEngine();
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;

  // Bytes of staging memory that such a call takes on this rank.
  [[nodiscard]] std::int64_t staging_needs(const StreamProgram& program,
                                           const Extent& extent) const;
  // Before a call that needs more; not while a stream captures.
  Status reserve_staging(std::int64_t bytes) { return staging_.reserve(bytes); }
  [[nodiscard]] const Staging& staging() const { return staging_; }

  // Strands through slots in host memory may be run from now on. The rings outlive the engine;
  // called once.
  Status use_rings(host::Rings rings);

  Status run(const PlanProgram& program, const StreamCall& call, void* stream);
  // A plan of one strand that needs no rings. What is longer than the staging memory goes in
  // rounds.
  Status run(const StreamProgram& program, const StreamCall& call, void* stream);

 private:
  StreamEngine(CudaDriver& driver, std::vector<RankWords*> words, std::int64_t staging_bytes);
  Status open();
  StreamContext context();
  [[nodiscard]] std::int64_t rounds_of(const StreamProgram& program, const Extent& extent) const;
  // What a call, or a round of it, says in the words of its rank.
  struct Told {
    int rank = 0;
    std::uint64_t number = 0;  // this and the next as of a StreamCall
    std::uint32_t deadline_ms = 0;
  };
  Status run_all(const Told& told,
                 std::span<StreamRun> direct,
                 std::span<SlotRun> slots,
                 void* stream);

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  Staging staging_;
  SideStreams sides_;
  SideStreams slot_sides_;
  host::Rings rings_;
  std::array<void*, kMaxPieces> folded_{};  // events
};

}  // namespace sennit::stream
