// SingleTile: a program resolved for calls of one kind and length whose blocks fit a tile each.
//
// Job finds out anew in every call how many tiles there are, where each block and each message
// lies, and keeps the state for it; for a message of 8 bytes that takes ten times as long as the
// message. Here all of it is looked up once. What is left are the steps of the schedule, with the
// same waits, the same words, the same moments of DieAt and the same events of a trace; a run that
// has begun here can go on as a Job.
//
//   if (auto quick = SingleTile::resolve(Job(bound, call))) {
//     SingleTile::Run run = quick->begin(call);
//     while (!run.has_ended() && is_patient()) { quick->advance(run); }
//   }
#pragma once

#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/job.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sennit {

class SingleTile {
 public:
  static constexpr std::size_t kMostLanes = 32;

  // Nothing where a call is not that simple: several tiles or none, messages by address or over
  // rails, choices at run time, scratch, scaling, lengths that vary, or very many lanes or
  // operands. `job` must not have advanced; its bound program must outlive what comes back.
  static std::optional<SingleTile> resolve(const Job& job);

  struct Run {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::uint32_t fingerprint = 0;
    DieAt* die_at = nullptr;
    Trace* trace = nullptr;
    std::size_t lanes_left = 0;
    std::array<std::uint8_t, kMostLanes> steps_done{};  // by lane of the program

    [[nodiscard]] bool has_ended() const { return lanes_left == 0; }
    void reach_moment() const {
      if (die_at != nullptr) {
        die_at->pass();
      }
    }
  };

  // `call` is like the one that was resolved, but for its buffers and its fingerprint.
  [[nodiscard]] Run begin(const Call& call, Trace* trace = nullptr) const;
  // Lets every lane go as far as it can; true when anything moved.
  bool advance(Run& run) const;

 private:
  struct Message {
    const BoundProgram::BoundLink* link = nullptr;
    std::uint64_t index = 0;  // of the link's messages in the call
    std::size_t bytes = 0;

    [[nodiscard]] std::uint64_t position() const { return *link->position + index; }
    [[nodiscard]] std::byte* payload() const { return link->ring.payload(position(), bytes); }
  };
  enum class Base : std::uint8_t { kInput, kOutput, kIn, kOut };
  struct Place {
    Base base = Base::kInput;
    std::size_t message = 0;  // of the step, for kIn and kOut
    std::int64_t offset = 0;
  };
  // Copies one operand, or reduces several.
  struct Move {
    Place to;
    std::vector<Place> from;
    std::int64_t elements = 0;
  };
  struct TileStep {
    std::vector<Wait> waits;
    std::vector<Message> in;
    std::vector<Message> out;
    std::vector<Move> moves;
  };
  using TileLane = std::vector<TileStep>;
  // What a call adds to the position of a link.
  struct Count {
    const BoundProgram::BoundLink* link = nullptr;
    std::uint64_t messages = 0;
  };

  class Resolver;

  explicit SingleTile(const Job& job);
  static bool may_run(const Run& run, const TileStep& step);
  static bool has_slot(const Message& message);
  static std::byte* at(const Run& run, const TileStep& step, const Place& place);
  void run_step(Run& run, std::size_t lane, std::size_t index) const;
  void run_move(const Run& run, const TileStep& step, const Move& move) const;
  void finish() const;

  const Program* program_;
  Dtype dtype_;
  ReduceOp op_;
  std::int64_t element_bytes_;
  std::vector<TileLane> lanes_;  // by lane of the program; empty: has nothing to run
  std::size_t lanes_to_run_ = 0;
  std::vector<Count> counts_;
};

}  // namespace sennit
