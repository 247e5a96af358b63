#include "machine/path.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

TEST(PathText, IsReadAsItIsWritten) {
  for (const char* const text : {"shm", "nvlink", "rail", "rail/0", "rail/7+rail/2", "shm+cma"}) {
    const auto paths = parse_path_list(text);
    ASSERT_TRUE(paths.ok()) << paths.status().message();
    EXPECT_EQ(text_of(*paths), text);
  }
  EXPECT_EQ(*parse_path("rail/3"), Path(PathKind::kRail, 3));
  EXPECT_EQ(*parse_path("rail"), Path(PathKind::kRail));
}

TEST(PathText, OfNoPathIsRefused) {
  for (const char* const text :
       {"", "wifi", "rail/", "rail/-1", "rail/x", "rail/1x", "rail/256", "shm/0", "rail/0+", "+"}) {
    EXPECT_EQ(parse_path_list(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace sennit
