// What is left to choose at run time: the path of each message of a bundle, and the strand of each
// grain of a claimed plan. The proof speaks of every choice at once.
#include "graph.hpp"

#include "algo/algorithm.hpp"
#include "base/testing/trials.hpp"
#include "schedule/passes.hpp"
#include "verify/checks.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/testing/sample_schedules.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

using namespace verify_test;

std::shared_ptr<const Schedule> shared(Schedule schedule) {
  return std::make_shared<const Schedule>(std::move(schedule));
}

Strand on_shm(std::shared_ptr<const Schedule> schedule, int slots = 2) {
  return bind(std::move(schedule), PathKind::kShm, Protocol::kSlots, slots, Engine::kCpu);
}

ChannelBinding bundle(Protocol protocol, int slots = 2) {
  return {.paths = {PathKind::kShm, PathKind::kCma}, .protocol = protocol, .slots = slots};
}

void expect_refused(const Plan& plan, const std::string& why) {
  const Result<Proof> proof = verify(plan);
  ASSERT_FALSE(proof.ok());
  EXPECT_EQ(proof.status().code(), Code::kNotProved);
  EXPECT_NE(proof.status().message().find(why), std::string::npos) << proof.status().message();
}

// ---- Bundles: live with every choice ----

// Tokens between random lanes; both ends of a channel name its messages in one global order, part
// of which is spoilt.
Strand random_strand_of_bundles(Random& random) {
  const int ranks = 2 + pick(random, 3);
  Builder b("random", {.collective = Collective::kBarrier, .ranks = ranks});
  std::vector<LaneId> lanes = b.lane_on_every_rank(Need::kMove);
  const std::vector<LaneId> more = b.lane_on_every_rank(Need::kMove);
  lanes.insert(lanes.end(), more.begin(), more.end());
  const auto any_lane = [&] {
    return lanes[static_cast<std::size_t>(pick(random, static_cast<int>(lanes.size())))];
  };
  for (int c = 0; c < 4; ++c) {
    const LaneId writer = any_lane();
    LaneId reader = any_lane();
    while (reader.rank == writer.rank) {
      reader = any_lane();
    }
    const int channel = b.channel(writer, reader);
    for (int m = 0; m < 1 + pick(random, 3); ++m) {
      b.token(writer, {}, {channel});
      b.token(reader, {channel}, {});
    }
  }
  Schedule schedule = std::move(b).finish();
  for (auto& of_rank : schedule.ranks) {
    for (Lane& lane : of_rank) {
      std::ranges::shuffle(lane.steps, random);
    }
  }
  Strand strand = on_shm(shared(std::move(schedule)));
  for (ChannelBinding& binding : strand.channels) {
    binding =
        bundle(chance(random, 0.3) ? Protocol::kDirectGet : Protocol::kSlots, 1 + pick(random, 2));
  }
  return strand;
}

// Live for every choice if and only if live in the tightest graph: what is live ends whatever the
// senders pick, and what is not stops when they always pick the same path.
TEST(Bundles, AreLiveForEveryChoiceExactlyIfTheTightestGraphHasNoCircle) {
  int live = 0;
  int dead = 0;
  constexpr int kSeeds = trials(3000, 600);
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    const Strand strand = random_strand_of_bundles(random);
    const FlatStrand program(strand);
    const Result<Graph> graph = Graph::build(program);
    ASSERT_TRUE(graph.ok());
    const bool is_live = Order(*graph).complete();
    ++(is_live ? live : dead);
    constexpr int kTiles = 6;
    const auto always_exposed = [](int, int) { return 1; };
    ASSERT_EQ(Execution(strand, kTiles, {}, always_exposed).run(random), is_live)
        << "seed " << seed;
    for (unsigned salt = 0; salt < 4 && is_live; ++salt) {
      const auto any = [&](int channel, int message) {
        const unsigned mixed = (salt + 1) * 2654435761U ^ static_cast<unsigned>(channel * 7919) ^
                               static_cast<unsigned>(message * 104729);
        return static_cast<int>(mixed >> 7 & 1U);
      };
      ASSERT_TRUE(Execution(strand, kTiles, {}, any).run(random)) << "seed " << seed;
    }
  }
  EXPECT_GT(live, kSeeds / 15);
  EXPECT_GT(dead, kSeeds / 15);
}

