// The paths that a call of GPU ranks may use, and how it shares its message between the two: by its
// request, by the settings of the communicator, or by a table of what pays.
#pragma once

#include "select/device_choice.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sennit {

// The path between ranks that reach each other's memory.
PathKind direct_path(const DeviceFacts& facts, int a, int b);
// And by which calls of all of them request it: device where they share one GPU.
PathKind direct_path(const DeviceFacts& facts);
// Gives every channel of path nvlink the path of its ends.
void bind_direct_paths(Strand& strand, const DeviceFacts& facts);
// For algorithms that look at groups: of ranks that reach each other, or, where all do, of those of
// one GPU. Empty: there is but one.
std::vector<std::vector<int>> groups_of(const DeviceFacts& facts);
// The facts of a message from one rank to another, which are ranks 0 and 1 of its plan.
DeviceFacts facts_of_message(const DeviceFacts& facts, int sender, int receiver);

// Whether the request is for a share that follows the load (select/dynamic_share.hpp).
bool is_dynamic_request(std::string_view path);
struct DevicePaths {
  bool direct = true;
  bool host = false;
  int share = -1;             // in percent, through host memory; negative: by the profile
  bool is_dynamic = false;    // of messages, which then begin with that
  bool is_requested = false;  // of this call
  // By the profile, also without a request.
  bool shares_calls = false;
  bool shares_messages = false;
};

// What `request`, `facts` and `means` allow; requests that cannot be met are refused by name.
Result<DevicePaths> paths_for(std::string_view request,
                              const DeviceFacts& facts,
                              const Means& means);

// In percent, by the profile.
int usual_host_share(const GpuProfile& profile,
                     Collective collective,
                     int ranks,
                     std::int64_t bytes);

}  // namespace sennit
