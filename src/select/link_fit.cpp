#include "select/link_fit.hpp"

#include <limits>

namespace sennit::models {
namespace {

struct Fit {
  LinkModel link{};
  double error = 0;  // sum of squared relative errors
};

// Both forms are linear in t_s and 1/B: messages * t_s + messages * chunk * 1/B. Divided by the
// measured time each sample should give 1.
Fit fit(std::span<const ChainSample> samples, double copies) {
  double uu = 0;
  double uv = 0;
  double vv = 0;
  double u_sum = 0;
  double v_sum = 0;
  for (const ChainSample& sample : samples) {
    const double messages = shared_chain_messages(sample.ranks, sample.bytes, sample.chunk, copies);
    const double u = messages / sample.seconds;
    const double v = messages * sample.chunk / sample.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u_sum += u;
    v_sum += v;
  }
  const double determinant = uu * vv - uv * uv;
  // Samples of one chunk lie on a line; then all the time counts as bandwidth.
  constexpr double kSingular = 1e-12;
  double start = 0;
  double per_byte = vv > 0 ? v_sum / vv : 0;
  if (determinant > kSingular * uu * vv) {
    start = (u_sum * vv - v_sum * uv) / determinant;
    per_byte = (v_sum * uu - u_sum * uv) / determinant;
    if (start < 0) {
      start = 0;
      per_byte = v_sum / vv;
    } else if (per_byte <= 0) {
      per_byte = 0;
      start = u_sum / uu;
    }
  }
  constexpr double kNoLimit = 1e18;
  const double error = static_cast<double>(samples.size()) -
                       2 * (start * u_sum + per_byte * v_sum) + start * start * uu +
                       2 * start * per_byte * uv + per_byte * per_byte * vv;
  return {.link = {.start_s = start, .bytes_per_s = per_byte > 0 ? 1 / per_byte : kNoLimit},
          .error = error};
}

}  // namespace

LinkModel fit_chains(std::span<const ChainSample> samples) {
  // With as many copies as there may be, (5) alone binds.
  return fit(samples, std::numeric_limits<double>::infinity()).link;
}

SharedLink fit_shared_chains(std::span<const ChainSample> samples, int cores) {
  constexpr double kQuarter = 0.25;
  SharedLink best{.link = fit(samples, 1).link, .copies = 1};
  double least = fit(samples, 1).error;
  for (int quarters = 5; quarters <= 4 * cores; ++quarters) {
    const double copies = quarters * kQuarter;
    const Fit next = fit(samples, copies);
    if (next.error < least) {
      least = next.error;
      best = {.link = next.link, .copies = copies};
    }
  }
  return best;
}

}  // namespace sennit::models
