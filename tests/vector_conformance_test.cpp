// The calls whose lengths vary, through the C ABI, by ranks that are threads: every algorithm of
// the four collectives with random lengths, against a closed formula. SENNIT_TEST_SEED repeats a
// failure or tries other lengths.
#include "guarded_buffer.hpp"

#include "algo/algorithm.hpp"
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using tests::GuardedBuffer;
using tests::load;
using tests::store;

constexpr std::array kVarying = {
    Collective::kAllGather, Collective::kAllToAll, Collective::kGather, Collective::kScatter};
constexpr std::array kTypes = {Dtype::kUint8, Dtype::kFloat32, Dtype::kInt64};
constexpr std::int64_t kTileBytes = 256;
constexpr int kRepeats = 24;
constexpr unsigned kDefaultSeed = 20261121;

// Where the blocks of a buffer lie.
enum class Layout { kPacked, kPackedByName, kScattered };
constexpr std::array kLayouts = {Layout::kPacked, Layout::kPackedByName, Layout::kScattered};

using Lengths = std::vector<std::vector<std::int64_t>>;  // [source][destination]

struct Case {
  const Algorithm* algorithm;
  int ranks;
  int root;
  Dtype dtype;
  bool direct;
  bool in_place;
  Layout layout;
  Lengths lengths;

  [[nodiscard]] Collective collective() const { return algorithm->collective; }
};

std::string describe(const Case& c) {
  return fmt::format("{}_v {}, {} ranks, root {}, {}, {}{}, layout {}",
                     name(c.collective()),
                     c.algorithm->name,
                     c.ranks,
                     c.root,
                     name(c.dtype),
                     c.direct ? "direct" : "slots",
                     c.in_place ? ", in place" : "",
                     static_cast<int>(c.layout));
}

// ---- The cases ----

template <typename List>
auto any_of(std::mt19937& random, const List& list) {
  return list[std::uniform_int_distribution<std::size_t>(0, std::size(list) - 1)(random)];
}

// Zero, one and some elements; around one tile; several tiles.
Lengths random_lengths(std::mt19937& random, const Case& c) {
  const std::int64_t tile = kTileBytes / static_cast<std::int64_t>(size_bytes(c.dtype));
  const std::array choices = {std::int64_t{0},
                              std::int64_t{0},
                              std::int64_t{1},
                              std::int64_t{37},
                              tile - 1,
                              tile,
                              tile + 1,
                              7 * tile + 3};
  const auto n = static_cast<std::size_t>(c.ranks);
  Lengths lengths(n, std::vector<std::int64_t>(n, 0));
  for (std::size_t source = 0; source < n; ++source) {
    for (std::size_t destination = 0; destination < n; ++destination) {
      const bool one_part = c.collective() == Collective::kAllGather && destination > 0;
      lengths[source][destination] = one_part ? lengths[source][0] : any_of(random, choices);
    }
  }
  return lengths;
}

std::vector<Case> cases_of(int ranks, unsigned seed) {
  std::mt19937 random(seed + static_cast<unsigned>(ranks));
  std::vector<Case> cases;
  for (const Collective collective : kVarying) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        for (const bool direct : {false, true}) {
          Case c{.algorithm = &algorithm,
                 .ranks = ranks,
                 .root = std::uniform_int_distribution(0, ranks - 1)(random),
                 .dtype = any_of(random, kTypes),
                 .direct = direct,
                 .in_place = repeat % 3 == 2 && collective != Collective::kAllToAll,
                 .layout = any_of(random, kLayouts),
                 .lengths = {}};
          c.lengths = random_lengths(random, c);
          cases.push_back(std::move(c));
        }
      }
    }
  }
  std::ranges::shuffle(cases, random);
  return cases;
}

bool is_refused(const Case& c) {
  Shape shape;
  shape.ranks = c.ranks;
  shape.root = c.root;
  shape.varying = true;
  return !make_schedule(*c.algorithm, shape).ok();
}

// ---- One rank ----

struct Place {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

std::vector<Place> places(const std::vector<std::int64_t>& lengths, Layout layout) {
  constexpr std::int64_t kGap = 5;
  std::vector<Place> result(lengths.size());
  std::int64_t end = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    // Scattered: the last block first, with gaps.
    const std::size_t index = layout == Layout::kScattered ? lengths.size() - 1 - i : i;
    result[index] = {end, lengths[index]};
    end += lengths[index] + (layout == Layout::kScattered ? kGap : 0);
  }
  return result;
}

std::int64_t end_of(const std::vector<Place>& blocks) {
  std::int64_t end = 0;
  for (const Place& block : blocks) {
    end = std::max(end, block.begin + block.length);
  }
  return end;
}

