// StreamEngine: runs calls with copy engines, which put the blocks of this rank into the memory of
// the others; waiting is done by the streams, in words (exec/stream/words.hpp), and
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
#include "exec/stream/byte_range.hpp"
#include "exec/stream/fold.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/side_streams.hpp"
#include "exec/stream/staging.hpp"
#include "exec/stream/words.hpp"
#include "path/host/rings.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sennit::stream {

class SlotRun;

// The memory of a rank as this device sees it; where nobody puts anything, it may be null.
struct Buffers {
  std::byte* output = nullptr;
  std::byte* staging = nullptr;
  decltype(FoldCall::Operand::scalar) scalar{};  // of its rank: for premul_sum
};

struct StreamCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::span<const Buffers> peers;  // by rank
  std::int64_t count = 0;
  std::int64_t element_bytes = 1;
  // Blocks that are passed on are cut into parts of about this length, the same on all ranks: so
  // short that others can begin soon, so long that copying one takes much longer than saying so,
  // which takes microseconds. Those that are folded, into three pieces from twice this on.
  std::int64_t part_bytes = std::int64_t{8} << 20;
  // Kernels (exec/stream/fold.hpp): of programs with folds, and for blocks that stay on this rank.
  // Null: copy engines have these, which then slow down what leaves.
  const void* fold = nullptr;
  const void* copy = nullptr;

  [[nodiscard]] Extent extent() const { return {count, element_bytes}; }
};

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
  // Beside the user's: a stream for what is passed on, and one for what stays on this rank.
  static constexpr int kForwards = 0;
  static constexpr int kOwnStream = 1;
  static constexpr int kStreams = 2;

  class Run;

  StreamEngine(CudaDriver& driver, std::vector<RankWords*> words, std::int64_t staging_bytes);
  Status open();
  [[nodiscard]] std::int64_t rounds_of(const StreamProgram& program, const Extent& extent) const;
  Status run_all(int rank, std::span<Run> direct, std::span<SlotRun> slots, void* stream);

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  Staging staging_;
  SideStreams sides_;
  SideStreams slot_sides_;
  host::Rings rings_;
  static constexpr int kMaxPieces = 3;
  std::array<void*, kMaxPieces> folded_{};  // events
};

}  // namespace sennit::stream
