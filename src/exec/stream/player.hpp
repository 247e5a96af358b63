// Player: issues the operations of a list to the driver, in their order. Nothing else here puts
// operations into streams, except a stopwatch, which records events.
//
//   Player player(driver, words);
//   SENNIT_RETURN_IF_ERROR(player.reserve(streams));
//   SENNIT_RETURN_IF_ERROR(player.play(list, scene, stream));
//
// A call of the driver costs microseconds. So flags that follow one another in a list, in one
// stream, take one call, and so do copies by kernels.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/copies.hpp"
#include "exec/stream/operation_list.hpp"
#include "exec/stream/stream_call.hpp"
#include "world/stream_words.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace sennit::stream {

class Stopwatch;

// What the names in a list stand for.
struct Scene {
  // By Memory and index, as this device sees them.
  std::array<std::span<std::byte* const>, kMemories> memories{};
  // Kernels of reductions (exec/stream/reduction.hpp) and of copies (exec/stream/copies.hpp), what
  // avg divides by, and the scalar of each rank.
  const void* reduce = nullptr;
  const void* copy = nullptr;
  unsigned most_blocks = kReductionBlocks;  // of each of these
  std::span<const Buffers> peers{};
  // Of messages: puts the caller's kernels into the user's stream; and the watch of each, or null.
  std::function<Status()> launch{};
  std::span<Stopwatch* const> watches{};

  [[nodiscard]] std::byte* address_of(const Place& place) const {
    return memories[static_cast<std::size_t>(place.memory)][static_cast<std::size_t>(place.index)] +
           place.at;
  }
};

class Player {
 public:
  // `words`: of every rank, as this device sees them.
  Player(CudaDriver& driver, std::vector<RankWords*> words);
  ~Player() { close(); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // From now on lists may have so many streams, with the user's. Of the current device; not while a
  // stream captures. After a failure there are those that there were.
  Status reserve(int streams);

  // What was begun in other streams comes before what the user's stream holds from then on, also
  // after a failure.
  Status play(const OperationList& list, const Scene& scene, void* stream);

  [[nodiscard]] std::span<RankWords* const> words() const { return words_; }

 private:
  // Plays the operations one by one.
  class Play;

  void close();
  Status add_streams(int streams);
  Result<void*> event(int number);

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  std::vector<void*> streams_;   // by number; the user's is null
  std::vector<void*> events_;    // by number, made when first needed
  std::vector<WordStep> steps_;  // gathered for one call of the driver, and so these
  CopiesCall copies_;
};

}  // namespace sennit::stream
