#include "machine/topology.hpp"

#include "machine/topology_picture.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

constexpr std::string_view kPair = R"(# a comment
machine pair Two GPUs and a processor
source guess written for this test
gpu 0..1 memory 900 GB/s reduce 400 GB/s switch 300 us call 2.5 us load 0.3 us step 2 us from guess
cpu 0 memory 100 GB/s from guess
switch crossbar
link gpu0 gpu1 nvlink 75 GB/s from guess
link gpu0..1 cpu0 pcie 12.5 GB/s both 20 GB/s from guess
path nvlink start 8 us sm 0.7 us free 4 us sm_free 7 us lane 45 GB/s sms 60 GB/s from guess # more
)";

TEST(Topology, ReadsWhatAFileSays) {
  const auto topology = topology_from_text(kPair, "pair.machine");
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->name, "pair");
  EXPECT_EQ(topology->title, "Two GPUs and a processor");
  EXPECT_EQ(topology->vertices.size(), 4U);
  EXPECT_EQ(topology->devices(), (std::vector{0, 1}));
  ASSERT_EQ(topology->wires.size(), 3U);
  EXPECT_EQ(topology->wires[2].a, 1);
  EXPECT_EQ(topology->wires[2].b, 2);
  EXPECT_EQ(topology->wires[2].gbps, 12.5);
  EXPECT_EQ(topology->wires[2].both_gbps, 20);
  EXPECT_EQ(topology->cost(PathKind::kNvlink).sm_start_us, 0.7);
  EXPECT_EQ(topology->cost(PathKind::kNvlink).sms_gbps, 60);
  EXPECT_EQ(topology->cost(PathKind::kNvlink).free_us, 4);
  EXPECT_EQ(topology->cost(PathKind::kNvlink).sm_free_us, 7);
  EXPECT_EQ(topology->vertices[0].call_us, 2.5);
  EXPECT_EQ(topology->vertices[0].load_us, 0.3);
  EXPECT_EQ(topology->vertices[0].step_us, 2);
  EXPECT_EQ(topology->cost(PathKind::kRail).start_us, 0);
  EXPECT_FALSE(topology->has_fabric());
}

TEST(Topology, TextFormIsReadBackAsItWas) {
  const auto topology = topology_from_text(kPair, "pair.machine");
  ASSERT_TRUE(topology.ok());
  const std::string text = to_text(*topology);
  const auto again = topology_from_text(text, "again.machine");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(to_text(*again), text);
  EXPECT_NE(text.find("link gpu1 cpu0 pcie 12.5 GB/s both 20 GB/s from guess"), std::string::npos)
      << text;
}

TEST(Topology, ThePictureOfAnyTitleIsWellFormed) {
  const Topology topology =
      *topology_from_text("machine m<1> A & B\ngpu 0\nswitch \"s\"\n", "m.machine");
  const std::string svg = topology_svg(topology);
  EXPECT_NE(svg.find("<title>m&lt;1&gt;: A &amp; B</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">&quot;s&quot;</text>"), std::string::npos) << svg;
}

TEST(Topology, ThePictureShowsEveryVertexAndLink) {
  const Topology topology = *topology_from_text(kPair, "pair.machine");
  const std::string svg = topology_svg(topology);
  for (const Vertex& vertex : topology.vertices) {
    EXPECT_NE(svg.find(">" + vertex.name + "</text>"), std::string::npos) << vertex.name;
  }
  std::size_t lines = 0;
  for (std::size_t at = svg.find(" GB/s</title></path>"); at != std::string::npos;
       at = svg.find(" GB/s</title></path>", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, topology.wires.size());
  EXPECT_NE(svg.find("pcie: 12.5 GB/s (20 both ways) each way"), std::string::npos);
}

struct Fault {
  std::string_view text;
  std::string_view message;
};

TEST(Topology, FaultsAreToldWithTheirLine) {
  const Fault faults[] = {
      {"gpu 0..1\n", "the file has no line 'machine NAME TITLE'"},
      {"machine m t\nnic 0\n", "neither gpu nor cpu"},
      {"machine m t\ngpu 0..1 memory 5 GB/s\n", "f:2: expected 'from SOURCE'"},
      {"machine m t\ngpu 0..1 memory 5 GB/s from s\n", "f:2: there is no line 'source s"},
      {"machine m t\nsource s x\ngpu 0 memory -5 GB/s from s\n", "f:3: '-5' is not a positive"},
      {"machine m t\nsource s x\ngpu 0 memory 5 Gb/s from s\n",
       "f:3: expected a number and 'GB/s'"},
      {"machine m t\ngpu 0\ngpu 0\n", "f:3: there are two 'gpu0'"},
      {"machine m t\ngpu 3..1\n", "f:2: 'gpu3..1' is no range"},
      {"machine m t\nsource s x\ngpu 0\nlink gpu0 gpu1 nvlink 5 GB/s from s\n",
       "f:4: there is no 'gpu1'"},
      {"machine m t\nsource s x\ngpu 0..1\nlink gpu0 gpu1 wire 5 GB/s from s\n",
       "f:4: 'wire' is no kind"},
      {"machine m t\nsource s x\ngpu 0..4\nlink gpu0..1 gpu2..4 pcie 5 GB/s from s\n",
       "do not pair off"},
      {"machine m t\ngpu 0\npath carrier start 1 us from s\n", "f:3: there is no path 'carrier'"},
      {"machine m t\nwheel 0\n", "f:2: 'wheel' is no kind of line"},
  };
  for (const Fault& fault : faults) {
    const auto topology = topology_from_text(fault.text, "f");
    ASSERT_FALSE(topology.ok()) << fault.text;
    EXPECT_NE(topology.status().message().find(fault.message), std::string::npos)
        << topology.status().message();
  }
}

}  // namespace
}  // namespace sennit
