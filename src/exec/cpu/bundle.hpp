// Bundle: this rank's end of a channel over several paths, in one call. The counting is that of
// channel/bundle.hpp; here are the picks.
//
// Where the sender chooses, it picks by a path policy. Where the reader chooses, two more rings
// lead there and back: the sender asks for each message, the reader answers with a path, perhaps
// with a second one (send it again), and in the end with the end of the step. Until then the
// sender's blocks are its own no more. One message of such a bundle is under way at a time.
#pragma once

#include "channel/bundle.hpp"
#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/spot.hpp"
#include "schedule/path_policy.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

namespace sennit {

class Bundle {
 public:
  // `bound` outlives the bundle.
  Bundle(const BoundProgram& bound, const ProgramBundle& ends, std::uint32_t fingerprint);

  [[nodiscard]] const ProgramBundle& ends() const { return ends_; }
  [[nodiscard]] int rank() const { return bound_.program().rank; }
  [[nodiscard]] int peer() const { return link(0).peer; }
  [[nodiscard]] bool by_reader() const { return ends_.ask >= 0; }
  // The number of the next message, from the beginning of the call.
  [[nodiscard]] std::int64_t message() const {
    return static_cast<std::int64_t>(counts_.sequence - first_);
  }
  [[nodiscard]] int path() const { return path_; }
  // Of the message on the path that was picked or found, or on another one.
  [[nodiscard]] Spot spot() const { return spot_on(path_); }
  [[nodiscard]] Spot spot_on(int path) const;

  // Writes the positions back when the call has ended.
  void finish() const;

  // ---- The sending end ----

  // Adds what this bundle has under way, and has brought through in this call, to `view`.
  void add_load(int path, PathView& view);
  // Picks a path; false when the message must wait. `views`: of all bundles of this rank, by path.
  bool pick(const PathPolicy& policy, std::span<PathView> views);
  // The same, where another rule has picked already.
  bool use(int path);
  // The message lies there for its reader.
  void published() { published_ = true; }
  // Its step has ended.
  void sent();

  // What the reader answers, if it chooses.
  enum class Answer : std::uint8_t { kGo, kAgain, kEnd };
  struct Order {
    Answer answer = Answer::kEnd;
    int path = 0;
  };
  // Asks once a message; the path of kGo is picked. False while there is no answer.
  bool ask();
  // The next answer; a path that is none makes the bundle corrupt.
  std::optional<Order> next_order();
  [[nodiscard]] bool is_corrupt() const { return corrupt_; }
  void also_sent_on(int path) { again_ = path; }
  void end_message() { ended_ = true; }
  [[nodiscard]] bool has_ended() const { return ended_; }

  // ---- The reading end ----

  // Looks for the next message on every path.
  bool find();
  [[nodiscard]] bool is_there() const;
  // It is there, but belongs to another call.
  [[nodiscard]] bool is_foreign() const;
  // The slot of the message found is free again.
  void taken();

  // The step that takes the next message lacks nothing else. Only then may a path be chosen: a copy
  // that was issued must complete by itself, or those who wait for its completion might wait for
  // ever.
  void await() { awaited_ = true; }
  // Whether the message is awaited, and its sender has asked for it since the last order.
  bool is_asked();
  void order(Answer answer, int path);
  // Writes what was ordered, as far as there are free slots; true when all of it.
  bool write_orders();
  // The second copy of the message last taken, if it has come; it is dropped.
  std::optional<int> drop_late();
  [[nodiscard]] bool awaits_late() const { return late_ >= 0; }

 private:
  [[nodiscard]] const BoundProgram::BoundLink& link(int path) const {
    return bound_
        .links()[static_cast<std::size_t>(ends_.first_link) + static_cast<std::size_t>(path)];
  }
  [[nodiscard]] const BoundProgram::BoundLink& control(int index) const {
    return bound_.links()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool has_slot(int path) const;
  [[nodiscard]] bool holds(int path, std::uint64_t sequence) const;
  bool is_visible(int path, std::uint64_t sequence);

  const BoundProgram& bound_;
  const ProgramBundle& ends_;
  std::uint32_t fingerprint_;
  channel::BundleCounts counts_;
  std::uint64_t first_ = 0;
  int path_ = 0;
  // The first position of this call, and the oldest that is not known to be taken.
  std::uint64_t begin_[channel::kMaxPaths] = {};
  std::uint64_t untaken_[channel::kMaxPaths] = {};

  bool published_ = false;

  // Of a reader's choice.
  std::uint64_t asks_ = 0;
  std::uint64_t orders_ = 0;
  bool asked_ = false;
  bool awaited_ = false;
  bool has_path_ = false;
  bool ended_ = false;
  bool corrupt_ = false;
  int first_path_ = 0;  // the reader's: where it has told the sender to go first
  int again_ = -1;      // the second path of the message under way
  int late_ = -1;       // the path of a second copy that has still to come
  std::uint64_t late_sequence_ = 0;
  std::deque<Order> ordered_;  // and not written yet
  // See SlowPath: the last message that was there, and since when.
  std::uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point seen_since_;
};

}  // namespace sennit
