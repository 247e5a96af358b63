#include "base/copy_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sennit {
namespace {

TEST(CopyBytes, CopiesEveryByteAndNoOther) {
  for (const std::size_t bytes : {std::size_t{0},
                                  std::size_t{1},
                                  kLargeCopyBytes - 1,
                                  kLargeCopyBytes,
                                  kLargeCopyBytes + 1,
                                  3 * kLargeCopyBytes + 4097}) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes at " << offset);
      std::vector<unsigned char> from(bytes + offset);
      for (std::size_t i = 0; i < from.size(); ++i) {
        from[i] = static_cast<unsigned char>(i * 131 + i / 256 + 1);
      }
      std::vector<unsigned char> to(bytes + 200, 0xee);
      copy_bytes(to.data() + 100, from.data() + offset, bytes);
      std::vector<unsigned char> expected(bytes + 200, 0xee);
      std::copy(
          from.begin() + static_cast<std::ptrdiff_t>(offset), from.end(), expected.begin() + 100);
      EXPECT_EQ(to, expected);
    }
  }
}

}  // namespace
}  // namespace sennit
