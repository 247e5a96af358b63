#include "capi/gpu_prediction.hpp"

#include "select/codec_cost.hpp"
#include "select/device_reason.hpp"
#include "sim/simulate.hpp"

#include <array>
#include <set>
#include <string>
#include <utility>

namespace sennit {
namespace {

// At which it is said what a codec gains.
constexpr std::array kCodedBytes = {std::int64_t{64} << 10,
                                    std::int64_t{256} << 10,
                                    std::int64_t{1} << 20,
                                    std::int64_t{4} << 20,
                                    std::int64_t{16} << 20,
                                    std::int64_t{64} << 20,
                                    std::int64_t{256} << 20};

}  // namespace

Json paths_form(const Plan& plan) {
  std::set<std::string> paths;
  for (const Strand& strand : plan.strands) {
    for (const ChannelBinding& channel : strand.channels) {
      for (const Path& path : channel.paths) {
        paths.insert(text_of(path));
      }
    }
  }
  return paths;
}

std::optional<GpuPrediction> GpuPrediction::of(const MachinePlanRequest& wanted,
                                               const std::string& path,
                                               const Topology& machine) {
  auto facts = facts_of_described_gpus(
      machine, {.ranks = wanted.shape.ranks, .ranks_per_gpu = wanted.ranks_per_device});
  if (!facts.ok() || !facts->reach) {
    return std::nullopt;
  }
  return GpuPrediction(wanted, path, machine, std::move(facts).value());
}

Result<Json> GpuPrediction::form() const {
  SENNIT_ASSIGN_OR_RETURN(const DevicePlan made, plan(wanted_.bytes));
  const auto seconds = predict(wanted_.bytes);
  return Json{{"algorithm", made.choice.algorithm->name},
              {"protocol", name(made.choice.protocol)},
              {"paths", paths_form(made.plan)},
              {"host_share", made.choice.host_share},
              {"predicted_seconds", seconds.ok() ? Json(*seconds) : Json()},
              {"reason",
               path_.empty() ? reason_for(made.choice, wanted_.shape.ranks, wanted_.bytes, facts_)
                             : fmt::format("GPU ranks take {} over path {}, which is requested",
                                           made.choice.algorithm->name,
                                           path_)}};
}

Result<Json> GpuPrediction::form(Codec codec) const {
  SENNIT_ASSIGN_OR_RETURN(const CodedTimes times, predict(codec, wanted_.bytes));
  Json by_size = Json::array();
  for (const std::int64_t bytes : kCodedBytes) {
    SENNIT_ASSIGN_OR_RETURN(const CodedTimes here, predict(codec, bytes));
    by_size.push_back({{"bytes", bytes}, {"ratio", here.plain / here.coded}});
  }
  return Json{{"codec", name(codec)},
              {"coded_bytes", times.bytes},
              {"kernel_seconds", times.kernels},
              {"predicted_seconds", times.coded},
              {"ratio", times.plain / times.coded},
              {"by_size", std::move(by_size)}};
}

Result<DevicePlan> GpuPrediction::plan(std::int64_t bytes) const {
  CallRequest request;
  request.path = path_;
  return plan_for_devices({.collective = wanted_.algorithm->collective,
                           .shape = {.ranks = wanted_.shape.ranks, .root = wanted_.shape.root},
                           .bytes = bytes,
                           .request = request},
                          facts_);
}

Result<double> GpuPrediction::predict(std::int64_t bytes) const {
  SENNIT_ASSIGN_OR_RETURN(const DevicePlan made, plan(bytes));
  SENNIT_ASSIGN_OR_RETURN(
      const Simulation run,
      simulate(made.plan,
               machine_,
               {.count = bytes, .element_bytes = 1, .ranks_per_device = wanted_.ranks_per_device}));
  return run.seconds;
}

Result<GpuPrediction::CodedTimes> GpuPrediction::predict(Codec codec, std::int64_t bytes) const {
  SENNIT_ASSIGN_OR_RETURN(
      const CodedCall coded,
      coded_call(
          codec, wanted_.algorithm->collective, wanted_.shape.ranks, bytes, *facts_.profile));
  CodedTimes times{.bytes = coded.bytes, .kernels = coded.kernel_seconds};
  SENNIT_ASSIGN_OR_RETURN(times.coded, predict(coded.bytes));
  times.coded += coded.kernel_seconds;
  SENNIT_ASSIGN_OR_RETURN(times.plain, predict(bytes));
  return times;
}

}  // namespace sennit
