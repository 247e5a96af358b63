// The papers' equations: against numbers worked out by hand, and at their optima.
#include "select/models.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit::models {
namespace {

constexpr LinkModel kLink{.start_s = 10e-6, .bytes_per_s = 10e9};
constexpr double kBytes = 64e6;  // 6.4 ms on the link

TEST(Models, BroadcastEquationsGiveTheNumbersWorkedOutByHand) {
  EXPECT_DOUBLE_EQ(broadcast_direct_as_printed(kLink, 8, kBytes), 8 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_direct(kLink, 8, kBytes), 7 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_chain(kLink, 8, kBytes), 7 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_k_nomial_as_printed(kLink, 8, 2, kBytes), 3 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_k_nomial_as_printed(kLink, 9, 2, kBytes), 4 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_k_nomial_as_printed(kLink, 125, 5, kBytes), 3 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_k_nomial(kLink, 64, 4, kBytes), 3 * 3 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_scatter_all_gather(kLink, 8, kBytes), 10 * 10e-6 + 2 * 0.875 * 6.4e-3);
  EXPECT_DOUBLE_EQ(broadcast_pipelined_chain(kLink, 8, kBytes, 1e6), (64 + 6) * 110e-6);
  EXPECT_DOUBLE_EQ(broadcast_staged_k_nomial(kLink, 8, 2, kBytes, 20e9), 3.2e-3 + 3 * 6.41e-3);
}

TEST(Models, AChainOnSharedCoresIsBoundByTheCopiesThatMoveAtOnce) {
  // 64 chunks over 7 hops, two of which move at once: 224 times 110 us.
  EXPECT_DOUBLE_EQ(broadcast_shared_chain(kLink, 8, kBytes, 1e6, 2), 224 * 110e-6);
  // One chunk has to go from rank to rank, whatever moves in parallel.
  EXPECT_DOUBLE_EQ(broadcast_shared_chain(kLink, 8, kBytes, kBytes, 2), 7 * 6.41e-3);
  EXPECT_DOUBLE_EQ(broadcast_shared_chain(kLink, 8, kBytes, 1e6, 7),
                   broadcast_pipelined_chain(kLink, 8, kBytes, 1e6));
  for (const double copies : {1.0, 1.5, 2.0, 7.0}) {
    const double best = broadcast_shared_best_chunk(kLink, 8, kBytes, copies);
    const double least = broadcast_shared_chain(kLink, 8, kBytes, best, copies);
    EXPECT_LE(least, broadcast_shared_chain(kLink, 8, kBytes, best / 1.1, copies)) << copies;
    if (best < kBytes) {
      EXPECT_LE(least, broadcast_shared_chain(kLink, 8, kBytes, best * 1.1, copies)) << copies;
    }
  }
}

TEST(Models, ThePipelinedChainIsLeastAtItsOptimum) {
  for (const int ranks : {3, 8, 128}) {
    const double best = broadcast_best_chunk(kLink, ranks, kBytes);
    const double least = broadcast_pipelined_chain(kLink, ranks, kBytes, best);
    EXPECT_LT(least, broadcast_pipelined_chain(kLink, ranks, kBytes, best * 1.1));
    EXPECT_LT(least, broadcast_pipelined_chain(kLink, ranks, kBytes, best / 1.1));
    const double root =
        std::sqrt(kBytes / kLink.bytes_per_s) + std::sqrt((ranks - 2) * kLink.start_s);
    EXPECT_NEAR(least / (root * root), 1, 1e-12);
  }
  EXPECT_EQ(broadcast_best_chunk(kLink, 2, kBytes), kBytes);
}

TEST(Models, BothPathsEndTogetherAtTheBestShare) {
  const MultiPathModel free{.direct_bytes_per_s = 72e9, .host_bytes_per_s = 53e9};
  const double share = multi_path_best_share(free);
  EXPECT_DOUBLE_EQ(share, 53.0 / 125);
  EXPECT_DOUBLE_EQ(multi_path_time(free, 1e9, share), 1e9 / 125e9);
  EXPECT_DOUBLE_EQ(multi_path_time(free, 1e9, 0), 1e9 / 72e9);
  EXPECT_GT(multi_path_time(free, 1e9, share * 1.1), 1e9 / 125e9);
  EXPECT_GT(multi_path_time(free, 1e9, share * 0.9), 1e9 / 125e9);
}

TEST(Models, TheHostPathIsLeastAtItsBestChunk) {
  const MultiPathModel model{
      .direct_bytes_per_s = 72e9, .host_bytes_per_s = 53e9, .host_start_s = 10e-6};
  const double bytes = 20e6;
  const double best = multi_path_best_chunk(model, bytes);
  EXPECT_DOUBLE_EQ(best, std::sqrt(20e6 * 10e-6 * 53e9));
  EXPECT_LT(multi_path_host_time(model, bytes, best),
            multi_path_host_time(model, bytes, best * 1.2));
  EXPECT_LT(multi_path_host_time(model, bytes, best),
            multi_path_host_time(model, bytes, best / 1.2));
}

constexpr MultiRailModel kRails{.network = {.start_s = 10e-6, .bytes_per_s = 25e9},
                                .gpu = {.start_s = 10e-6, .bytes_per_s = 250e9},
                                .nodes = 4,
                                .gpus_per_node = 8};

TEST(Models, MultiRailEquationsGiveTheNumbersWorkedOutByHand) {
  const double bytes = 25e6;  // 1 ms on the network, 0.1 ms between GPUs
  EXPECT_DOUBLE_EQ(multi_rail_inter(kRails, bytes), 4 * 1.01e-3);
  EXPECT_DOUBLE_EQ(multi_rail_intra(kRails, bytes), 32 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_basic(kRails, bytes), 4 * 1.01e-3 + 32 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_local(kRails, bytes), 8 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_intra_single(kRails, bytes), 24 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_optimized(kRails, bytes, 1), 4 * 1.01e-3 + 24 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_optimized(kRails, bytes, 2), 2 * 4 * 0.51e-3 + 24 * 0.06e-3);
  MultiRailModel corrected = kRails;
  corrected.corrected = true;
  EXPECT_DOUBLE_EQ(multi_rail_basic(corrected, bytes), 3 * 1.01e-3 + 28 * 0.11e-3);
  EXPECT_DOUBLE_EQ(multi_rail_intra_single(corrected, bytes), 21 * 0.11e-3);
}

// Start-ups grow with the segments and the part that does not overlap shrinks.
TEST(Models, MoreSegmentsPayUntilTheirStartUpsDo) {
  EXPECT_GT(multi_rail_best_segments(kRails, 25e6, 64), 1);
  EXPECT_LT(multi_rail_best_segments(kRails, 25e6, 64), 64);
  EXPECT_EQ(multi_rail_best_segments(kRails, 1e3, 64), 1);
}

TEST(Models, CompressionShrinksTheWireAndCostsTheCodec) {
  CompressionModel model{.pcie = {.start_s = 0, .bytes_per_s = 10e9},
                         .network = {.start_s = 0, .bytes_per_s = 5e9},
                         .codec_bytes_per_s = 100e9,
                         .rate = 32};
  EXPECT_DOUBLE_EQ(compressed_message(model, 10e6, 1), 2e-3 + 2e-3);
  model.rate = 8;
  EXPECT_DOUBLE_EQ(compressed_message(model, 10e6, 1), 0.2e-3 + 0.5e-3 + 0.5e-3);
  // With many streams the slowest stage is all that is left.
  EXPECT_NEAR(compressed_message(model, 10e6, 1000), 0.5e-3, 2e-6);
}

// 3 messages of 10 MB at half the bits: 0.1 ms of codec each way, 0.5 ms of PCIe, 1 ms of network.
TEST(Models, CompressionByTheCollectiveOverlapsWhatSingleMessagesCannot) {
  const CompressionModel model{.pcie = {.start_s = 0, .bytes_per_s = 10e9},
                               .network = {.start_s = 0, .bytes_per_s = 5e9},
                               .codec_bytes_per_s = 100e9,
                               .rate = 16};
  const CompressedExchange exchange{.local = 1, .remote = 2, .bytes = 10e6};
  const LinkModel local{.start_s = 0, .bytes_per_s = 50e9};
  EXPECT_DOUBLE_EQ(compressed_exchange(model, exchange), 0.2e-3 + 1e-3 + 1e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(compressed_scatter(model, exchange, local), 0.6e-3 + 2e-3);
  EXPECT_DOUBLE_EQ(compressed_pairs(model, exchange, local), 0.6e-3 + 2e-3 + 0.1e-3);
}

TEST(Models, BoundsAreThoseOfThePorts) {
  EXPECT_DOUBLE_EQ(bound_all_reduce(100e9, 4, 1e9), 15e-3);
  EXPECT_DOUBLE_EQ(bound_exchange(100e9, 4, 1e9), 7.5e-3);
  EXPECT_DOUBLE_EQ(bound_broadcast(100e9, 1e9), 10e-3);
}

}  // namespace
}  // namespace sennit::models
