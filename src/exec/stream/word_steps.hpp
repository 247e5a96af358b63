// The steps that strands take on words, and how a list of them gets into a stream.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "world/stream_words.hpp"

#include <cstdint>
#include <vector>

namespace sennit::stream {

inline WordStep fill(std::uint64_t* word) { return {WordStep::Kind::kStore, word, kFull}; }

// Waits until the word is full and frees it.
inline void consume(std::vector<WordStep>& steps, std::uint64_t* word) {
  steps.push_back({WordStep::Kind::kAwait, word, kFull});
  steps.push_back({WordStep::Kind::kStore, word, kFree});
}

// A number of 0: that of a graph, which would say it again in every replay.
inline void end_call(std::vector<WordStep>& steps, RankWords& words, std::uint64_t number) {
  steps.push_back({WordStep::Kind::kStore, &words.running, kIdle});
  if (number != 0) {
    steps.push_back({WordStep::Kind::kStore, &words.ended, number});
  }
}

// In their order, however many there are.
Status walk(CudaDriver& driver, const std::vector<WordStep>& steps, void* stream);

}  // namespace sennit::stream
