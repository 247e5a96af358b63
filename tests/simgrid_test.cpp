// The simulator against SimGrid, which shares links by a solver of its own: random machines with
// narrow links, random algorithms and tiles. Here a lane is one of SimGrid's actors and a channel a
// pair of its semaphores, so of the two runs only the schedule is common.
#include "algo/algorithm.hpp"
#include "sim/fabric.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <simgrid/s4u.hpp>  // NOLINT(misc-include-cleaner): the header that users are told of
#include <utility>

namespace sennit {
namespace {

namespace sg = simgrid::s4u;

constexpr double kStartSeconds = 5e-6;

struct Scenario {
  Topology machine;
  Plan plan;
  std::int64_t bytes = 0;
  std::string what;
};

// GPUs on two switches that narrow trunks join, so that flows meet in the middle as well as at
// their ends. The links of later GPUs are faster by multiples of `nudge`.
Topology random_machine(std::mt19937& random, int gpus, double nudge) {
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  std::string text =
      "machine random for one test\nsource random drawn\n"
      "gpu 0..{}\nswitch left\nswitch right\npath nvlink start 5 us from random\n";
  text = fmt::format(fmt::runtime(text), gpus - 1);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const double gbps = between(10, 50) * (1 + nudge * gpu);
    text += fmt::format("link gpu{} {} nvlink {:.12f} GB/s{} from random\n",
                        gpu,
                        between(0, 1) == 0 ? "left" : "right",
                        gbps,
                        between(0, 2) == 0 ? fmt::format(" both {:.12f} GB/s", gbps * 3 / 2) : "");
  }
  text += fmt::format("link left right nvlink {} GB/s from random\n", between(10, 40));
  return *topology_from_text(text, "random.machine");
}

Scenario random_scenario(unsigned seed, double nudge = 0) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  while (true) {
    const int ranks = 2 + static_cast<int>(pick(7));
    const Collective collective = kCollectives[pick(kCollectives.size())];
    const auto rows = algorithms(collective);
    const Algorithm& row = rows[pick(rows.size())];
    const int root =
        is_rooted(collective) ? static_cast<int>(pick(static_cast<std::size_t>(ranks))) : 0;
    const Shape shape{.ranks = ranks, .root = root};
    if (collective == Collective::kBarrier || !row.refuses(shape).empty()) {
      continue;
    }
    auto schedule = make_schedule(row, shape);
    // The actors below know `after`, not scratch.
    if (!schedule.ok() || !schedule->scratch.empty()) {
      continue;
    }
    Strand strand = bind(std::make_shared<const Schedule>(std::move(*schedule)),
                         PathKind::kNvlink,
                         Protocol::kSlots,
                         2 + static_cast<int>(pick(3)),
                         Engine::kStream);
    strand.tile_bytes = std::int64_t{64} << (10 + pick(5));
    return {
        .machine = random_machine(random, ranks, nudge),
        .plan = {{std::move(strand)}},
        .bytes = 1'000'000 + static_cast<std::int64_t>(pick(3'000'000)),
        .what = fmt::format("seed {}: {} {} on {} ranks", seed, name(collective), row.name, ranks)};
  }
}

// Runs a scenario on SimGrid; once a process.
class Rival {
 public:
  explicit Rival(const Scenario& scenario)
      : strand_(scenario.plan.strands.front()),
        schedule_(*strand_.schedule),
        fabric_(*sim::Fabric::build(scenario.machine, {.ranks = schedule_.problem.ranks})) {
    const Problem& problem = schedule_.problem;
    const int blocks = is_cut(problem.collective) ? problem.cut : 1;
    for (int block = 0; block < blocks; ++block) {
      lengths_.push_back(block_range(problem, scenario.bytes, 1, block).length);
      tiles_ = std::max(tiles_, (lengths_.back() + strand_.tile_bytes - 1) / strand_.tile_bytes);
    }
  }

