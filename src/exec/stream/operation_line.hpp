// OperationLine: copies of one rank that follow one another, each of them behind flags that other
// ranks fill, and reported in flags of others.
//
//   writer.consume(line.waits(), flag);
//   line.has_waited();
//   line.copy(to, from, bytes);
//   line.has_copied();
//   writer.fill(line.signals(), flag);
//
// A wait for a flag and a flag that is written take several microseconds each, in the stream of the
// copies as well, where nothing moves meanwhile. So both have streams of their own, as far as there
// are streams: then a copy follows the one before it without a gap
// (docs/decisions/0042-words-beside-copies.md).
#pragma once

#include "exec/stream/operation_writer.hpp"

#include <algorithm>
#include <cstdint>

namespace sennit::stream {

class OperationLine {
 public:
  static constexpr int kMostStreams = 3;

  // `streams` of them, 1 to kMostStreams, from number `first` on.
  OperationLine(OperationWriter& writer, int first, int streams)
      : writer_(writer),
        waits_(first),
        copies_(first + std::min(1, streams - 1)),
        signals_(first + streams - 1) {}

  [[nodiscard]] int waits() const { return waits_; }
  [[nodiscard]] int copies() const { return copies_; }
  [[nodiscard]] int signals() const { return signals_; }

  // Copies from now on come behind all waits so far.
  void has_waited() { order(waits_, copies_); }
  void copy(const Place& to, const Place& from, std::int64_t bytes) {
    writer_.put(copies_, CopyBytes{.to = to, .from = from, .bytes = bytes});
  }
  // Signals from now on come behind all copies so far.
  void has_copied() { order(copies_, signals_); }

 private:
  void order(int before, int after) {
    if (before != after) {
      writer_.order(before, after);
    }
  }

  OperationWriter& writer_;
  int waits_;
  int copies_;
  int signals_;
};

}  // namespace sennit::stream
