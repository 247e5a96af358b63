#include "select/link_fit.hpp"

namespace sennit::models {

// (5) is linear in t_s and 1/B: messages * t_s + messages * chunk * 1/B. Divided by the measured
// time each sample should give 1.
LinkModel fit_chains(std::span<const ChainSample> samples) {
  double uu = 0;
  double uv = 0;
  double vv = 0;
  double u_sum = 0;
  double v_sum = 0;
  for (const ChainSample& sample : samples) {
    const double messages = sample.bytes / sample.chunk + sample.ranks - 2;
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
  return {.start_s = start, .bytes_per_s = per_byte > 0 ? 1 / per_byte : kNoLimit};
}

}  // namespace sennit::models
