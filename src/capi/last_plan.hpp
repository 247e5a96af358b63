// What a call ran as, in the words of `sennit show`.
#pragma once

#include "schedule/plan.hpp"
#include "sennit/sennit.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sennit {

struct LastPlan {
  std::string_view algorithm;
  Protocol protocol = Protocol::kSlots;
  std::vector<std::string> paths{};  // each once
  std::int64_t tile_bytes = 0;
  std::optional<Codec> codec{};
  std::uint64_t plan_hash = 0;
  bool reproducible = false;
};

// Of the last call that was posted or enqueued; nothing where no call has been made, or, of GPU
// ranks, the last were messages or ranks are on several nodes. Valid as long as the communicator.
std::optional<LastPlan> last_plan_of(const sennit_comm& comm);

}  // namespace sennit
