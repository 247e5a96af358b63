#include "exec/cpu/target.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace sennit {
namespace {

// In several parts, the last of them shorter, of three operands.
TEST(Target, ASumIntoASlotIsTheSameByStreamingStores) {
  for (const std::int64_t elements : {1, 1024, 4096, 4097, 10001}) {
    std::vector<std::vector<float>> contributions(3, std::vector<float>(10001));
    std::array<Operand, 3> operands;
    for (std::size_t o = 0; o < operands.size(); ++o) {
      std::iota(contributions[o].begin(), contributions[o].end(), 0.25F * static_cast<float>(o));
      operands[o].data = contributions[o].data();
    }
    std::vector<float> expected(10001, -1);
    std::vector<float> slot(expected);
    const Reduction sum{.operands = operands, .elements = elements, .is_finished = true};
    const auto reduce_into = [&](const Target& to) {
      to.reduce(Dtype::kFloat32, ReduceOp::kAvg, {.ranks = 3}, sum);
    };
    reduce_into({reinterpret_cast<std::byte*>(expected.data())});

    shm::SlotStores stores(std::numeric_limits<double>::infinity());
    for (int put = 0; put < 100; ++put) {
      reduce_into({reinterpret_cast<std::byte*>(slot.data()), &stores});
      ASSERT_EQ(slot, expected) << elements << " elements, put " << put;
    }
  }
}

}  // namespace
}  // namespace sennit