std::int64_t value(Dtype dtype, int source, int destination, std::int64_t index) {
  const std::int64_t full =
      source * std::int64_t{4133} + destination * std::int64_t{517} + index % 4093;
  return dtype == Dtype::kUint8 ? full & 0xff : full;
}

class RankRun {
 public:
  RankRun(const Case& c, int rank, sennit_comm_t comm)
      : case_(c),
        rank_(rank),
        comm_(comm),
        inputs_(places(input_lengths(), c.layout)),
        outputs_(places(output_lengths(), c.layout)),
        in_place_(c.in_place && !inputs_.empty() && !outputs_.empty()),
        memory_(std::max(end_of(outputs_), in_place_ ? end_of(inputs_) : 0), c.dtype),
        input_(in_place_ ? 0 : end_of(inputs_), c.dtype) {
    const auto own = static_cast<std::size_t>(rank);
    send_ = !in_place_ ? input_.at(0) : memory_.at(inputs_.size() == 1 ? outputs_[own].begin : 0);
    recv_ = memory_.at(in_place_ && outputs_.size() == 1 && inputs_.size() > 1 ? inputs_[own].begin
                                                                               : 0);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      for (std::int64_t e = 0; e < inputs_[i].length; ++e) {
        store(c.dtype, element(send_, inputs_[i].begin + e), input_value(static_cast<int>(i), e));
      }
    }
  }

  sennit_status_t run() {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    const std::string algorithm(case_.algorithm->name);
    options.algorithm = algorithm.c_str();
    options.protocol = case_.direct ? "direct" : "slots";
    options.tile_bytes = kTileBytes;
    const Table in(inputs_, case_.layout);
    const Table out(outputs_, case_.layout);
    const auto dtype = static_cast<sennit_dtype_t>(case_.dtype);
    const int root = case_.root;
    switch (case_.collective()) {
      case Collective::kAllGather:
        return sennit_all_gather_v(
            send_, in.counts[0], recv_, out.of(), out.at(), dtype, comm_, nullptr, &options);
      case Collective::kAllToAll:
        return sennit_all_to_all_v(
            send_, in.of(), in.at(), recv_, out.of(), out.at(), dtype, comm_, nullptr, &options);
      case Collective::kGather:
        return sennit_gather_v(
            send_, in.counts[0], recv_, out.of(), out.at(), dtype, root, comm_, nullptr, &options);
      default:
        return sennit_scatter_v(
            send_, in.of(), in.at(), recv_, out.counts[0], dtype, root, comm_, nullptr, &options);
    }
  }

  // What is wrong with the memory after the call; empty when nothing is.
  std::string defect() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      for (std::int64_t e = 0; e < outputs_[i].length; ++e) {
        const std::int64_t found = load(case_.dtype, element(recv_, outputs_[i].begin + e));
        const std::int64_t expected = output_value(static_cast<int>(i), e);
        if (found != expected) {
          return fmt::format(
              "element {} of block {} of rank {} is {}, not {}", e, i, rank_, found, expected);
        }
      }
    }
    return memory_.guards_are_whole() && input_.guards_are_whole()
               ? std::string()
               : fmt::format("rank {} wrote outside its buffers", rank_);
  }

 private:
  // Counts and displacements as the ABI takes them.
  struct Table {
    Table(const std::vector<Place>& blocks, Layout layout) : packed(layout == Layout::kPacked) {
      for (const Place& block : blocks) {
        counts.push_back(static_cast<std::size_t>(block.length));
        begins.push_back(static_cast<std::size_t>(block.begin));
      }
    }
    [[nodiscard]] const std::size_t* of() const { return counts.data(); }
    [[nodiscard]] const std::size_t* at() const { return packed ? nullptr : begins.data(); }

    bool packed;
    std::vector<std::size_t> counts;
    std::vector<std::size_t> begins;
  };

  [[nodiscard]] std::vector<std::int64_t> input_lengths() const {
    const auto& own = case_.lengths[static_cast<std::size_t>(rank_)];
    switch (case_.collective()) {
      case Collective::kAllToAll:
        return own;
      case Collective::kScatter:
        return rank_ == case_.root ? own : std::vector<std::int64_t>{};
      default:
        return {own[static_cast<std::size_t>(case_.root)]};
    }
  }

  [[nodiscard]] std::vector<std::int64_t> output_lengths() const {
    if (case_.collective() == Collective::kScatter) {
      return {case_.lengths[static_cast<std::size_t>(case_.root)][static_cast<std::size_t>(rank_)]};
    }
    if (case_.collective() == Collective::kGather && rank_ != case_.root) {
      return {};
    }
    std::vector<std::int64_t> lengths;
    for (const auto& source : case_.lengths) {
      lengths.push_back(source[static_cast<std::size_t>(rank_)]);
    }
    return lengths;
  }

  // What belongs to all destinations alike says 0 for the destination.
  [[nodiscard]] bool is_for_one() const {
    return case_.collective() == Collective::kAllToAll ||
           case_.collective() == Collective::kScatter;
  }
  [[nodiscard]] std::int64_t input_value(int block, std::int64_t index) const {
    return value(case_.dtype, rank_, is_for_one() ? block : 0, index);
  }
  [[nodiscard]] std::int64_t output_value(int block, std::int64_t index) const {
    const int source = case_.collective() == Collective::kScatter ? case_.root : block;
    return value(case_.dtype, source, is_for_one() ? rank_ : 0, index);
  }

  [[nodiscard]] std::byte* element(std::byte* base, std::int64_t index) const {
    return base + index * static_cast<std::int64_t>(size_bytes(case_.dtype));
  }

  const Case& case_;
  int rank_;
  sennit_comm_t comm_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  bool in_place_;
  GuardedBuffer memory_;  // of the output, and of the input in place
  GuardedBuffer input_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

