// The paths that a call of GPU ranks may use, and how it shares its message between the two: by its
// request, by the settings of the communicator, or by a table of what pays.
#pragma once

#include "select/device_choice.hpp"

#include <cstdint>
#include <string_view>

namespace sennit {

// The request for a share that follows the load (select/dynamic_share.hpp).
inline constexpr std::string_view kDynamicPaths = "nvlink+host:dynamic";
struct DevicePaths {
  bool nvlink = true;
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
