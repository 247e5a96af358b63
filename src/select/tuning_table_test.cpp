#include "select/tuning_table.hpp"

#include "select/select.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

constexpr std::string_view kTable = R"(tuning 1
# measured while the machine had nothing else to do
machine cpu Some CPU @ 2.50GHz
machine cores 2
machine memory_gib 24
machine gpus none
fit ranks 4 protocol slots bytes 1048576 start_us 1.5 gbps 5.25
fit ranks 4 protocol slots bytes 16777216 start_us 1.5 gbps 3.5
time all_reduce ranks 4 bytes 1024 algorithm ring protocol slots tile 0 us 20
time all_reduce ranks 4 bytes 1024 algorithm one_shot protocol slots tile 0 us 10.5
time all_reduce ranks 4 bytes 65536 algorithm ring protocol slots tile 16384 us 90
time all_reduce ranks 4 bytes 65536 algorithm two_shot protocol direct tile 262144 us 60
)";

TuningTable table() { return *tuning_table_from_text(kTable, "here.tuning"); }

HostFacts facts_with(const TuningTable& table) {
  return {.shm = true, .cma = true, .table = std::make_shared<const TuningTable>(table)};
}

TEST(TuningTable, TextFormIsReadBackAsItWas) {
  const auto read = tuning_table_from_text(kTable, "here.tuning");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(
      read->machine(),
      (MachineKey{.cpu = "Some CPU @ 2.50GHz", .cores = 2, .memory_gib = 24, .gpus = "none"}));
  const auto again = tuning_table_from_text(to_text(*read), "again.tuning");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->timings(), read->timings());
  EXPECT_EQ(again->fits(), read->fits());
  EXPECT_EQ(again->hash(), read->hash());
  EXPECT_EQ(read->hash().size(), 16U);
  ASSERT_NE(read->fit(4, false, 8), nullptr);
  EXPECT_EQ(read->fit(4, false, 8)->gbps, 5.25);
  EXPECT_EQ(read->fit(4, false, 5 << 20)->gbps, 3.5);
  EXPECT_EQ(read->fit(4, true, 8), nullptr);
}

// Ranks compare hashes: what makes another choice has another one.
TEST(TuningTable, AnotherTimeIsAnotherHash) {
  std::string text(kTable);
  text.replace(text.find("us 10.5"), 7, "us 10.6");
  EXPECT_NE(tuning_table_from_text(text, "other")->hash(), table().hash());
}

TEST(TuningTable, TheNearestCellByRatioDecides) {
  const TuningTable measured = table();
  const auto best = [&](std::int64_t bytes) {
    return measured.best(Collective::kAllReduce, 4, bytes, Carriers::kAny)->algorithm->name;
  };
  // 1024 and 65536 meet at 8192.
  EXPECT_EQ(best(0), "one_shot");
  EXPECT_EQ(best(8191), "one_shot");
  EXPECT_EQ(best(8193), "two_shot");
  EXPECT_EQ(best(std::int64_t{1} << 40), "two_shot");
  EXPECT_EQ(measured.best(Collective::kAllReduce, 8, 1024, Carriers::kAny), nullptr);
  EXPECT_EQ(measured.best(Collective::kReduce, 4, 1024, Carriers::kAny), nullptr);
}

TEST(TuningTable, OnlyWhatMayCarryTheCallCounts) {
  const TuningTable measured = table();
  const auto* slots = measured.best(Collective::kAllReduce, 4, 65536, Carriers::kSlots);
  ASSERT_NE(slots, nullptr);
  EXPECT_EQ(slots->algorithm->name, "ring");
  EXPECT_EQ(measured.best(Collective::kAllReduce, 4, 1024, Carriers::kDirect), nullptr);
}

