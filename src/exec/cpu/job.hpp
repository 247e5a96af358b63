// Job: one call of one rank on the cpu engine. Lanes are state machines; advance() lets each try
// its next step and never waits, so that one thread can run many jobs.
//
//   Job job(bound, call);
//   while (!job.finished()) {
//     if (!job.advance()) { ... sleep, look after failures ... }
//   }
#pragma once

#include "exec/cpu/die_at.hpp"
#include "exec/cpu/doorbell.hpp"
#include "exec/cpu/program.hpp"
#include "path/cma/peer_memory.hpp"
#include "path/shm/ring_pool.hpp"
#include "types/reduce.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sennit {

// What the engine needs of one rank of a communicator; outlives its programs and jobs.
struct HostRank {
  HostRank(int rank_number, shm::RingPool pool, Doorbell* all_bells);

  // Messages so far on the ring to (from) `peer` at `port`.
  std::uint64_t& sent(int peer, int port) { return sent_[at(peer, port)]; }
  std::uint64_t& received(int peer, int port) { return received_[at(peer, port)]; }

  int rank;
  shm::RingPool rings;
  Doorbell* bells;  // by rank
  std::vector<cma::PeerMemory> peers;

 private:
  [[nodiscard]] std::size_t at(int peer, int port) const {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(rings.geometry().ports) +
           static_cast<std::size_t>(port);
  }

  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
};

// A program with its rings looked up. `rank_of_role` maps the plan's ranks to the communicator's;
// empty when they are the same (all but send_recv).
class BoundProgram {
 public:
  struct BoundLink {
    shm::Ring ring;
    Doorbell* bell;           // of the peer
    std::uint64_t* position;  // messages so far, of the rank
    const cma::PeerMemory* memory;
    int peer;
    int messages_per_tile;
  };

  BoundProgram(Program program, HostRank& rank, std::span<const int> rank_of_role);

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<BoundLink>& links() const { return links_; }

 private:
  Program program_;
  std::vector<BoundLink> links_;
};

// What one call works on.
struct Call {
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t count = 0;
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  Scaling scaling{};
  std::uint32_t fingerprint = 0;
  DieAt* die_at = nullptr;  // for tests: where this rank ends in the call
  // Where lengths vary: this rank's blocks, instead of `count`. They must outlive the job.
  std::span<const ElementRange> inputs{};
  std::span<const ElementRange> outputs{};
};

// A step as it ran; a test replays these against the proof's graph.
struct TraceEvent {
  int rank = 0;
  int strand = 0;
  int copy = 0;
  int lane = 0;
  int step = 0;
  std::int64_t tile = 0;    // of the strand copy, from 0
  std::uint64_t begin = 0;  // ticks of one clock that all ranks share
  std::uint64_t end = 0;
};

class Trace {
 public:
  explicit Trace(std::atomic<std::uint64_t>& clock) : clock_(clock) {}
  std::uint64_t tick() { return clock_.fetch_add(1, std::memory_order_acq_rel); }
  void add(const TraceEvent& event) { events_.push_back(event); }
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }

 private:
  std::atomic<std::uint64_t>& clock_;
  std::vector<TraceEvent> events_;
};

class Job {
 public:
  // `trace` may be null. `bound` must outlive the job.
  Job(const BoundProgram& bound, const Call& call, Trace* trace = nullptr);

  // Lets every lane try; true when anything moved.
  bool advance();
  [[nodiscard]] bool finished() const { return lanes_left_ == 0; }
  // Not ok when a copy out of a peer's memory failed; the job cannot go on then.
  [[nodiscard]] const Status& status() const { return status_; }

  // What the first unfinished lane that depends on another rank waits for.
  struct Waiting {
    int peer = -1;  // -1: nothing that another rank must do
    int lane = 0;
    int step = 0;
    std::int64_t tile = 0;
    bool foreign = false;  // the message is there, but belongs to another call
  };
  [[nodiscard]] Waiting waiting() const;

