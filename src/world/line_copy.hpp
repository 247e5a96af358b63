// LineCopy: what a status line says at one moment, to be sent to another node and put into the line
// that stands for the rank there.
#pragma once

#include "world/rendezvous/wire.hpp"
#include "world/status_line.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace sennit {

struct LineCopy {
  static constexpr std::size_t kCalls = 3;

  RankState state = RankState::kJoining;
  ProbeState probe = ProbeState::kNone;
  bool is_stopped = false;
  std::uint32_t failure_code = 0;
  std::int32_t blamed = -1;
  std::int32_t waits_for = -1;
  std::uint32_t beats = 0;
  std::uint64_t left = 0;
  std::uint64_t entered = 0;
  std::uint64_t long_wait = 0;
  std::uint64_t moves = 0;
  std::array<CallWords, kCalls> calls{};  // `entered` and those before it

  bool operator==(const LineCopy&) const = default;

  // Of a line whose owner goes on meanwhile: `left` and the calls are at least as new as `state`.
  static LineCopy of(const StatusLine& line);
  // By the only writer of that line. A reader sees the calls of this copy, or none of them.
  void put(StatusLine& line) const;

  void write(WireWriter& out) const;
  static std::optional<LineCopy> read(WireReader& in);
};

}  // namespace sennit