TEST(TuningTable, FaultsAreToldByLineAndColumn) {
  const std::string head =
      "tuning 1\nmachine cpu x\nmachine cores 2\nmachine memory_gib 24\nmachine gpus none\n";
  const auto message = [](const std::string& text) {
    const auto read = tuning_table_from_text(text, "t");
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument) << text;
    return read.ok() ? std::string() : read.status().message();
  };
  EXPECT_EQ(message(""), "t:1:1: expected 'tuning 1' in the first line");
  EXPECT_EQ(message("tuning 2\n"), "t:1:8: '2' after 'tuning' is no whole number in 1..1");
  EXPECT_EQ(message("tuning 1\nspeed 3\n"),
            "t:2:1: 'speed' is no kind of line; there are: machine, fit, time");
  EXPECT_EQ(message(head + "time all_reduce ranks 1 bytes 8 algorithm ring protocol slots tile 0"),
            "t:6:23: '1' after 'ranks' is no whole number in 2..65536");
  EXPECT_EQ(message(head + "time all_reduce ranks 2 size 8"),
            "t:6:25: expected 'bytes', found 'size'");
  EXPECT_TRUE(message(head + "time all_reduce ranks 2 bytes 8 algorithm magic")
                  .starts_with("t:6:43: all_reduce has no algorithm 'magic'"))
      << message(head + "time all_reduce ranks 2 bytes 8 algorithm magic");
  EXPECT_EQ(message(head + "fit ranks 2 protocol slots bytes 1 start_us nan gbps 1"),
            "t:6:45: 'nan' after 'start_us' is no number from 0 to 1000000000000");
  EXPECT_EQ(message(head + "fit ranks 2 protocol slots bytes 1 start_us 1 gbps 1 more"),
            "t:6:54: 'more' has no meaning here");
  EXPECT_TRUE(message("tuning 1\nmachine cores 2\n").starts_with("t:2:16: the table does not say"));
}

TEST(TuningTable, TwoTimesOfOneThingAreRefused) {
  const std::string line =
      "time all_reduce ranks 4 bytes 1024 algorithm ring protocol slots tile 0 us 21\n";
  const auto read = tuning_table_from_text(std::string(kTable) + line, "t");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("two times of all_reduce ring on 4 ranks, 1024 bytes"),
            std::string::npos)
      << read.status().message();
}

TEST(TuningTable, AnotherMachineIsRefusedByTheFieldThatDiffers) {
  const TuningTable measured = table();
  EXPECT_TRUE(check_machine(measured, measured.machine(), "t").ok());
  const auto why = [&](auto change) {
    MachineKey here = measured.machine();
    change(here);
    const Status status = check_machine(measured, here, "t");
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  const auto expect = [](const std::string& message, std::string_view field) {
    EXPECT_NE(message.find(field), std::string::npos) << message;
  };
  expect(why([](MachineKey& m) { m.cpu = "Other"; }),
         "cpu is 'Some CPU @ 2.50GHz' in the table and 'Other' here");
  expect(why([](MachineKey& m) { m.cores = 16; }), "cores is '2' in the table and '16' here");
  expect(why([](MachineKey& m) { m.memory_gib = 8; }), "memory_gib is '24' in the table");
  expect(why([](MachineKey& m) { m.gpus = "H200"; }), "gpus is 'none' in the table");
}

TEST(Select, ATableOverridesTheRules) {
  const HostFacts facts = facts_with(table());
  const Shape shape{.ranks = 4};
  const auto choice = choose(Collective::kAllReduce, shape, 65536, {}, facts);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->algorithm->name, "two_shot");
  EXPECT_TRUE(choice->direct);
  EXPECT_EQ(choice->tile_bytes, 262144);
  // Where a peer's memory cannot be read, the fastest of what is left.
  HostFacts closed = facts;
  closed.cma = false;
  EXPECT_EQ(choose(Collective::kAllReduce, shape, 65536, {}, closed)->algorithm->name, "ring");
  EXPECT_EQ(choose(Collective::kAllReduce, shape, 65536, {}, closed)->tile_bytes, 16384);
}

TEST(Select, WhatTheUserAsksForOverridesTheTable) {
  const HostFacts facts = facts_with(table());
  const Shape shape{.ranks = 4};
  const auto named = choose(Collective::kAllReduce,
                            shape,
                            65536,
                            {.algorithm = "ring", .path = {}, .protocol = {}, .codec = {}},
                            facts);
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->algorithm->name, "ring");
  // Whether what was measured reduces in the order of ranks, the table does not say.
  const HostFacts none{.shm = true, .cma = true};
  const CallRequest ordered{
      .algorithm = {}, .path = {}, .protocol = {}, .rank_order = true, .codec = {}};
  EXPECT_EQ(*choose(Collective::kAllReduce, shape, 1024, ordered, facts),
            *choose(Collective::kAllReduce, shape, 1024, ordered, none));
  // Nor does it speak of ranks that were not measured.
  EXPECT_EQ(*choose(Collective::kAllReduce, {.ranks = 5}, 1024, {}, facts),
            *choose(Collective::kAllReduce, {.ranks = 5}, 1024, {}, none));
}

}  // namespace
}  // namespace sennit
