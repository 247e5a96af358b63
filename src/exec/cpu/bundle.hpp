// Bundle: this rank's end of a channel over several paths, in one call. The counting is that of
// channel/bundle.hpp; here are the picks.
//
// Where the sender chooses, it picks by a path policy. Where the reader chooses, it does so by
// Orders: until the end of the step the sender's blocks are its own no more, and one message is
// under way at a time.
#pragma once

#include "channel/bundle.hpp"
#include "exec/cpu/bound_program.hpp"
#include "exec/cpu/orders.hpp"
#include "exec/cpu/spot.hpp"
#include "exec/cpu/trace.hpp"
#include "schedule/path_policy.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace sennit {

class Bundle {
 public:
  // `bound` outlives the bundle.
  Bundle(const BoundProgram& bound, const ProgramBundle& ends, std::uint32_t fingerprint);

  [[nodiscard]] const ProgramBundle& ends() const { return ends_; }
  [[nodiscard]] int peer() const { return link(0).peer; }
  [[nodiscard]] bool by_reader() const { return orders_.has_value(); }
  // Where the reader chooses.
  [[nodiscard]] Orders& orders() { return *orders_; }
  [[nodiscard]] int path() const { return path_; }
  // Of the message on the path that was picked or found, or on another one.
  [[nodiscard]] Spot spot() const { return spot_on(path_); }
  [[nodiscard]] Spot spot_on(int path) const;

  // What a trace records of the next message.
  [[nodiscard]] TraceMessage trace(TraceMessage::Event event, int path) const;
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

  void also_sent_on(int path) { again_ = path; }

  // ---- The reading end ----

  // Looks for the next message on every path.
  bool find();
  [[nodiscard]] bool is_there() const;
  // It is there, but belongs to another call.
  [[nodiscard]] bool is_foreign() const;
  // The slot of the message found is free again.
  void taken();

  void order(Orders::Answer answer, int path);
  // The second copy of the message last taken, if it has come; it is dropped.
  std::optional<int> drop_late();
  [[nodiscard]] bool awaits_late() const { return late_ >= 0; }

 private:
  [[nodiscard]] const BoundProgram::BoundLink& link(int path) const {
    return bound_
        .links()[static_cast<std::size_t>(ends_.first_link) + static_cast<std::size_t>(path)];
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
  std::optional<Orders> orders_;
  int first_path_ = 0;  // the reader's: where it has ordered the sender to go first
  int again_ = -1;      // the second path of the message under way
  int late_ = -1;       // the path of a second copy that has still to come
  std::uint64_t late_sequence_ = 0;
  // See SlowPath: the last message that was there, and since when.
  std::uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point seen_since_;
};

}  // namespace sennit