// ---- Bundles: memory and values ----

Plan with_bundles(Schedule schedule, const std::vector<int>& channels, const ChannelBinding& to) {
  Plan plan;
  plan.strands.push_back(on_shm(shared(std::move(schedule)), to.slots));
  for (const int channel : channels) {
    plan.strands[0].channels[static_cast<std::size_t>(channel)] = to;
  }
  return plan;
}

std::vector<int> channels_stored_whole(const Schedule& schedule) {
  std::vector<int> stored;
  for (int c = 0; c < static_cast<int>(schedule.channels.size()); ++c) {
    if (is_stored_whole(schedule, c)) {
      stored.push_back(c);
    }
  }
  return stored;
}

TEST(Bundles, AreProvedForEveryAlgorithmWhereBothPathsAre) {
  int proved = 0;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : {2, 3, 4, 5, 8}) {
        Shape shape;
        shape.ranks = collective == Collective::kSendRecv ? 2 : ranks;
        if (!algorithm.refuses(shape).empty()) {
          continue;
        }
        const Schedule schedule = make_schedule(algorithm, shape).value();
        const std::vector<int> stored = channels_stored_whole(schedule);
        const auto bound_to = [&](const ChannelBinding& to) {
          return with_bundles(schedule, stored, to);
        };
        const ChannelBinding get{
            .paths = {PathKind::kCma}, .protocol = Protocol::kDirectGet, .slots = 2};
        if (stored.empty() || !verify(bound_to(get)).ok()) {
          continue;
        }
        const Result<Proof> proof = verify(bound_to(bundle(Protocol::kDirectGet)));
        EXPECT_TRUE(proof.ok()) << algorithm.name << ": " << proof.status().message();
        ++proved;
      }
    }
  }
  EXPECT_GT(proved, 50);
}

// A message and a second one that, on one path with one slot, proves the first to be consumed.
TEST(Bundles, DoNotOrderByTheCreditOfOnePath) {
  Builder b("credit", {.collective = Collective::kSendRecv, .ranks = 2});
  const int stage = b.scratch("stage", 2, 1);
  const LaneId sender = b.lane(0, Need::kMove);
  const LaneId reader = b.lane(1, Need::kMove);
  const LaneId other = b.lane(1, Need::kMove);
  const int data = b.channel(sender, reader);
  const int done = b.channel(sender, other);
  b.send(sender, {input_block(0)}, data);
  b.send(sender, {input_block(0)}, data);
  b.token(sender, {}, {done});
  b.recv(reader, data, {scratch_block(stage, 0)});
  b.recv(reader, data, {scratch_block(stage, 1)});
  b.token(other, {done}, {});
  b.copy(other, {scratch_block(stage, 0)}, {output_block(0)});
  const Schedule schedule = std::move(b).finish();
  Plan plan = with_bundles(schedule, {}, bundle(Protocol::kSlots, 1));
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).status().message();
  plan = with_bundles(schedule, {data}, bundle(Protocol::kSlots, 1));
  expect_refused(plan, "race: ");
}

struct Exposed {
  Schedule schedule;
  int first = 0;
  int second = 0;
};