 private:
  struct LaneState {
    std::int64_t units = 0;  // bursts of tiles this lane has to run
    std::int64_t unit = 0;
    int step = 0;
    bool posted = false;  // the step has run; its direct_get messages are not all fetched yet
  };
  struct StrandView {
    std::int64_t tile_elements = 0;
    std::int64_t tiles = 0;
    std::vector<ElementRange> parts;  // of the user's buffer, by block of a cut vector; or by input
    std::vector<ElementRange> output_parts;  // block, and by output block, where lengths vary
    ElementRange part;                       // of one rank's part otherwise
  };
  // A link during this call.
  struct LinkState {
    std::uint64_t base = 0;           // messages before it
    std::uint32_t fingerprint = 0;    // of its full words
    std::vector<std::int64_t> tiles;  // that have message i; empty: all tiles have all messages
  };
  struct Slice {
    std::byte* data = nullptr;
    std::int64_t elements = 0;
  };

  void lay_out();
  [[nodiscard]] StrandView view_of(int strand) const;
  void open_links();
  [[nodiscard]] int width_of(int strand) const;
  [[nodiscard]] std::int64_t tiles_of_copy(int strand, int copy) const;
  [[nodiscard]] ElementRange part_of(const StrandView& view, LengthOf block) const;
  [[nodiscard]] std::int64_t slice_elements(const ProgramLane& lane,
                                            LengthOf block,
                                            std::int64_t tile) const;
  [[nodiscard]] Slice slice(const ProgramLane& lane, const Piece& piece, std::int64_t tile) const;
  [[nodiscard]] std::size_t message_bytes(const ProgramLane& lane,
                                          const ProgramStep& step,
                                          std::int64_t tile) const;
  // Whether the tile has the message; where lengths vary, it may be left out at both ends.
  [[nodiscard]] bool exists(const MessageRef& ref, std::int64_t tile) const;
  [[nodiscard]] std::uint64_t number(const MessageRef& ref, std::int64_t tile) const;

  bool try_lane(std::size_t index);
  void reach_moment() const {
    if (call_.die_at != nullptr) {
      call_.die_at->pass();
    }
  }
  void run_unit(const ProgramLane& lane, int index, std::int64_t first, std::int64_t last);
  [[nodiscard]] bool ready(const ProgramStep& step, std::int64_t first, std::int64_t last) const;
  [[nodiscard]] bool waits_over(const ProgramStep& step, std::int64_t last) const;
  [[nodiscard]] bool fetched(const ProgramStep& step, std::int64_t first, std::int64_t last) const;
  void run(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  [[nodiscard]] Operand own_operand(const ProgramLane& lane,
                                    const ProgramStep& step,
                                    const Piece& piece,
                                    std::int64_t tile) const;
  void move(const ProgramStep& step, const Piece& piece, const Slice& from, std::byte* to);
  void take(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void fetch(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void combine(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void fill(const ProgramLane& lane,
            const ProgramStep& step,
            const std::vector<Piece>& from,
            std::int64_t tile);
  void forward(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile);
  void publish(const ProgramStep& step, std::int64_t tile);
  void release(const ProgramStep& step, std::int64_t tile);
  [[nodiscard]] std::uint32_t fingerprint(const MessageRef& ref) const {
    return links_[static_cast<std::size_t>(ref.link)].fingerprint;
  }
  [[nodiscard]] std::byte* payload(const ProgramLane& lane,
                                   const ProgramStep& step,
                                   const MessageRef& ref,
                                   std::int64_t tile) const;
  void finish();
  bool find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const;

  const BoundProgram& bound_;
  const Program& program_;
  Call call_;
  std::int64_t element_bytes_;
  Trace* trace_;
  std::vector<StrandView> strands_;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t lanes_left_ = 0;
  Status status_;
};

}  // namespace sennit
