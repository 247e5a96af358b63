// Selection for ranks with a GPU each: which algorithm and protocol a call uses on NVLink. A pure
// function of what all ranks share.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/plan.hpp"
#include "select/select.hpp"

#include <cstdint>
#include <memory>

namespace sennit {

struct DeviceChoice {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kLl;  // direct_get: on copy engines, else on the SMs

  bool operator==(const DeviceChoice&) const = default;
  auto operator<=>(const DeviceChoice&) const = default;
};

// Of one message. Ll sends two bytes for one, and spares the wait of a whole warp for a whole
// packet; and its small messages have a kernel of their own.
inline constexpr std::int64_t kLlUpToBytes = 16 * 1024;

// From here on copy engines are ahead of SMs: they move 370 GB/s where SMs come to 325, but cost
// some 30 us a call for waiting (docs/performance.md). Of all ranks together, each result once.
inline constexpr std::int64_t kCopyEnginesFromBytes = std::int64_t{128} << 20;

// A message is one copy, and SMs are further behind with two ranks than with many.
inline constexpr std::int64_t kCopiedMessagesFromBytes = std::int64_t{4} << 20;

// What the ranks of a communicator share.
struct DeviceFacts {
  bool copy_engines = false;  // the ranks can use them
  std::int64_t copies_from_bytes = kCopyEnginesFromBytes;

  bool operator==(const DeviceFacts&) const = default;
};

// `bytes`: of the whole vector for cut collectives, of one rank's part otherwise. Wishes that
// cannot be met are refused by name (kUnsupported, kInvalidArgument).
Result<DeviceChoice> choose_for_devices(Collective collective,
                                        const Shape& shape,
                                        std::int64_t bytes,
                                        const Wishes& wishes,
                                        const DeviceFacts& facts);

// Every channel on NVLink, every lane on the SMs or on streams.
Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape);

}  // namespace sennit
