// Choices: what a job decides while it runs, where its plan leaves something open: the paths of
// messages on bundles, and which strand of a claimed plan carries which grain. Jobs of other plans
// have none.
#pragma once

#include "exec/cpu/assigner.hpp"
#include "exec/cpu/bundle.hpp"
#include "exec/cpu/claim_log.hpp"
#include "exec/cpu/spot.hpp"
#include "world/waiting.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

class Job;

class Choices {
 public:
  // Whether a program leaves anything open.
  static bool has_any(const Program& program);

  // Of a job that is just being made, which outlives it.
  explicit Choices(Job& job);

  // Takes what the other ranks have decided, and decides; true when anything moved.
  bool advance();
  // Every lane knows all of its tiles.
  [[nodiscard]] bool has_all_tiles() const { return !claims_ || claims_->is_complete(); }
  // No second copy of a message can come any more.
  [[nodiscard]] bool have_ended() const { return !assigner_ || assigner_->finished(); }
  // Writes the positions back when the call has ended.
  void finish() const;

  // ---- A message of a bundle, by the number of the bundle ----

  [[nodiscard]] Spot spot(int bundle) const { return at(bundle).spot(); }
  [[nodiscard]] bool is_chosen_by_reader(int bundle) const { return at(bundle).by_reader(); }
  bool has_arrived(int bundle) { return at(bundle).find(); }
  // Picks the path of the next message; true when it has a slot there.
  bool has_slot(int bundle);
  // Nothing but this message is missing for its step, which has slots for what it sends.
  void await(int bundle) { at(bundle).orders().await(); }
  void published(int bundle);
  void taken(int bundle);
  // Whether the sent message of a step is its sender's no more; sends it again if its reader says
  // so.
  bool has_ended(const ProgramLane& lane,
                 const ProgramStep& step,
                 const MessageRef& out,
                 std::int64_t tile);
  // The step that sends the message has ended.
  void sent(int bundle) { at(bundle).sent(); }

  // Whether the message has not arrived; then also from whom.
  bool is_missing(int bundle, Waiting& waiting) const;
  // What a job waits for whose lanes wait for nobody.
  [[nodiscard]] Waiting waiting() const;

 private:
  [[nodiscard]] Bundle& at(int bundle) { return bundles_[static_cast<std::size_t>(bundle)]; }
  [[nodiscard]] const Bundle& at(int bundle) const {
    return bundles_[static_cast<std::size_t>(bundle)];
  }
  [[nodiscard]] bool wants_grain(int strand);
  bool take_claims();
  void add_grain(int strand, std::uint64_t tick);
  void record(const Bundle& bundle, TraceMessage::Event event, int path);
  void fail_if_corrupt(Bundle& bundle);

  Job& job_;
  std::vector<Bundle> bundles_;
  std::optional<Assigner> assigner_;
  std::optional<ClaimLog> claims_;
};

}  // namespace sennit
