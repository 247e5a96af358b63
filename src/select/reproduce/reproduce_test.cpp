#include "select/reproduce/reproduce.hpp"

#include "machine/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace sennit {
namespace {

std::vector<Reproduction> rows_of(std::optional<int> paper, const MachineSource& machines) {
  auto rows = reproduce(paper, machines);
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  return rows.ok() ? *rows : std::vector<Reproduction>();
}

TEST(Reproduce, EveryRowIsCompleteAndJudgedByItsRatio) {
  const auto rows = rows_of(std::nullopt, find_machine);
  EXPECT_GE(rows.size(), 30U);
  std::set<int> papers;
  for (const Reproduction& row : rows) {
    papers.insert(row.paper);
    EXPECT_FALSE(row.figure.empty() || row.quantity.empty() || row.unit.empty() || row.why.empty())
        << row.quantity;
    EXPECT_GT(row.ours, 0) << row.quantity;
    if (row.paper_value) {
      const double ratio = row.ours / *row.paper_value;
      const bool near = std::max(ratio, 1 / ratio) <= 1 + row.tolerance;
      EXPECT_EQ(row.verdict == Verdict::kReproduced, near) << row.quantity << " " << ratio;
    } else {
      EXPECT_NE(row.verdict, Verdict::kReproduced) << row.quantity;
    }
  }
  EXPECT_EQ(papers.size(), static_cast<std::size_t>(kPapers));
}

// The rows are computed, not written down: another machine gives other verdicts.
TEST(Reproduce, VerdictsFollowTheMachine) {
  const auto faster_nvlink = [](std::string_view name) {
    Result<Topology> machine = find_machine(name);
    for (Wire& wire : machine->wires) {
      if (wire.kind == WireKind::kNvlink) {
        wire.gbps *= 1.2;
        wire.both_gbps *= 1.2;
      }
    }
    return machine;
  };
  const auto before = rows_of(1, find_machine);
  const auto after = rows_of(1, faster_nvlink);
  ASSERT_EQ(before.size(), after.size());
  int changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    changed += before[i].verdict != after[i].verdict ? 1 : 0;
  }
  EXPECT_GE(changed, 2);
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
