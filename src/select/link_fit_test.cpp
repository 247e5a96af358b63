#include "select/link_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sennit::models {
namespace {

ChainSample sample(const LinkModel& link, int ranks, double bytes, double chunk) {
  return {.ranks = ranks,
          .bytes = bytes,
          .chunk = chunk,
          .seconds = broadcast_pipelined_chain(link, ranks, bytes, chunk)};
}

TEST(LinkFit, FindsTheLinkOfExactTimes) {
  const LinkModel link{.start_s = 3e-6, .bytes_per_s = 5e9};
  std::vector<ChainSample> samples;
  for (const int ranks : {2, 4, 8}) {
    for (const double chunk : {4e3, 64e3, 1e6}) {
      samples.push_back(sample(link, ranks, 4e6, chunk));
    }
  }
  const LinkModel fit = fit_chains(samples);
  EXPECT_NEAR(fit.start_s / link.start_s, 1, 1e-9);
  EXPECT_NEAR(fit.bytes_per_s / link.bytes_per_s, 1, 1e-9);
}

// Four ranks whose copies share what carries one and a half of them.
TEST(LinkFit, FindsHowManyCopiesMoveAtOnce) {
  const LinkModel link{.start_s = 3e-6, .bytes_per_s = 5e9};
  std::vector<ChainSample> samples;
  for (const double chunk : {16e3, 64e3, 250e3, 1e6, 4e6}) {
    samples.push_back({.ranks = 4,
                       .bytes = 4e6,
                       .chunk = chunk,
                       .seconds = broadcast_shared_chain(link, 4, 4e6, chunk, 1.5)});
  }
  const SharedLink fit = fit_shared_chains(samples, 2);
  EXPECT_EQ(fit.copies, 1.5);
  EXPECT_NEAR(fit.link.start_s / link.start_s, 1, 1e-9);
  EXPECT_NEAR(fit.link.bytes_per_s / link.bytes_per_s, 1, 1e-9);
  // (5) by itself cannot have all of them.
  const LinkModel alone = fit_chains(samples);
  double worst = 0;
  for (const ChainSample& chain : samples) {
    const double predicted = broadcast_pipelined_chain(alone, 4, chain.bytes, chain.chunk);
    worst = std::max(worst, std::abs(predicted / chain.seconds - 1));
  }
  EXPECT_GT(worst, 0.15);
}

// Noise may make larger chunks look slower than the start-ups they save.
TEST(LinkFit, NeverFindsANegativeStartUp) {
  const std::vector<ChainSample> samples{
      {.ranks = 2, .bytes = 1e6, .chunk = 1e4, .seconds = 1e-3},
      {.ranks = 2, .bytes = 1e6, .chunk = 1e6, .seconds = 1.2e-3}};
  const LinkModel fit = fit_chains(samples);
  EXPECT_EQ(fit.start_s, 0);
  EXPECT_GT(fit.bytes_per_s, 1e6 / 1.2e-3);
  EXPECT_LT(fit.bytes_per_s, 1e6 / 1e-3);
}

TEST(LinkFit, OneChunkSizeCountsAsBandwidth) {
  const std::vector<ChainSample> samples{{.ranks = 2, .bytes = 1e6, .chunk = 1e5, .seconds = 1e-3},
                                         {.ranks = 2, .bytes = 2e6, .chunk = 1e5, .seconds = 2e-3}};
  const LinkModel fit = fit_chains(samples);
  EXPECT_EQ(fit.start_s, 0);
  EXPECT_NEAR(fit.bytes_per_s, 1e9, 1);
}

}  // namespace
}  // namespace sennit::models