  double seconds() {
    build_platform();
    add_channels();
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      const auto& lanes = schedule_.ranks[static_cast<std::size_t>(rank)];
      for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane) {
        sg::Actor::create("lane", hosts_[static_cast<std::size_t>(rank)], [this, rank, lane] {
          run_lane(rank, lane);
        });
      }
    }
    sg::Engine::get_instance()->run();
    return end_;
  }

 private:
  using StepKey = std::pair<int, StepRef>;  // rank, step

  void build_platform() {
    sg::NetZone* zone = sg::create_full_zone("machine");
    std::vector<const sg::Link*> links;
    for (std::size_t r = 0; r < fabric_.capacities().size(); ++r) {
      links.push_back(zone->create_link(fmt::format("link{}", r), fabric_.capacities()[r] * 1e12)
                          ->set_latency(0)
                          ->seal());
    }
    const int ranks = schedule_.problem.ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      hosts_.push_back(zone->create_host(fmt::format("gpu{}", rank), 1e9)->seal());
    }
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (from == to) {
          continue;
        }
        std::vector<sg::LinkInRoute> route;
        for (const sim::Use& use : fabric_.route(from, to, PathKind::kNvlink)->put.uses) {
          route.emplace_back(links[static_cast<std::size_t>(use.resource)]);
        }
        zone->add_route(hosts_[static_cast<std::size_t>(from)]->get_netpoint(),
                        hosts_[static_cast<std::size_t>(to)]->get_netpoint(),
                        nullptr,
                        nullptr,
                        route,
                        false);
      }
    }
    zone->seal();
  }

  void add_channels() {
    for (const Channel& channel : schedule_.channels) {
      const auto c = full_.size();
      full_.emplace_back();
      free_.emplace_back();
      for (const LaneId reader : channel.readers) {
        full_.back()[reader.rank] = sg::Semaphore::create(0);
        free_.back()[reader.rank] =
            sg::Semaphore::create(static_cast<unsigned>(strand_.channels[c].slots));
      }
    }
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      for_each_step(rank, [&](StepRef at, const Step& step) {
        for (const StepRef earlier : step.after) {
          const auto edge = sg::Semaphore::create(0);
          awaits_[{rank, at}].push_back(edge);
          announces_[{rank, earlier}].push_back(edge);
        }
      });
    }
  }

  template <typename Visit>
  void for_each_step(int rank, Visit visit) const {
    const auto& lanes = schedule_.ranks[static_cast<std::size_t>(rank)];
    for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane) {
      const auto& steps = lanes[static_cast<std::size_t>(lane)].steps;
      for (int step = 0; step < static_cast<int>(steps.size()); ++step) {
        visit(StepRef{lane, step}, steps[static_cast<std::size_t>(step)]);
      }
    }
  }

  void run_lane(int rank, int lane) {
    const auto& steps =
        schedule_.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)].steps;
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
      for (int step = 0; step < static_cast<int>(steps.size()); ++step) {
        run_step(rank, {lane, step}, steps[static_cast<std::size_t>(step)], tile);
      }
    }
    end_ = std::max(end_, sg::Engine::get_clock());
  }

  void run_step(int rank, StepRef at, const Step& step, std::int64_t tile) {
    for (const auto& edge : awaits_[{rank, at}]) {
      edge->acquire();
    }
    for (const int channel : step.in) {
      full_[static_cast<std::size_t>(channel)][rank]->acquire();
    }
    for (const int channel : step.out) {
      for (const auto& [reader, slots] : free_[static_cast<std::size_t>(channel)]) {
        slots->acquire();
      }
    }
    if (!step.out.empty()) {
      sg::this_actor::sleep_for(kStartSeconds);
      send(rank, step, tile);
    }
    for (const int channel : step.out) {
      for (const auto& [reader, message] : full_[static_cast<std::size_t>(channel)]) {
        message->release();
      }
    }
    for (const int channel : step.in) {
      free_[static_cast<std::size_t>(channel)][rank]->release();
    }
    for (const auto& edge : announces_[{rank, at}]) {
      edge->release();
    }
  }

  void send(int rank, const Step& step, std::int64_t tile) {
    std::int64_t bytes = 0;
    for (const Block& block : step.to.empty() ? step.from : step.to) {
      const std::int64_t length =
          lengths_[lengths_.size() == 1 ? 0 : static_cast<std::size_t>(block.index)];
      bytes += std::clamp<std::int64_t>(length - tile * strand_.tile_bytes, 0, strand_.tile_bytes);
    }
    std::vector<sg::CommPtr> flows;
    for (const int channel : step.out) {
      for (const LaneId reader : schedule_.channels[static_cast<std::size_t>(channel)].readers) {
        if (bytes > 0) {
          flows.push_back(sg::Comm::sendto_async(hosts_[static_cast<std::size_t>(rank)],
                                                 hosts_[static_cast<std::size_t>(reader.rank)],
                                                 static_cast<std::uint64_t>(bytes)));
        }
      }
    }
    for (const sg::CommPtr& flow : flows) {
      flow->wait();
    }
  }

  const Strand& strand_;
  const Schedule& schedule_;
  sim::Fabric fabric_;
  std::vector<std::int64_t> lengths_;
  std::int64_t tiles_ = 1;
  std::vector<sg::Host*> hosts_;
  std::vector<std::map<int, sg::SemaphorePtr>> full_;  // by channel, by reading rank
  std::vector<std::map<int, sg::SemaphorePtr>> free_;
  std::map<StepKey, std::vector<sg::SemaphorePtr>> awaits_;
  std::map<StepKey, std::vector<sg::SemaphorePtr>> announces_;
  double end_ = 0;
};

