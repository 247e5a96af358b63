#include "comm/allowed_paths.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

std::string allowed(std::string_view text, bool have_devices) {
  const auto paths = parse_paths(text, have_devices);
  if (!paths.ok()) {
    return paths.status().message();
  }
  return fmt::format("{}{}{}{}{}",
                     paths->shm ? "s" : "",
                     paths->cma ? "c" : "",
                     paths->nvlink ? "n" : "",
                     paths->device ? "d" : "",
                     paths->host ? "h" : "");
}

TEST(AllowedPaths, OfHostRanksAreThoseNamed) {
  EXPECT_EQ(allowed("shm,cma", false), "sc");
  EXPECT_EQ(allowed("cma", false), "c");
  EXPECT_NE(allowed("shm,host", false).find("path host does not join host ranks"),
            std::string::npos);
}

TEST(AllowedPaths, OfRanksWithGpusAreAllOfAKindThatIsNotNamed) {
  EXPECT_EQ(allowed("shm,cma", true), "scndh");
  EXPECT_EQ(allowed("host", true), "sch");
  EXPECT_EQ(allowed("nvlink", true), "scn");
  EXPECT_EQ(allowed("device,host", true), "scdh");
  EXPECT_EQ(allowed("shm,nvlink,host", true), "snh");
  EXPECT_NE(allowed("rail", true).find("path rail does not join ranks with GPUs"),
            std::string::npos);
  EXPECT_NE(allowed("smoke", true).find("smoke"), std::string::npos);
}

}  // namespace
}  // namespace sennit
