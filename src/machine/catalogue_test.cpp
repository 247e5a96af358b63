#include "machine/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sennit {
namespace {

TEST(Catalogue, EveryFileIsReadAndNamesItself) {
  ASSERT_GE(catalogue().size(), 12U);
  for (const CatalogueEntry& entry : catalogue()) {
    const auto machine = find_machine(entry.name);
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    EXPECT_EQ(machine->name, entry.name);
  }
}

// The parser demands a source for every number; here, that none is named in vain.
TEST(Catalogue, EveryNumberHasASourceAndEverySourceANumber) {
  for (const CatalogueEntry& entry : catalogue()) {
    const Topology machine = *find_machine(entry.name);
    std::vector<std::string> used;
    for (const Vertex& vertex : machine.vertices) {
      EXPECT_EQ(vertex.memory_gbps > 0 || vertex.reduce_gbps > 0, !vertex.source.empty());
      used.push_back(vertex.source);
    }
    for (const Wire& wire : machine.wires) {
      EXPECT_FALSE(wire.source.empty());
      used.push_back(wire.source);
    }
    for (const PathCost& path : machine.paths) {
      EXPECT_FALSE(path.source.empty());
      used.push_back(path.source);
    }
    for (const auto& [key, text] : machine.sources) {
      const bool names_paper = key.starts_with("paper");
      EXPECT_TRUE(names_paper || std::ranges::find(used, key) != used.end())
          << entry.name << ": nothing is from " << key;
    }
  }
}

TEST(Catalogue, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto machine = find_machine("abacus");
  ASSERT_FALSE(machine.ok());
  EXPECT_NE(machine.status().message().find("ac922, frontera-rtx"), std::string::npos)
      << machine.status().message();
}

TEST(Topology, IslandsEndWhereOnlyProcessorsMeet) {
  EXPECT_EQ(find_machine("ac922")->islands(), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(find_machine("thetagpu")->islands(), std::vector<int>(8, 0));
  EXPECT_EQ(find_machine("workstation")->islands(), std::vector<int>(4, 0));
}

}  // namespace
}  // namespace sennit
