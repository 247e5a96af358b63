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

inline constexpr DeviceFacts kBothPaths{
    .copy_engines = true, .host_slots = 4, .copies_from_bytes = 128 * kMega};

inline DeviceChoice chosen(Collective collective,
                           int ranks,
                           std::int64_t bytes,
                           const CallRequest& request,
                           const DeviceFacts& facts = kBothPaths) {
  const auto choice = choose_for_devices(collective, {.ranks = ranks}, bytes, request, facts);
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.ok() ? *choice : DeviceChoice{};
}

inline std::string refusal(Collective collective,
                           const CallRequest& request,
                           const DeviceFacts& facts = kBothPaths) {
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
  DeviceFacts facts = kBothPaths;
  facts.nvlink = false;
  facts.why_no_nvlink = "it is a test";
  return facts;
}

}  // namespace sennit::tests
