// The steps that strands take on words, and how a list of them gets into a stream.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/words.hpp"

#include <cstdint>
#include <vector>

namespace sennit::stream {

inline WordStep fill(std::uint64_t* word) { return {WordStep::Kind::kStore, word, kFull}; }

// Waits until the word is full and frees it.
inline void consume(std::vector<WordStep>& steps, std::uint64_t* word) {
  steps.push_back({WordStep::Kind::kAwait, word, kFull});
  steps.push_back({WordStep::Kind::kStore, word, kFree});
}

// In their order, however many there are.
Status walk(CudaDriver& driver, const std::vector<WordStep>& steps, void* stream);

}  // namespace sennit::stream
