// Stopwatch: how long the strands of one message take at its receiver, by events in the streams
// that move it or wait for it. Who reads it waits for nothing.
//
//   Stopwatch watch(driver.events());
//   SENNIT_RETURN_IF_ERROR(watch.open());
//   watch.reset();                       // for one message
//   watch.begin(stream);                 // both ends have begun
//   watch.end(Stopwatch::kHost, other);  // and so for the other strand, if there is one
//   watch.read();                        // kUnderWay until all ends have been reached
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

class Stopwatch {
 public:
  enum Strand : std::uint8_t { kDirect, kHost };
  static constexpr std::size_t kStrands = 2;

  explicit Stopwatch(CudaEvents& events) : events_(events) {}
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  Status open();

  void reset() {
    has_begun_ = false;
    has_ended_ = {};
  }
  Status begin(void* stream);
  Status end(Strand strand, void* stream);

  struct Reading {
    enum class State : std::uint8_t {
      kUnderWay,
      kDone,
      kVoid,  // it did not begin, or a strand ended before it did: nothing was measured
    };
    State state = State::kUnderWay;
    // Of each strand since the begin; 0 where it did not end, since there is none.
    double direct_us = 0;
    double host_us = 0;
  };
  [[nodiscard]] Reading read() const;

 private:
  CudaEvents& events_;
  void* begin_ = nullptr;               // event
  std::array<void*, kStrands> ends_{};  // events, by strand
  bool has_begun_ = false;              // recorded since the reset, as are
  std::array<bool, kStrands> has_ended_{};
};

}  // namespace sennit::stream