struct Tally {
  int right = 0;
  int refused = 0;
  std::string defect;  // the first
};

std::string run_case(const Case& c, int rank, sennit_comm_t comm, Tally& tally) {
  RankRun run(c, rank, comm);
  const sennit_status_t status = run.run();
  // Pairwise sends wait for one another in a circle when a send ends only once it has been read,
  // and so do those of a ring; both have no direct form, with or without lengths that vary.
  const bool circle = c.direct && (status == SENNIT_NOT_PROVED || status == SENNIT_UNSUPPORTED);
  if (is_refused(c)) {
    ++tally.refused;
    return status == SENNIT_UNSUPPORTED
               ? std::string()
               : fmt::format("not refused: {}", sennit_status_name(status));
  }
  if (circle && c.ranks > 1 && c.algorithm->name != "direct") {
    ++tally.refused;
    return {};
  }
  if (status != SENNIT_OK) {
    return sennit_last_error_message();
  }
  ++tally.right;
  return run.defect();
}

Tally run_rank(const std::vector<Case>& cases, int ranks, int rank, const sennit_unique_id_t& id) {
  Tally tally;
  sennit_comm_t comm = nullptr;
  if (sennit_comm_init_rank(&comm, ranks, &id, rank, nullptr) != SENNIT_OK) {
    tally.defect = sennit_last_error_message();
    return tally;
  }
  for (const Case& c : cases) {
    if (const std::string defect = run_case(c, rank, comm, tally); !defect.empty()) {
      tally.defect = describe(c) + ": " + defect;
      break;
    }
  }
  sennit_comm_destroy(comm);
  return tally;
}

unsigned seed_of_this_run() {
  const char* text = std::getenv("SENNIT_TEST_SEED");
  return text == nullptr ? kDefaultSeed : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

// ---- The claims ----

class VectorConformance : public testing::TestWithParam<int> {};

TEST_P(VectorConformance, EveryAlgorithmMovesBlocksOfAnyLengthsOrRefusesByName) {
  const int ranks = GetParam();
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(fmt::format("SENNIT_TEST_SEED={}", seed));
  const std::vector<Case> cases = cases_of(ranks, seed);
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<Tally> tallies(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        tallies[static_cast<std::size_t>(rank)] = run_rank(cases, ranks, rank, id);
      });
    }
  }
  for (const Tally& tally : tallies) {
    EXPECT_EQ(tally.defect, "");
    EXPECT_EQ(tally.right + tally.refused, static_cast<int>(cases.size()));
    EXPECT_GE(tally.right, 8 * kRepeats) << "direct runs all four, by slots and directly";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, VectorConformance, testing::Range(1, 9));

TEST(VectorConformanceCases, WhatPassesOnBlocksOfUnknownLengthIsRefusedAndNothingElse) {
  Shape shape;
  shape.ranks = 5;
  shape.varying = true;
  for (const auto& [collective, algorithm, allowed] :
       {std::tuple(Collective::kAllGather, "direct", true),
        std::tuple(Collective::kAllGather, "ring", true),
        std::tuple(Collective::kAllToAll, "direct", true),
        std::tuple(Collective::kAllToAll, "pairwise", true),
        std::tuple(Collective::kGather, "direct", true),
        std::tuple(Collective::kGather, "binomial", false),
        std::tuple(Collective::kScatter, "direct", true),
        std::tuple(Collective::kScatter, "binomial", false)}) {
    const auto made = make_schedule(**find_algorithm(collective, algorithm), shape);
    EXPECT_EQ(made.ok(), allowed) << name(collective) << " " << algorithm;
    if (!allowed) {
      EXPECT_EQ(made.status().code(), Code::kUnsupported);
      EXPECT_NE(made.status().message().find(algorithm), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace sennit
