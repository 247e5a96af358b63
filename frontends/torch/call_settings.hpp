// What a program asks of its calls: of those of a group by `pg_options`, of those of a thread by
// `sennit.torch.call_options`.
#pragma once

#include "sennit/sennit.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sennit::pytorch {

// A field that is empty or zero is not asked for.
struct CallSettings {
  std::string algorithm;
  std::string path;
  std::string protocol;
  std::int64_t tile_bytes = 0;
  bool is_reproducible = false;
  std::string codec;
};

using SharedSettings = std::shared_ptr<const CallSettings>;
// By collective ("all_reduce"); those of "" are of all others.
using SettingsByCollective = std::map<std::string, SharedSettings, std::less<>>;

// Makes these the settings of the calling thread, null: none; those that it had.
SharedSettings exchange_settings(SharedSettings settings);

// What a call of this thread asks, null: nothing. What the thread has set goes before what the
// group has. `title` is that of an operation, such as "sennit:all_reduce".
SharedSettings settings_of(const char* title, const SettingsByCollective& of_group);

// `settings` must be there as long as the options.
void apply(const CallSettings& settings, sennit_call_options_t& options);

}  // namespace sennit::pytorch
