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

// `copy_engines`: the ranks can use them; the same on all ranks.
// `bytes`: of the whole vector for cut collectives, of one rank's part otherwise. Wishes that
// cannot be met are refused by name (kUnsupported, kInvalidArgument).
Result<DeviceChoice> choose_for_devices(Collective collective,
                                        const Shape& shape,
                                        std::int64_t bytes,
                                        const Wishes& wishes,
                                        bool copy_engines);

// Every channel on NVLink, every lane on the SMs or on streams.
Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape);

}  // namespace sennit
