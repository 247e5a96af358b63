// How the sender of a simulated bundle picks the path of a message: as that of a running one does,
// by the same policy and out of the same counts; or as one that knew all shares would.
#pragma once

#include "schedule/path_policy.hpp"
#include "schedule/plan.hpp"
#include "sim/channel_counts.hpp"
#include "sim/cost_form.hpp"
#include "sim/flow_network.hpp"

#include <cstdint>
#include <span>

namespace sennit::sim {

struct Outgoing {
  int channel = 0;
  std::int64_t count = 0;  // of messages that go together
};

// The path that would be through with these bytes first, of those with a slot, if all that moves
// now went on. `parts`: of a step that sends on several channels; `bundle` is the one of them.
// `preferred`: of paths that are as good. Lanes that start at the same time do not see each other.
struct Ways {
  std::span<const Part> parts;
  int bundle = 0;
  int preferred = 0;
};
int soonest_path(const FlowNetwork& network,
                 const ChannelCounts& channels,
                 const Outgoing& messages,
                 const Ways& ways,
                 double bytes);

// `bundles`: all that the sender writes.
int pick_path(const PathPolicy& policy,
              const ChannelCounts& channels,
              std::span<const int> bundles,
              const Outgoing& messages);

// kUnsupported where readers decide, by what they have seen come: a claimed plan, or a bundle whose
// reader picks the path.
Status check_choices(const Plan& plan);

}  // namespace sennit::sim
