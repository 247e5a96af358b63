// StreamEngine: runs calls with copy engines alone. Streams of its own take the blocks of the other
// ranks out of their memory; waiting is done by the streams, in words (exec/stream/words.hpp), and
// no SM is busy meanwhile.
//
//   SENNIT_ASSIGN_OR_RETURN(auto engine, StreamEngine::create(driver, words));
//   SENNIT_RETURN_IF_ERROR(engine->run(program, call, stream));
//
// Every rank runs the same call; calls of a rank come one after the other in stream order. What a
// rank puts into its streams waits only for what others put in before anything that waits for this
// rank in turn, so a device that has one queue for all streams runs it as well. It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/stream_program.hpp"
#include "exec/stream/words.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sennit::stream {

// The buffers of a rank as this device sees them; what nobody takes from it may be null.
struct Buffers {
  const std::byte* input = nullptr;
  const std::byte* output = nullptr;
};

struct StreamCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::span<const Buffers> peers;  // by rank
  std::int64_t count = 0;
  std::int64_t element_bytes = 1;
  // Blocks that are passed on are cut into parts of about this length, the same on all ranks: so
  // short that others can begin soon, so long that copying one takes much longer than saying so,
  // which costs 10 to 20 us.
  std::int64_t part_bytes = std::int64_t{64} << 20;
};

class StreamEngine {
 public:
  // `words`: of every rank, as this device sees them.
  static Result<std::unique_ptr<StreamEngine>> create(CudaDriver& driver,
                                                      std::vector<RankWords*> words);
  ~StreamEngine();
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;

  Status run(const StreamProgram& program, const StreamCall& call, void* stream);

 private:
  // A stream for the copies of each depth, and one for what stays on this rank.
  static constexpr int kOwnStream = kMaxDepth;
  static constexpr int kStreams = kOwnStream + 1;

  // A stream of the engine, and the event that says how far it is.
  struct Side {
    void* stream = nullptr;
    void* event = nullptr;
    bool is_used = false;  // in the running call
  };
  class Run;

  StreamEngine(CudaDriver& driver, std::vector<RankWords*> words);
  Status open();

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  std::array<Side, kStreams> sides_{};
  void* began_ = nullptr;  // event
};

}  // namespace sennit::stream
