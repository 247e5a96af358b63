// What GPU ranks choose, for tests.
#pragma once

#include "base/integers.hpp"
#include "select/device_choice.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sennit::tests {

inline const GpuProfile& usual_profile() { return profile_for({}); }

// A pair of paths, copy engines from 128 MB on.
inline const DeviceFacts& both_paths() {
  static const GpuProfile kProfile = [] {
    GpuProfile profile = usual_profile();
    profile.copies_from_bytes = 128 * kMega;
    return profile;
  }();
  static const DeviceFacts kFacts{.copy_engines = true, .host_slots = 4, .profile = &kProfile};
  return kFacts;
}

inline DeviceChoice chosen(Collective collective,
                           int ranks,
                           std::int64_t bytes,
                           const CallRequest& request,
                           const DeviceFacts& facts = both_paths()) {
  const auto choice = choose_for_devices(collective, {.ranks = ranks}, bytes, request, facts);
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.ok() ? *choice : DeviceChoice{};
}

inline std::string refusal(Collective collective,
                           const CallRequest& request,
                           const DeviceFacts& facts = both_paths()) {
  return choose_for_devices(collective, {.ranks = 4}, 256 * kMega, request, facts)
      .status()
      .message();
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline CallRequest requesting(std::string path, std::string protocol, std::string algorithm = {}) {
  CallRequest result;
  result.path = std::move(path);
  result.protocol = std::move(protocol);
  result.algorithm = std::move(algorithm);
  return result;
}
inline CallRequest over(std::string path) { return requesting(std::move(path), {}); }

inline DeviceFacts without_nvlink() {
  DeviceFacts facts = both_paths();
  facts.reach = false;
  facts.why_no_reach = "it is a test";
  return facts;
}

}  // namespace sennit::tests
