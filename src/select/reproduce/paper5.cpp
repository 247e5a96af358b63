// Faraji et al. 2015: all-reduce of 16 ranks that share a K20M, with and without the Multi-Process
// Service.
#include "select/models.hpp"
#include "select/reproduce/claims.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr double kGiga = 1e9;
constexpr int kRanks = 16;

models::SharedGpuModel model_of(const Topology& machine, bool mps) {
  models::SharedGpuModel model{.ranks = kRanks};
  const Vertex& gpu = machine.vertices.front();
  model.memory_bytes_per_s = gpu.memory_gbps * kGiga;
  model.switch_s = mps ? 0 : gpu.switch_us * 1e-6;
  // A copy reads and writes the memory of the device.
  model.device = {.start_s = machine.cost(PathKind::kDevice).start_us * 1e-6,
                  .bytes_per_s = gpu.memory_gbps / 2 * kGiga};
  model.host = {.start_s = machine.cost(PathKind::kHost).start_us * 1e-6,
                .bytes_per_s = machine.wires.front().gbps * kGiga};
  return model;
}

using Time = double (*)(const models::SharedGpuModel&, double bytes);

struct Gains {
  double mean = 0;
  double most = 0;
};

// Over the sizes of the figures: time without the service over time with it.
Gains gains_of_mps(const Topology& machine, Time time) {
  Gains gains;
  int sizes = 0;
  for (const double bytes : doublings(4 * 1024, 16 * kMiB)) {
    const double gain =
        time(model_of(machine, false), bytes) / time(model_of(machine, true), bytes);
    gains.mean += gain;
    gains.most = std::max(gains.most, gain);
    ++sizes;
  }
  gains.mean /= sizes;
  return gains;
}

Result<double> dynamic_against_static(const Topology& machine) {
  const models::SharedGpuModel model = model_of(machine, true);
  double sum = 0;
  int sizes = 0;
  for (const double bytes : doublings(4 * 1024, 16 * kMiB)) {
    sum += models::shared_gpu_static(model, bytes) / models::shared_gpu_dynamic(model, bytes);
    ++sizes;
  }
  return sum / sizes;
}

Claim claim(std::string quantity,
            double printed,
            std::function<Result<double>(const Topology&)> ours) {
  return {.figure = "figure 2",
          .quantity = std::move(quantity),
          .unit = "x",
          .paper_value = printed,
          .how = How::kModel,
          .machine = "k20m",
          .ours = std::move(ours),
          .why =
              "without the service every copy pays a change of context, computed from what the GPU "
              "has to write and read again (41 us), next to a start-up of 10 us by estimate; the "
              "paper prints neither"};
}

}  // namespace

std::vector<Claim> claims_of_paper5() {
  std::vector<Claim> claims;
  claims.push_back(
      claim("MPS on against off, Static, mean", 3.23, [](const Topology& m) -> Result<double> {
        return gains_of_mps(m, models::shared_gpu_static).mean;
      }));
  claims.push_back(
      claim("MPS on against off, Static, most", 4.34, [](const Topology& m) -> Result<double> {
        return gains_of_mps(m, models::shared_gpu_static).most;
      }));
  claims.push_back(
      claim("MPS on against off, Dynamic, mean", 2.77, [](const Topology& m) -> Result<double> {
        return gains_of_mps(m, models::shared_gpu_dynamic).mean;
      }));
  claims.push_back(
      claim("MPS on against off, Dynamic, most", 3.24, [](const Topology& m) -> Result<double> {
        return gains_of_mps(m, models::shared_gpu_dynamic).most;
      }));
  claims.push_back(
      claim("Dynamic against Static with MPS, mean", 2.79 / 2.66, dynamic_against_static));
  claims.back().unit = "of Static";
  claims.back().why =
      "the quotient of the two printed means over MVAPICH2-GDR; Dynamic learns in each call, by "
      "rounds of a start-up each, what Static has from a table, and ours has the best of all "
      "tables, where the paper's holds rounded averages";
  return claims;
}

}  // namespace sennit
