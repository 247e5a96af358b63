// Why ranks with a GPU each choose as they do, in a sentence.
#pragma once

#include "select/device_choice.hpp"

#include <cstdint>
#include <string>

namespace sennit {

// Of what choose_for_devices() gives for a call that requests nothing, where NVLink joins all.
std::string reason_for(const DeviceChoice& choice,
                       int ranks,
                       std::int64_t bytes,
                       const DeviceFacts& facts);

}  // namespace sennit
