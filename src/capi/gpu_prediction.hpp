// GpuPrediction: what GPU ranks choose on a machine that need not be here, how long that takes, and
// what a codec gains.
#pragma once

#include "base/json.hpp"
#include "base/status.hpp"
#include "codec/codec.hpp"
#include "comm/described_gpus.hpp"
#include "machine/topology.hpp"
#include "select/machine_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace sennit {

// The names of the paths of all channels.
Json paths_form(const Plan& plan);

class GpuPrediction {
 public:
  // None for machines that the rules of GPU ranks do not speak of. The arguments outlive it.
  static std::optional<GpuPrediction> of(const MachinePlanRequest& wanted,
                                         const std::string& path,
                                         const Topology& machine);

  [[nodiscard]] Result<Json> form() const;
  // What the codec gains, here and at other sizes.
  [[nodiscard]] Result<Json> form(Codec codec) const;

 private:
  struct CodedTimes {
    std::int64_t bytes = 0;
    double kernels = 0;
    double coded = 0;
    double plain = 0;
  };

  GpuPrediction(const MachinePlanRequest& wanted,
                const std::string& path,
                const Topology& machine,
                DeviceFacts facts)
      : wanted_(wanted), path_(path), machine_(machine), facts_(std::move(facts)) {}

  [[nodiscard]] Result<DevicePlan> plan(std::int64_t bytes) const;
  [[nodiscard]] Result<double> predict(std::int64_t bytes) const;
  [[nodiscard]] Result<CodedTimes> predict(Codec codec, std::int64_t bytes) const;

  const MachinePlanRequest& wanted_;
  const std::string& path_;
  const Topology& machine_;
  DeviceFacts facts_;
};

}  // namespace sennit
