// Selection for the kernels that send packets over NVLink: which algorithm and protocol a call
// takes, as was measured, and by a model where nothing was. A pure function of what all ranks
// share.
#pragma once

#include "schedule/plan.hpp"
#include "select/gpu_algorithms.hpp"
#include "select/gpu_profile.hpp"
#include "types/types.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sennit {

// Of a message: what 32 thread blocks of 16 packets move at once. In two rounds Ll takes longer
// than Ll128.
inline constexpr std::int64_t kLlRoundBytes = 256 * 1024;

// Of a send among so many ranks. Of more than were measured, as if each sent one to all others:
// they share the thread blocks.
std::int64_t ll_send_bytes(const GpuProfile& profile, int ranks);

struct PacketWay {
  std::string_view algorithm;
  Protocol protocol = Protocol::kLl;

  bool operator==(const PacketWay&) const = default;
};

// What all ranks together hold in the end, of each result once. `bytes`, here and below: of the
// whole vector for cut collectives, of one rank's part otherwise.
std::int64_t total_bytes(Collective collective, int ranks, std::int64_t bytes);

// `wanted`: the call names its algorithm; empty: it does not. `round_bytes`: as kLlRoundBytes,
// where thread blocks are fewer.
PacketWay packets_for(const GpuProfile& profile,
                      Collective collective,
                      int ranks,
                      std::int64_t bytes,
                      std::string_view wanted,
                      std::int64_t round_bytes = kLlRoundBytes);

// From how many bytes of all ranks together on the way was the fastest that was timed; empty: none
// was timed, and the model says.
std::optional<std::int64_t> timed_from_bytes(const GpuProfile& profile,
                                             Collective collective,
                                             int ranks,
                                             std::int64_t bytes,
                                             std::string_view wanted);

}  // namespace sennit
