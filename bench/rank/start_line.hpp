// Where all ranks wait for each other before a sample, in memory of the bench itself: neither the
// library that is timed nor its rival has warmed up in it, and ranks leave it within a fraction of
// a microsecond.
#pragma once

#include "sennit/sennit.h"

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit::bench {

class StartLine {
 public:
  // Called by all ranks, which must run on one machine. Exits with an error where it cannot be
  // made.
  StartLine(sennit_comm_t comm, int rank, int ranks);
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;
  ~StartLine();

  // True when all ranks have come; false when one of them has died or was stopped, which the
  // library can say more about.
  [[nodiscard]] bool wait();

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kMostRanks = 4096;

  struct Shared {
    alignas(kLine) std::atomic<std::uint32_t> arrived;
    alignas(kLine) std::atomic<std::uint32_t> round;
    alignas(kLine) std::array<std::atomic<pid_t>, kMostRanks> pids;
  };

  [[nodiscard]] bool all_run() const;

  Shared* shared_ = nullptr;
  std::uint32_t ranks_;
  bool has_core_ =
      false;  // every rank has a core of its own, so that waiting takes none from others
};

}  // namespace sennit::bench
