// Values of many kinds for tests of codecs, by seed: smooth, rough, sparse, equal, tiny, huge.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace sennit::codec {

template <typename Real>
class DrawnValues {
 public:
  static constexpr int kKinds = 9;

  explicit DrawnValues(unsigned seed) : random_(seed) {}

  // As many values of one kind; at random where the kind is negative.
  std::vector<Real> next(std::size_t count, int kind = -1) {
    kind = kind < 0 ? static_cast<int>(random_() % kKinds) : kind;
    const double scale = std::ldexp(1.0, static_cast<int>(random_() % 40) - 20);
    const auto phase = static_cast<double>(random_() % 1000);
    std::vector<Real> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<Real>(value(kind, scale, phase + static_cast<double>(i)));
    }
    return values;
  }

  std::mt19937_64& random() { return random_; }

 private:
  double value(int kind, double scale, double at) {
    const auto coin = [this] { return random_() % 2 == 0; };
    switch (kind) {
      case 0:
        return scale * normal_(random_);
      case 1:
        return scale * std::sin(0.01 * at);
      case 2:
        return coin() ? 0.0 : -0.0;
      case 3:
        return random_() % 8 == 0 ? scale : std::nextafter(static_cast<Real>(scale), Real{0});
      case 4:
        return coin() ? 0.0 : normal_(random_);
      case 5:
        return static_cast<double>(random_() % 9) - 4;
      case 6:
        return std::ldexp(normal_(random_), static_cast<int>(random_() % 60) - 50);
      case 7:
        return (coin() ? 1 : -1) * (1 - 1e-3 * static_cast<double>(random_() % 999)) *
               static_cast<double>(std::numeric_limits<Real>::max());
      default:
        return 1000 + 3 * at + (coin() ? 1 : 0);
    }
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

}  // namespace sennit::codec