// Rank 0 overwrites the source of `first` once `second` has been sent. That `first` has been read
// by then follows from its own release, or from that of `second`, which its reader takes later.
Exposed overwritten_source() {
  Builder b("exposed", {.collective = Collective::kBroadcast, .ranks = 3});
  const int source = b.scratch("source", 1, 1);
  const int rest = b.scratch("rest", 1, 1);
  const LaneId sender = b.lane(0, Need::kMove);
  const LaneId writer = b.lane(0, Need::kMove);
  const LaneId reader = b.lane(1, Need::kMove);
  const LaneId relay = b.lane(2, Need::kMove);
  const int first = b.channel(sender, reader);
  const int second = b.channel(writer, reader);
  const int out = b.channel(sender, relay);
  const int back = b.channel(relay, writer);
  b.copy(sender, {input_block(0)}, {output_block(0)});
  b.copy(sender, {input_block(0)}, {scratch_block(source, 0)});
  b.step(sender,
         {.kind = StepKind::kSend, .from = {scratch_block(source, 0)}, .out = {first, out}});
  b.recv(relay, out, {output_block(0)});
  b.token(relay, {}, {back});
  b.token(writer, {back}, {});
  b.send(writer, {input_block(0)}, second);
  b.copy(writer, {input_block(0)}, {scratch_block(source, 0)});
  b.recv(reader, first, {output_block(0)});
  b.recv(reader, second, {scratch_block(rest, 0)});
  return {.schedule = std::move(b).finish(), .first = first, .second = second};
}

TEST(Bundles, MixTheirPathsSoThatProofsOfEachPathAreNotEnough) {
  const Exposed exposed = overwritten_source();
  const ChannelBinding get{.paths = {PathKind::kCma}, .protocol = Protocol::kDirectGet, .slots = 2};
  const ChannelBinding slots{.paths = {PathKind::kShm}, .slots = 2};
  const std::vector<int> both{exposed.first, exposed.second};
  for (const ChannelBinding& binding : {get, slots}) {
    const Result<Proof> proof = verify(with_bundles(exposed.schedule, both, binding));
    EXPECT_TRUE(proof.ok()) << proof.status().message();
  }
  expect_refused(with_bundles(exposed.schedule, {exposed.first}, get), "race: ");
  expect_refused(with_bundles(exposed.schedule, both, bundle(Protocol::kDirectGet)), "race: ");
  const Result<Proof> second =
      verify(with_bundles(exposed.schedule, {exposed.second}, bundle(Protocol::kDirectGet)));
  EXPECT_TRUE(second.ok()) << second.status().message();
}

// Every access is ordered, yet a slot holds what an exposed block no longer does.
TEST(Bundles, MustCarryTheSameOnAllPaths) {
  Builder b("changed", {.collective = Collective::kAllGather, .ranks = 2});
  const int source = b.scratch("source", 1, 1);
  const int unused = b.scratch("unused", 1, 1);
  const auto main = b.lane_on_every_rank(Need::kMove);
  const LaneId sender = b.lane(0, Need::kMove);
  const LaneId reader = b.lane(1, Need::kMove);
  const int data = b.channel(sender, reader);
  const int sent = b.channel(sender, main[1]);
  const int forth = b.channel(main[1], main[0]);
  const int written = b.channel(main[0], reader);
  b.copy(sender, {input_block(0)}, {scratch_block(source, 0)});
  b.step(sender,
         {.kind = StepKind::kSend, .from = {scratch_block(source, 0)}, .out = {data, sent}});
  b.recv(main[1], sent, {output_block(0)});
  b.copy(main[1], {input_block(0)}, {output_block(1)});
  b.send(main[1], {input_block(0)}, forth);
  b.copy(main[0], {input_block(0)}, {output_block(0)});
  b.recv(main[0], forth, {output_block(1)});
  b.copy(main[0], {output_block(1)}, {scratch_block(source, 0)});
  b.token(main[0], {}, {written});
  b.token(reader, {written}, {});
  b.recv(reader, data, {scratch_block(unused, 0)});
  const Schedule schedule = std::move(b).finish();
  const ChannelBinding get{.paths = {PathKind::kCma}, .protocol = Protocol::kDirectGet, .slots = 2};
  EXPECT_TRUE(verify(with_bundles(schedule, {}, get)).ok());
  EXPECT_TRUE(verify(with_bundles(schedule, {data}, get)).ok());
  const Plan plan = with_bundles(schedule, {data}, bundle(Protocol::kDirectGet));
  expect_refused(plan, "depends on the path that its sender picks");
  Checks checks;
  checks.same_on_all_paths = false;
  EXPECT_TRUE(verify_with(plan, checks).ok());
}

