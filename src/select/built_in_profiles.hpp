// The files in select/profiles, compiled in: no file is looked for at run time.
#pragma once

#include <span>
#include <string_view>

namespace sennit {

struct BuiltInProfile {
  std::string_view name;
  std::string_view text;
};

std::span<const BuiltInProfile> built_in_profiles();

}  // namespace sennit
