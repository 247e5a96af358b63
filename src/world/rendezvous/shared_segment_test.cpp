#include "world/rendezvous/shared_segment.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

namespace sennit {
namespace {

constexpr std::size_t kBytes = 10'000;

TEST(SharedSegment, IsSealedAndZeroed) {
  const Result<UniqueFd> file = create_segment_file(kBytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_NE(ftruncate(file->get(), 1), 0) << "it must not shrink";
  EXPECT_NE(ftruncate(file->get(), 2 * kBytes), 0) << "it must not grow";
  const auto segment = map_segment(random_token(), file->get(), kBytes);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  EXPECT_EQ((*segment)->size(), kBytes);
  for (std::size_t index = 0; index < kBytes; ++index) {
    ASSERT_EQ((*segment)->data()[index], std::byte{0});
  }
}

TEST(SharedSegment, WithoutMemfdAnUnlinkedFileDoesTheSame) {
  const Result<UniqueFd> file = create_unsealed_segment_file(kBytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto segment = map_segment(random_token(), file->get(), kBytes);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  (*segment)->data()[kBytes - 1] = std::byte{7};
  char last = 0;
  EXPECT_EQ(pread(file->get(), &last, 1, kBytes - 1), 1);
  EXPECT_EQ(last, 7);
}

TEST(SharedSegment, OneIdIsOneMappingForAsLongAsItIsUsed) {
  const Token id = random_token();
  const Result<UniqueFd> file = create_segment_file(kBytes);
  ASSERT_TRUE(file.ok());
  auto first = map_segment(id, file->get(), kBytes);
  auto second = map_segment(id, file->get(), kBytes);
  auto other = map_segment(random_token(), file->get(), kBytes);
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ((*first)->data(), (*second)->data());
  EXPECT_NE((*first)->data(), (*other)->data());
  *first = nullptr;
  *second = nullptr;
  EXPECT_TRUE(map_segment(id, file->get(), kBytes).ok())
      << "a former mapping must not be in the way";
}

TEST(SharedSegment, FilesThatCouldShrinkOrAreNotWhatWasAnnouncedAreRefused) {
  const Result<UniqueFd> sealed = create_segment_file(kBytes);
  ASSERT_TRUE(sealed.ok());
  EXPECT_EQ(map_segment(random_token(), sealed->get(), 2 * kBytes).status().code(),
            Code::kMismatch);

  // A file with a name, which others may open and cut.
  std::string path = testing::TempDir() + "sennit_segment_XXXXXX";
  const UniqueFd named(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_TRUE(named.valid());
  ASSERT_EQ(ftruncate(named.get(), kBytes), 0);
  EXPECT_EQ(map_segment(random_token(), named.get(), kBytes).status().code(), Code::kMismatch);
  unlink(path.c_str());

  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_EQ(map_segment(random_token(), read_end.get(), kBytes).status().code(), Code::kMismatch);
}

}  // namespace
}  // namespace sennit