// SimGrid's engine lives once in a process, so each scenario gets one.
double seconds_on_simgrid(const Scenario& scenario) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<std::string> words{"test",
                                   "--log=root.thres:error",
                                   "--cfg=network/model:CM02",
                                   "--cfg=network/latency-factor:1",
                                   "--cfg=network/bandwidth-factor:1",
                                   "--cfg=network/weight-S:0",
                                   "--cfg=network/crosstraffic:0",
                                   "--cfg=network/TCP-gamma:0",
                                   "--cfg=surf/precision:1e-12",
                                   "--cfg=maxmin/precision:1e-9"};
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    int count = static_cast<int>(arguments.size());
    const sg::Engine engine(&count, arguments.data());
    const double seconds = Rival(scenario).seconds();
    const bool written = ::write(ends[1], &seconds, sizeof(seconds)) == sizeof(seconds);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  double seconds = -1;
  EXPECT_EQ(::read(ends[0], &seconds, sizeof(seconds)), static_cast<ssize_t>(sizeof(seconds)))
      << scenario.what << ": SimGrid did not come to its end";
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return seconds;
}

double seconds_of(const Scenario& scenario) {
  const auto ours =
      simulate(scenario.plan, scenario.machine, {.count = scenario.bytes, .element_bytes = 1});
  EXPECT_TRUE(ours.ok()) << scenario.what << ": " << ours.status().message();
  return ours.ok() ? ours->seconds : 0;
}

// In some scenarios many flows end at nearly the same time, and what begins next depends on which
// was first. There links that are faster by a billionth change the time by far more than that, in
// both programs.
bool depends_on_rounding(unsigned seed, double seconds) {
  constexpr double kNoise = 1e-6;
  return std::ranges::any_of(std::array{1e-9, 2e-9, 4e-9, 8e-9}, [&](double nudge) {
    return std::abs(seconds_of(random_scenario(seed, nudge)) / seconds - 1) > kNoise;
  });
}

TEST(SimGrid, AgreesOnRandomSchedulesWithSharedLinks) {
  constexpr unsigned kScenarios = 60;
  int exact = 0;
  for (unsigned seed = 1; seed <= kScenarios; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const double ours = seconds_of(scenario);
    const double theirs = seconds_on_simgrid(scenario);
    const bool is_exact = !depends_on_rounding(seed, ours);
    EXPECT_NEAR(ours / theirs, 1, is_exact ? 1e-4 : 0.03) << scenario.what << " " << theirs;
    exact += is_exact ? 1 : 0;
  }
  EXPECT_GE(exact, 55);
}

}  // namespace
}  // namespace sennit
