// What selection knows of algorithms by name, on GPU ranks: one table of the algorithms, one of
// what each collective takes. A new algorithm that GPU ranks shall choose gets its row here, and
// rows of what was measured in select/profiles.
#pragma once

#include "types/types.hpp"

#include <cstdint>
#include <string_view>

namespace sennit {

// The algorithm in which each rank sends each other one what that one gets of it.
inline constexpr std::string_view kOneHop = "direct";

struct GpuAlgorithm {
  enum class Message : std::uint8_t {
    kWhole,    // of the vector, or of a rank's part
    kByRanks,  // a rank's part of the vector
    kByPeers,  // the vector cut among all ranks but the root
  };
  std::string_view name;
  Message message;
  bool has_kernel;  // direct kernels run it (exec/sm/direct_program.hpp); others are interpreted
  bool passes_on;   // what arrives, or sums of it, which copy engines do not
  // By copies of whole vectors to and from rank 0, which reduces them; a share through host memory
  // counts them.
  bool shares_copies = false;
};
// Null: selection does not know it by name.
const GpuAlgorithm* find_gpu_algorithm(std::string_view name);
bool has_direct_kernel(std::string_view algorithm);

struct GpuCollective {
  Collective collective;
  std::string_view one_hop;
  std::string_view two_hops;         // empty: there are none
  std::string_view on_host;          // all of it, or a part, through host memory; empty: none
  std::string_view by_copy_engines;  // empty: as by the model
  std::string_view by_leader;        // where a GPU runs the ranks' kernels in turn
  std::string_view through_groups;   // where ranks reach each other in groups alone; empty: none
};
const GpuCollective& gpu_collective(Collective collective);

// The bytes of one message of an algorithm. `bytes`, here and below: of the whole vector for cut
// collectives, of one rank's part otherwise.
std::int64_t message_bytes(std::string_view algorithm, int ranks, std::int64_t bytes);

// One hop or two, where a second one costs as much as sending `hop_bytes`.
std::string_view algorithm_by_model(Collective collective,
                                    int ranks,
                                    std::int64_t bytes,
                                    std::int64_t hop_bytes);

}  // namespace sennit