// Rank 0 overwrites what it sent once the reader has signalled, by a token, that it took the
// message. That is too early where the message may have to be sent again: the step has not ended
// yet.
TEST(Bundles, KeepTheirSourceUntilTheReaderEndsTheStep) {
  Builder b("kept", {.collective = Collective::kSendRecv, .ranks = 2});
  const int source = b.scratch("source", 1, 1);
  const LaneId sender = b.lane(0, Need::kMove);
  const LaneId writer = b.lane(0, Need::kMove);
  const LaneId reader = b.lane(1, Need::kMove);
  const int data = b.channel(sender, reader);
  const int taken = b.channel(reader, writer);
  b.copy(sender, {input_block(0)}, {scratch_block(source, 0)});
  b.send(sender, {scratch_block(source, 0)}, data);
  b.recv(reader, data, {output_block(0)});
  b.token(reader, {}, {taken});
  b.token(writer, {taken}, {});
  b.copy(writer, {input_block(0)}, {scratch_block(source, 0)});
  const Schedule schedule = std::move(b).finish();
  ChannelBinding binding = bundle(Protocol::kDirectGet);
  EXPECT_TRUE(verify(with_bundles(schedule, {data}, binding)).ok());
  binding.chooser = Chooser::kReader;
  expect_refused(with_bundles(schedule, {data}, binding), "race: ");
}

// A reader answers when its step lacks nothing but the message. So two ranks that send first and
// take afterwards, which any sender's choice allows, wait for each other.
TEST(Bundles, WhoseReadersChooseWaitForTheirReaders) {
  ChannelBinding binding = bundle(Protocol::kDirectGet);
  const Schedule swap = exchange(2, First::kSend, /*by_round=*/true);
  EXPECT_TRUE(verify(with_bundles(swap, {0}, binding)).ok());
  binding.chooser = Chooser::kReader;
  EXPECT_TRUE(verify(with_bundles(swap, {0}, binding)).ok() !=
              verify(with_bundles(swap, {0, 1}, binding)).ok())
      << "one of two readers may choose, not both";
  expect_refused(with_bundles(swap, {0, 1}, binding), "which chooses a path only after");
  for (const std::string_view algorithm : {"direct", "binomial"}) {
    Shape shape;
    shape.ranks = 5;
    const Schedule gather =
        make_schedule(**find_algorithm(Collective::kGather, algorithm), shape).value();
    std::vector<int> to_root;
    for (std::size_t c = 0; c < gather.channels.size(); ++c) {
      if (gather.channels[c].readers.front().rank == 0) {
        to_root.push_back(static_cast<int>(c));
      }
    }
    const Result<Proof> proof = verify(with_bundles(gather, to_root, binding));
    EXPECT_TRUE(proof.ok()) << algorithm << ": " << proof.status().message();
  }
}

TEST(Bundles, AskOneReaderAtATime) {
  Builder b("two_readers", {.collective = Collective::kBroadcast, .ranks = 3});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int first = b.channel(lanes[0], lanes[1]);
  const int second = b.channel(lanes[0], lanes[2]);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.step(lanes[0], {.kind = StepKind::kSend, .from = {input_block(0)}, .out = {first, second}});
  b.recv(lanes[1], first, {output_block(0)});
  b.recv(lanes[2], second, {output_block(0)});
  const Schedule schedule = std::move(b).finish();
  ChannelBinding binding = bundle(Protocol::kDirectGet);
  binding.chooser = Chooser::kReader;
  EXPECT_TRUE(verify(with_bundles(schedule, {first}, binding)).ok());
  expect_refused(with_bundles(schedule, {first, second}, binding),
                 "the answers of 2 readers that choose at once");
}

