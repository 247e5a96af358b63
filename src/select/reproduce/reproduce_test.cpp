#include "select/reproduce/reproduce.hpp"

#include "base/testing/trials.hpp"
#include "machine/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <vector>

namespace sennit {
namespace {

std::vector<Reproduction> rows_of(std::optional<int> paper, const MachineSource& machines) {
  auto rows = reproduce(paper, machines);
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  return rows.ok() ? *rows : std::vector<Reproduction>();
}

TEST(Reproduce, EveryRowIsCompleteAndJudgedByItsRatio) {
  const auto rows = rows_of(std::nullopt, find_machine);
  EXPECT_GE(rows.size(), 70U);
  std::set<int> papers;
  for (const Reproduction& row : rows) {
    papers.insert(row.paper);
    EXPECT_FALSE(row.figure.empty() || row.quantity.empty() || row.unit.empty() || row.why.empty())
        << row.quantity;
    EXPECT_GT(row.ours, 0) << row.quantity;
    if (row.paper_value) {
      const double ratio = row.ours / *row.paper_value;
      const bool is_close = std::max(ratio, 1 / ratio) <= 1 + row.tolerance;
      EXPECT_EQ(row.verdict == Verdict::kReproduced, is_close) << row.quantity << " " << ratio;
    } else {
      EXPECT_NE(row.verdict, Verdict::kReproduced) << row.quantity;
    }
  }
  EXPECT_EQ(papers.size(), static_cast<std::size_t>(kPapers));
}

using IsWider = std::function<bool(const Topology& machine, const Wire& wire)>;

// How many verdicts of a paper change where some wires of its machines carry `factor` times as
// much.
int changed_verdicts(int paper, double factor, const IsWider& is_wider) {
  const auto before = rows_of(paper, find_machine);
  const auto after = rows_of(paper, [&](std::string_view name) {
    Result<Topology> machine = find_machine(name);
    for (Wire& wire : machine->wires) {
      if (is_wider(*machine, wire)) {
        wire.gbps *= factor;
        wire.both_gbps *= factor;
      }
    }
    return machine;
  });
  EXPECT_EQ(before.size(), after.size());
  int changed = 0;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    changed += before[i].verdict != after[i].verdict ? 1 : 0;
  }
  return changed;
}

VertexKind kind_of(const Topology& machine, int vertex) {
  return machine.vertices[static_cast<std::size_t>(vertex)].kind;
}

// The rows are computed, not written down: another machine gives other verdicts.
TEST(Reproduce, VerdictsFollowTheMachine) {
  struct Change {
    int paper;
    double factor;
    IsWider is_wider;
    int least;  // verdicts that it moves
  };
  const std::vector<Change> changes = {
      {1, 1.2, [](const Topology&, const Wire& wire) { return wire.kind == WireKind::kNvlink; }, 2},
      {4, 1.2, [](const Topology&, const Wire&) { return true; }, 1},
      // Between the GPUs and their switches: no longer what binds.
      {2,
       1.2,
       [](const Topology& machine, const Wire& wire) {
         return kind_of(machine, wire.a) == VertexKind::kGpu &&
                kind_of(machine, wire.b) == VertexKind::kSwitch;
       },
       1},
      // Start-ups are most of what paper 3 compares, so a fifth of a bandwidth moves no verdict of
      // it.
      {3,
       0.5,
       [](const Topology&, const Wire& wire) {
         return wire.kind == WireKind::kNet || wire.kind == WireKind::kPcie;
       },
       1},
  };
  for (const Change& change : std::span(changes).first(trials(changes.size(), std::size_t{1}))) {
    EXPECT_GE(changed_verdicts(change.paper, change.factor, change.is_wider), change.least)
        << "paper " << change.paper;
  }
}

TEST(Reproduce, AMachineThatIsMissingIsTold) {
  const auto rows = reproduce(5, [](std::string_view) -> Result<Topology> {
    return fail(Code::kInvalidArgument, "no machines today");
  });
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().message(), "no machines today");
}

}  // namespace
}  // namespace sennit
