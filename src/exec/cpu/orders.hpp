// Orders: the two rings by which the reader of a bundle chooses the paths of what is sent to it.
// The sender asks for each message; the reader answers with a path, perhaps with a second one (send
// it again), and in the end with the end of the step.
#pragma once

#include "exec/cpu/bound_program.hpp"

#include <cstdint>
#include <deque>
#include <optional>

namespace sennit {

class Orders {
 public:
  enum class Answer : std::uint8_t { kGo, kAgain, kEnd };
  struct Order {
    Answer answer = Answer::kEnd;
    int path = 0;
  };

  // `bound` outlives it.
  Orders(const BoundProgram& bound, const ProgramBundle& ends, std::uint32_t fingerprint);

  // Writes the positions back when the call has ended.
  void finish() const;

  // ---- The sending end ----

  // Asks, once a message. The path of kGo, as soon as it is there.
  std::optional<int> ask();
  // The next answer, until the end of the message.
  std::optional<Order> next();
  // The reader has answered what makes no sense.
  [[nodiscard]] bool are_corrupt() const { return corrupt_; }
  // The answer was kEnd.
  [[nodiscard]] bool has_ended() const { return ended_; }
  // The next message follows.
  void pass();

  // ---- The reading end ----

  // The step that takes the next message lacks nothing else. Only then may a path be chosen: a copy
  // that was issued must complete by itself, or those who wait for its completion might wait for
  // ever.
  void await() { awaited_ = true; }
  // The next message has been taken.
  void taken() { awaited_ = false; }
  // Whether the message is awaited, and its sender has asked for it since the last order.
  bool take_ask();
  void add(const Order& order) { waiting_.push_back(order); }
  // Writes what was added, as far as there are free slots; true when all of it.
  bool write();

 private:
  // The next answer, if it is there. One that names no path makes the rings corrupt.
  std::optional<Order> read();
  [[nodiscard]] const BoundProgram::BoundLink& asks() const {
    return bound_.links()[static_cast<std::size_t>(ends_.ask)];
  }
  [[nodiscard]] const BoundProgram::BoundLink& answers() const {
    return bound_.links()[static_cast<std::size_t>(ends_.order)];
  }

  const BoundProgram& bound_;
  const ProgramBundle& ends_;
  std::uint32_t fingerprint_;
  std::uint64_t asked_;
  std::uint64_t answered_;
  bool corrupt_ = false;
  // Of the sender's message.
  bool is_asked_ = false;
  std::optional<int> path_;
  bool ended_ = false;
  // The reader's.
  bool awaited_ = false;
  std::deque<Order> waiting_;  // to be written
};

}  // namespace sennit
