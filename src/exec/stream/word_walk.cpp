#include "exec/stream/word_walk.hpp"

#include "exec/stream/words.hpp"

#include <algorithm>
#include <span>

namespace sennit::stream {

void WordWalk::store(std::uint64_t* word, std::uint64_t value) {
  steps_.push_back({WordStep::Kind::kStore, word, value});
}

void WordWalk::fill(std::uint64_t* word) { store(word, kFull); }

void WordWalk::consume(std::uint64_t* word) {
  steps_.push_back({WordStep::Kind::kAwait, word, kFull});
  store(word, kFree);
}

Status WordWalk::go() {
  for (std::size_t at = 0; at < steps_.size(); at += kMaxWordSteps) {
    const std::size_t count = std::min(kMaxWordSteps, steps_.size() - at);
    SENNIT_RETURN_IF_ERROR(driver_.walk_words(std::span(steps_).subspan(at, count), stream_));
  }
  steps_.clear();
  return {};
}

}  // namespace sennit::stream