TEST(Bundles, PassNothingOnFromOneReaderThatChoosesToAnother) {
  const Schedule schedule = fuse(chain(3));
  ChannelBinding binding = bundle(Protocol::kDirectGet);
  binding.chooser = Chooser::kReader;
  EXPECT_TRUE(verify(with_bundles(schedule, {0}, binding)).ok());
  EXPECT_TRUE(verify(with_bundles(schedule, {1}, binding)).ok());
  expect_refused(with_bundles(schedule, {0, 1}, binding), "readers that choose at once");
}

TEST(Bundles, DoNotMixPutsWithSlots) {
  ChannelBinding binding{
      .paths = {PathKind::kNvlink, PathKind::kHost}, .protocol = Protocol::kDirectPut, .slots = 2};
  expect_refused(with_bundles(chain(2), {0}, binding), "mixes direct_put");
  binding.paths = {PathKind::kNvlink, PathKind::kPcie};
  EXPECT_TRUE(verify(with_bundles(chain(2), {0}, binding)).ok());
}

TEST(Bundles, NameEachPathOnce) {
  const ChannelBinding binding{.paths = {PathKind::kShm, PathKind::kShm}, .slots = 2};
  expect_refused(with_bundles(chain(2), {0}, binding), "names path shm twice");
}

// ---- Claimed plans ----

Plan claimed(Collective collective, const std::vector<std::string_view>& algorithms) {
  Plan plan{.strands = {}, .division = Division::kClaimed};
  for (const std::string_view algorithm : algorithms) {
    Shape shape;
    shape.ranks = 4;
    plan.strands.push_back(
        on_shm(shared(*make_schedule(**find_algorithm(collective, algorithm), shape))));
  }
  return plan;
}

TEST(Claimed, StrandsThatMoveDataMayBeChosenAtRunTime) {
  for (const Plan& plan : {claimed(Collective::kBroadcast, {"chain", "direct", "k_nomial"}),
                           claimed(Collective::kAllGather, {"ring", "direct"}),
                           claimed(Collective::kAllReduce, {"two_shot", "two_shot"})}) {
    const Result<Proof> proof = verify(plan);
    EXPECT_TRUE(proof.ok()) << proof.status().message();
  }
}

TEST(Claimed, StrandsThatSumInAnotherOrderMayNot) {
  const Plan plan = claimed(Collective::kAllReduce, {"two_shot", "ring"});
  expect_refused(plan, "claimed: output[0] of rank 0 has another expression tree than in strand 0");
  Plan divided = plan;
  divided.division = Division::kStatic;
  EXPECT_TRUE(verify(divided).ok());
  Checks checks;
  checks.equal_strands = false;
  EXPECT_TRUE(verify_with(plan, checks).ok());
}

TEST(Claimed, StrandsMustCutTheVectorAlike) {
  expect_refused(claimed(Collective::kAllReduce, {"one_shot", "two_shot"}),
                 "strand 1 cuts the vector in another way than strand 0");
}

TEST(Claimed, GrainsAreWholeTilesOfEveryStrand) {
  Plan plan = claimed(Collective::kBroadcast, {"chain", "direct"});
  plan.strands[0].tile_bytes = 192;
  plan.strands[1].tile_bytes = 256;
  EXPECT_EQ(grain_bytes(plan), 768);
  EXPECT_TRUE(verify(plan).ok());
  plan.strands[1].tile_bytes = 100;
  expect_refused(plan, "multiples of 64 bytes");
}

// ---- Lengths that vary ----

TEST(Choices, AreRefusedWhereLengthsVary) {
  Shape shape;
  shape.ranks = 3;
  shape.varying = true;
  Plan plan;
  plan.strands.push_back(
      on_shm(shared(*make_schedule(**find_algorithm(Collective::kAllGather, "direct"), shape))));
  ASSERT_TRUE(verify(plan).ok());

  Plan bundled = plan;
  bundled.strands.front().channels.front() = bundle(Protocol::kSlots);
  expect_refused(bundled, "where lengths vary, no path or strand can be chosen at run time");

  plan.strands.push_back(plan.strands.front());
  plan.division = Division::kClaimed;
  expect_refused(plan, "where lengths vary, no path or strand can be chosen at run time");
}

}  // namespace
}  // namespace sennit
