#include "schedule/picture.hpp"

#include "schedule/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Whether tags nest and close, and text between them holds no bare '&': enough of XML to catch what
// a generator gets wrong.
::testing::AssertionResult is_well_formed(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string_view::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string_view::npos) {
      return ::testing::AssertionFailure() << "a tag never ends";
    }
    const std::string_view tag = xml.substr(at + 1, end - at - 1);
    if (count(tag, "<") > 0 || count(tag, "\"") % 2 != 0) {
      return ::testing::AssertionFailure() << "bad tag " << tag;
    }
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) {
        return ::testing::AssertionFailure() << "unexpected " << tag;
      }
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
  }
  const std::size_t entities =
      count(xml, "&amp;") + count(xml, "&lt;") + count(xml, "&gt;") + count(xml, "&quot;");
  if (count(xml, "&") != entities) {
    return ::testing::AssertionFailure() << "a bare &";
  }
  return open.empty() ? ::testing::AssertionSuccess()
                      : ::testing::AssertionFailure() << open.back() << " is never closed";
}

TEST(Picture, IsWellFormed) {
  const std::string svg = space_time_svg(schedule_with_everything());
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
}

TEST(Picture, HasABoxForEachStepAndAnArrowForEachMessage) {
  const std::string svg = space_time_svg(schedule_with_everything());
  EXPECT_EQ(count(svg, "<g><title>"), 9U);
  EXPECT_EQ(count(svg, ">c0</text>"), 2U) << "the hub's message arrives at two ranks";
  EXPECT_EQ(count(svg, ">c1</text>"), 2U);
  EXPECT_EQ(count(svg, ">c2</text>"), 1U);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 3U) << "two `after` and the legend's";
}

TEST(Picture, TellsTheWholeStepInItsTooltip) {
  const std::string svg = space_time_svg(schedule_with_everything());
  EXPECT_NE(svg.find("<title>rank 1 lane 1 step 0: copy stage[4] -&gt; pre[3]  after 0.1, 0.0"),
            std::string::npos);
}

TEST(Picture, DrawsRanksWithoutSteps) {
  Schedule empty;
  empty.algorithm = "nothing";
  empty.ranks.resize(1);
  ASSERT_TRUE(check_structure(empty).ok());
  EXPECT_TRUE(is_well_formed(space_time_svg(empty)));
}

}  // namespace
}  // namespace sennit
