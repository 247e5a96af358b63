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

  void ask();
  // The next answer, if it is there. One that names no path makes the rings corrupt.
  std::optional<Order> next();
  // The sender has been told what makes no sense.
  [[nodiscard]] bool are_corrupt() const { return corrupt_; }

  // ---- The reading end ----

  // Whether the sender has asked; takes the question.
  bool take_ask();
  void add(const Order& order) { waiting_.push_back(order); }
  // Writes what was added, as far as there are free slots; true when all of it.
  bool write();

 private:
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
  std::deque<Order> waiting_;  // to be written
  bool corrupt_ = false;
};

}  // namespace sennit
