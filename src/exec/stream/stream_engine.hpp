// StreamEngine: runs collectives with copy engines, which put the blocks of this rank into the
// memory of the others. Streams wait for flags (world/stream_words.hpp), and no SM is busy
// meanwhile. What is to be reduced goes into staging memory of the rank that reduces it, by a
// kernel that waits for nobody. docs/decisions/0037-copy-engines-put.md says why.
//
//   SENNIT_ASSIGN_OR_RETURN(auto engine, StreamEngine::create(driver, words));
//   SENNIT_RETURN_IF_ERROR(engine->use_rings(rings));   // for strands through host memory
//   SENNIT_RETURN_IF_ERROR(engine->reserve_staging(engine->staging_needs(program, extent)));
//   SENNIT_RETURN_IF_ERROR(engine->run(program, call, stream));
//
// The strands of a plan run side by side. Every rank runs the same call; calls of a rank come one
// after the other in stream order. A call is a list of operations (exec/stream/operation_list.hpp),
// which comes to its end also where a device has one queue for all streams. It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/operation_list.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/player.hpp"
#include "exec/stream/staging.hpp"
#include "exec/stream/stream_call.hpp"
#include "path/host/rings.hpp"
#include "world/stream_words.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sennit::stream {

class StreamEngine {
 public:
  // `words`: of every rank, as this device sees them.
  static Result<std::unique_ptr<StreamEngine>> create(
      CudaDriver& driver,
      std::vector<RankWords*> words,
      std::int64_t staging_bytes = Staging::kMostBytes);
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
  StreamEngine(CudaDriver& driver, std::vector<RankWords*> words, std::int64_t staging_bytes)
      : staging_(driver, staging_bytes), player_(driver, std::move(words)) {}
  Status play(int rank,
              const StreamCall& call,
              void* stream,
              unsigned most_blocks = kReductionBlocks);

  Staging staging_;
  Player player_;
  host::Rings rings_;
  OperationList list_;  // of the last call: its memory serves the next one
};

}  // namespace sennit::stream
