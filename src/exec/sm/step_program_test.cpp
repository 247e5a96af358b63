#include "exec/sm/step_program.hpp"

#include "algo/algorithm.hpp"
#include "exec/sm/direct_program.hpp"
#include "select/device_choice.hpp"

#include <gtest/gtest.h>

namespace sennit::sm {
namespace {

Strand strand_of(Collective collective, std::string_view name, int ranks) {
  const DeviceChoice choice{.algorithm = find_algorithm(collective, name).value(),
                            .protocol = Protocol::kSlots,
                            .by_steps = true};
  return make_device_plan(choice, {.ranks = ranks}, {}).value()->strands.front();
}

constexpr StagingShape kStaging{.blocks = 32, .slot_bytes = std::size_t{128} << 10};

StepCall call_of(const Strand& strand) {
  StepCall call;
  call.program = *compile_steps(strand, 0).value();
  call.staging.fill(kStaging);
  return call;
}

constexpr StepLimits kLimits{.blocks = 32,
                             .scratch_bytes = std::size_t{256} << 10,
                             .slot_bytes = {kStaging.slot_bytes, kStaging.slot_bytes}};

TEST(StepProgram, OfARingPassesOnWhatItReduces) {
  const auto program = compile_steps(strand_of(Collective::kAllReduce, "ring", 4), 1).value();
  ASSERT_EQ(program->step_count, 7);
  EXPECT_EQ(program->sends_to, 1U << 2);
  EXPECT_EQ(program->hears_from, 1U << 0);
  EXPECT_EQ(program->slots, 2);
  EXPECT_EQ(program->channels, (std::array<std::int32_t, kStagingPlaces>{1, 0}));
  EXPECT_EQ(program->message_parts, 1);
  EXPECT_EQ(program->per_tile, 6);
  const CodedStep& first = program->steps[0];
  EXPECT_EQ(first.operands, 1);
  EXPECT_EQ(first.ins, 0);
  EXPECT_EQ(first.outs, 1);
  EXPECT_EQ(program->places[first.first_place].kind, PlaceKind::kInput);
  EXPECT_EQ(program->places[first.first_place].index, 1);
  const CodedStep& reducing = program->steps[1];
  EXPECT_EQ(reducing.operands, 2);
  EXPECT_EQ(reducing.ins, 1);
  EXPECT_EQ(reducing.outs, 1);
  EXPECT_EQ(program->blocks[reducing.first_part], 0);
  EXPECT_EQ(program->ports[reducing.first_port].peer, 0);
  EXPECT_EQ(program->ports[reducing.first_port + 1].peer, 2);
  EXPECT_EQ(program->ports[reducing.first_port + 1].index, 1);
}

// The tiles of a block are the block, whatever its length.
TEST(StepProgram, TilesCoverEveryBlock) {
  for (const std::string_view name : {"ring", "hierarchical", "halving_doubling"}) {
    const Strand strand = strand_of(Collective::kAllReduce, name, 4);
    const Problem& problem = strand.schedule->problem;
    for (const std::int64_t count : {1, 3, 33, 1000, 100'001, 50'000'000}) {
      StepCall call = call_of(strand);
      ASSERT_TRUE(bind(problem, {count, 4}, kLimits, call).ok());
      EXPECT_EQ(call.tile_bytes % 128, 0);
      EXPECT_LE(call.blocks, kLimits.blocks);
      for (int block = 0; block < problem.cut; ++block) {
        const ElementRange range = block_range(problem, count, 4, block);
        EXPECT_EQ(block_begin(call, block), range.begin * 4) << name << " " << count;
        std::int64_t covered = 0;
        for (std::int64_t tile = 0; tile < call.tiles; ++tile) {
          covered += std::max<std::int64_t>(0, tile_length(call, block, tile));
        }
        EXPECT_EQ(covered, range.length * 4) << name << " " << count;
      }
    }
  }
}

// No message reaches into a slot of another, or beyond what the block has.
TEST(StepProgram, SlotsDoNotOverlap) {
  const Strand strand = strand_of(Collective::kAllToAll, "bruck", 8);
  StepCall call = call_of(strand);
  ASSERT_TRUE(bind(strand.schedule->problem, {1 << 20, 4}, kLimits, call).ok());
  const auto message = static_cast<std::size_t>(call.program.message_parts * call.tile_bytes);
  for (int channel = 0; channel < call.program.channels[0]; ++channel) {
    const Port port{.channel = static_cast<std::uint8_t>(channel)};
    const std::size_t begin = slot_at(call, port, 3, 1);
    EXPECT_EQ(slot_at(call, port, 3, 2), begin + message);
    EXPECT_EQ(slot_at(call, port, 3, 3), begin);
    EXPECT_LE(begin + 2 * message, slot_at(call, {}, 4, 1));
  }
  EXPECT_EQ(slot_at(call, {}, 0, 1), kStaging.words_bytes());
}

TEST(StepProgram, RefusesStagingBuffersThatAreTooSmall) {
  const Strand strand = strand_of(Collective::kAllToAll, "bruck", 8);
  StepCall call = call_of(strand);
  StepLimits limits = kLimits;
  limits.slot_bytes = {512, 0};
  const Status status = bind(strand.schedule->problem, {100, 4}, limits, call);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("512 bytes"), std::string::npos) << status.message();
}

// NVLink channels may have larger slots: a hierarchical schedule has two channels there, and one
// through the host, and its tiles fill the slots of both.
TEST(StepProgram, SlotsAreAsLargeAsWhereTheyLieAllows) {
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 3}};
  const DeviceChoice choice{
      .algorithm = find_algorithm(Collective::kAllReduce, "hierarchical_sliced").value(),
      .protocol = Protocol::kSlots,
      .by_steps = true};
  DeviceFacts facts;
  facts.reach = false;
  facts.groups = groups;
  const Shape shape{.ranks = 4, .groups = groups};
  const Strand strand = make_device_plan(choice, shape, facts).value()->strands.front();
  StepCall call = call_of(strand);
  EXPECT_EQ(call.program.channels, (std::array<std::int32_t, kStagingPlaces>{2, 1}));
  constexpr StagingShape kFar{.blocks = 32, .slot_bytes = kStaging.slot_bytes / 2};
  call.staging[2] = kFar;
  StepLimits limits = kLimits;
  limits.slot_bytes = {kStaging.slot_bytes, kFar.slot_bytes};
  ASSERT_TRUE(bind(strand.schedule->problem, {1 << 24, 4}, limits, call).ok());
  EXPECT_EQ(call.tile_bytes, 32 << 10);
  // The last byte of the last slot, and no more.
  const auto end = [&](int peer, int channel) {
    const Port port{.peer = static_cast<std::int8_t>(peer),
                    .channel = static_cast<std::uint8_t>(channel)};
    return slot_at(call, port, 31, 2) + static_cast<std::size_t>(call.tile_bytes);
  };
  EXPECT_EQ(end(1, 1), kStaging.bytes());
  EXPECT_EQ(end(2, 0), kFar.bytes());
}

// A row is run step by step where its name is not one of the direct family, so the names must say
// what the direct kernels can do.
TEST(StepProgram, WhatHasADirectKernelIsWhatTheDirectKernelsRun) {
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      const Shape shape{.ranks = 5};
      if (collective == Collective::kSendRecv || collective == Collective::kBarrier ||
          !algorithm.refuses(shape).empty()) {
        continue;
      }
      const Schedule schedule = make_schedule(algorithm, shape).value();
      bool runs = true;
      for (int rank = 0; rank < 5; ++rank) {
        runs = runs && compile_direct(schedule, rank).ok();
      }
      EXPECT_TRUE(runs || !has_direct_kernel(algorithm.name))
          << name(collective) << " " << algorithm.name;
    }
  }
}

}  // namespace
}  // namespace sennit::sm
