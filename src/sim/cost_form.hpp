// CostForm: a strand with everything looked up that says how long its steps take: the legs their
// bytes move on, start-ups, what they wait for.
#pragma once

#include "sim/fabric.hpp"
#include "verify/flat_strand.hpp"

#include <map>
#include <tuple>
#include <vector>

namespace sennit::sim {

// Bytes of a step that move as one flow.
struct Part {
  const std::vector<Use>* uses = nullptr;
  double limit = 0;   // bytes a picosecond, 0: none
  double factor = 1;  // bytes moved for each byte of the message
  Time start = 0;     // before they move
  int channel = -1;   // of a bundle: only if the message takes `alternative`
  int alternative = -1;
};

struct Taken {
  int channel = 0;
  int reader = 0;  // which of the channel's readers
  int count = 1;   // messages a tile
};

struct Sent {
  int channel = 0;
  int count = 1;
};

// Step `step` of `lane` (of the same strand copy) must have finished tile t - delay.
struct Wait {
  int lane = 0;
  int step = 0;
  int delay = 0;
};

struct CostStep {
  std::vector<Part> parts;
  std::vector<Taken> taken;
  std::vector<Sent> sent;
  std::vector<Wait> waits;
  const std::vector<Block>* lengths = nullptr;  // one message holds the tile of these blocks
  int length_count = 0;                         // of them, from the first on
  bool exposes = false;                         // ends when its readers have taken (direct_get)
  bool awaited = false;                         // some step of this rank waits for it
  // Where its device runs one rank at a time: what a change from another rank takes. 0: it does not
  // need the device, or all ranks have it at once.
  Time change = 0;
};

// What is between the two ends of a channel besides the steps.
struct ChannelDelays {
  Time flight = 0;  // from the end of the sending step to the reader's seeing the message
  Time free = 0;    // from the end of the taking step, or round, to the writer's knowing of it
};

class CostForm {
 public:
  // Refuses paths that the machine does not have. `in_turn`: devices run one rank at a time.
  static Result<CostForm> build(const Strand& strand, Fabric& fabric, bool in_turn);

  [[nodiscard]] const FlatStrand& flat() const { return flat_; }
  [[nodiscard]] const std::vector<CostStep>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<ChannelDelays>& delays() const { return delays_; }
  // Of a lane, in all its steps.
  [[nodiscard]] const std::vector<Taken>& taken_by(int lane) const {
    return taken_[static_cast<std::size_t>(lane)];
  }
  // Whether thread blocks run the lane when the others of a round have ended, as nobody waits for
  // what it copies.
  [[nodiscard]] bool goes_last(int lane) const { return last_[static_cast<std::size_t>(lane)]; }
  // Thread blocks that carry packets go through their tiles in rounds, each of which fills one
  // generation of slots: no lane of a block begins a round before all have ended the one before.
  // 0: there are no rounds.
  [[nodiscard]] std::int64_t round_tiles() const;

 private:
  CostForm(const Strand& strand, Fabric& fabric);

  Status add_step(int number);
  void add_delays();
  void add_lanes();
  [[nodiscard]] Time free_delay(int channel) const;
  [[nodiscard]] bool reads_input(int channel) const;
  [[nodiscard]] bool rides_along(int lane) const;
  [[nodiscard]] Engine engine_of(LaneId lane) const;
  [[nodiscard]] Time start_of(PathKind path, Engine engine) const;
  [[nodiscard]] bool is_posted(LaneId writer, LaneId reader, const ChannelBinding& binding) const;
  Status add_sends(int number, CostStep& out);
  Status add_takes(int number, CostStep& out);
  Status add_message(int number, int channel, LaneId peer, CostStep& out);
  void add_local(int number, CostStep& out);
  void add_change(int number, CostStep& out) const;
  void add_waits(int number, CostStep& out);
  void find_lengths(int number, CostStep& out) const;
  [[nodiscard]] bool arrives_unstored(int number, int channel) const;
  [[nodiscard]] Part part(int number, PathKind path, const std::vector<Use>& uses) const;
  [[nodiscard]] double store_factor(const std::vector<Use>& uses, const PathCost& cost) const;
  const std::vector<Use>& memory_uses(int rank, double touches, double combined);
  [[nodiscard]] std::vector<int> scratches_of(int step) const;

  FlatStrand flat_;
  Fabric* fabric_;
  std::vector<CostStep> steps_;
  std::vector<ChannelDelays> delays_;        // by channel
  std::vector<std::vector<Taken>> taken_;    // by lane
  std::vector<bool> last_;                   // by lane
  std::vector<std::vector<int>> scratches_;  // that a step touches, by step
  std::vector<std::vector<int>> lanes_of_;   // by rank
  std::map<std::tuple<int, int, double, double>, std::vector<Use>> local_uses_;
};

}  // namespace sennit::sim
