// CopyLine: copies of one rank that follow one another, each of them behind words that other ranks
// fill, and told of in words of others.
//
//   SENNIT_RETURN_IF_ERROR(line.await(steps));
//   SENNIT_RETURN_IF_ERROR(line.copy(to, from, bytes));
//   SENNIT_RETURN_IF_ERROR(line.tell(steps));
//
// A wait for a word and a word that is written take several microseconds each, in the stream of the
// copies as well, where nothing moves meanwhile. So both have streams of their own, as far as there
// are streams: then a copy follows the one before it without a gap
// (docs/decisions/0042-words-beside-copies.md).
#pragma once

#include "exec/stream/side_streams.hpp"
#include "exec/stream/word_steps.hpp"

#include <cstddef>
#include <vector>

namespace sennit::stream {

class CopyLine {
 public:
  static constexpr int kMostStreams = 3;

  // `streams` of `sides`, 1 to kMostStreams, from `first` on.
  CopyLine(CudaDriver& driver, SideStreams& sides, int first, int streams);

  // Copies from now on come behind these steps,
  Status await(const std::vector<WordStep>& steps);
  Status copy(void* to, const void* from, std::size_t bytes);
  // and these behind all copies so far.
  Status tell(const std::vector<WordStep>& steps);

  [[nodiscard]] Result<void*> stream_of_copies() { return sides_.use(copies_); }

 private:
  CudaDriver& driver_;
  SideStreams& sides_;
  int waits_;
  int copies_;
  int tells_;
};

}  // namespace sennit::stream
