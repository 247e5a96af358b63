// WordWalk: steps in words (exec/stream/words.hpp) on their way into a stream. They are gathered
// until something else goes into the stream, since each call of the driver costs microseconds.
//
//   WordWalk walk(driver, stream);
//   walk.consume(ready);
//   SENNIT_RETURN_IF_ERROR(walk.go());
//   SENNIT_RETURN_IF_ERROR(driver.copy_async(to, from, bytes, stream));
//   walk.fill(done);
//   return walk.go();
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstdint>
#include <vector>

namespace sennit::stream {

class WordWalk {
 public:
  WordWalk(CudaDriver& driver, void* stream) : driver_(driver), stream_(stream) {}

  void store(std::uint64_t* word, std::uint64_t value);
  void fill(std::uint64_t* word);
  // Waits until the word is full and frees it.
  void consume(std::uint64_t* word);
  // Puts what was gathered into the stream.
  Status go();

 private:
  CudaDriver& driver_;
  void* stream_;
  std::vector<WordStep> steps_;
};

}  // namespace sennit::stream
