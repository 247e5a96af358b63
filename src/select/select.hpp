// Selection: which algorithm, protocol and tile a call of host ranks uses. A pure function of what
// all ranks share: what the user asked for, else what a tuning table found fastest, else a short
// table of rules.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/path_policy.hpp"
#include "schedule/plan.hpp"
#include "schedule/scaling.hpp"
#include "select/tuning_table.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

// What the user asked for by name; empty or zero: Sennit's choice.
struct CallRequest {
  std::string algorithm;
  // "shm", "cma", or both: "shm+cma", "cma+shm". Between nodes: "rail/0", "rail/0+rail/1".
  std::string path;
  std::string protocol;  // "slots", "direct"
  std::int64_t tile_bytes = 0;
  // Of schedules that reduce, only those that reduce all contributions in one step in the order of
  // ranks: what `reproducible` and some operators need. Whether a schedule does is the proof's
  // word.
  bool rank_order = false;
  std::string codec;      // "q8", of a type that it takes; empty or "none": none
  int device_blocks = 0;  // most thread blocks of its kernels; 0: those of the communicator

  [[nodiscard]] int within(int blocks) const {
    return device_blocks == 0 ? blocks : std::min(blocks, device_blocks);
  }
  [[nodiscard]] bool wants_codec() const { return !codec.empty() && codec != "none"; }
  [[nodiscard]] bool name_a_way() const { return !path.empty() || !protocol.empty(); }

  bool operator==(const CallRequest&) const = default;
};

// Up to there all_reduce with a lossy codec is one-shot: each rank encodes its vector once. Host
// and GPU ranks get the same bits.
inline constexpr std::int64_t kLossyOneShotBytes = 16 * 1024;

// How a call that asks for two paths uses them.
enum class Sharing : std::uint8_t {
  kBundle,   // each message takes the path that its sender picks
  kDynamic,  // the same, but rank 0 or the root picks for all that send to it
  kClaimed,  // two strands, one a path; rank 0 or the root gives out the grains
};

// "claimed", "dynamic", or a path policy (schedule/path_policy.hpp) for bundles.
struct PathChoice {
  Sharing sharing = Sharing::kBundle;
  PathPolicy policy;
};
Result<PathChoice> parse_path_choice(std::string_view text);

// What the ranks of a communicator share.
struct HostFacts {
  Sharing sharing = Sharing::kBundle;
  bool shm = true;
  bool cma = false;  // every rank can read every other's memory
  std::uint32_t slots = 4;
  std::size_t slot_bytes = 64 * 1024;
  std::shared_ptr<const TuningTable> table{};  // null: none
  int cards = 0;                               // of a node, that messages to any rank may take
  int cards_a_rank = 1;  // that messages to one rank may share, and none to others of its node
  std::string why_no_cards = "all ranks are on one node";

  bool operator==(const HostFacts&) const = default;
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  bool direct = false;       // one copy between the users' buffers, over cma
  bool slots_too = false;    // shared with slots over shm, as the facts say
  bool slots_first = true;   // in the order of the two paths
  std::vector<int> cards{};  // that were asked for, for messages between nodes
  bool spreads = false;      // such messages take all cards that are their reader's alone
  std::int64_t tile_bytes = 0;
  ScaledParts scaled;  // what the operator scales
  std::optional<Codec> codec{};

  bool operator==(const Choice&) const = default;
  auto operator<=>(const Choice&) const = default;
};

// Shape::groups: the nodes, where there are several.
// `bytes`: of the whole vector for cut collectives, of one rank's part otherwise; where lengths
// vary, of the longest part if every rank knows all of them, else 0. Requests that cannot be met
// are refused by name (kUnsupported, kInvalidArgument).
Result<Choice> choose(Collective collective,
                      const Shape& shape,
                      std::int64_t bytes,
                      const CallRequest& request,
                      const HostFacts& facts);

// The plan of a choice for host ranks. kUnsupported when `direct` was chosen and no channel of the
// schedule can be direct.
Result<std::shared_ptr<const Plan>> make_plan(const Choice& choice,
                                              const Shape& shape,
                                              const HostFacts& facts);

}  // namespace sennit
