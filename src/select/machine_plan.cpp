#include "select/machine_plan.hpp"

#include "select/pipeline_model.hpp"
#include "sim/fabric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace sennit {
namespace {

// The first that leads from writer to reader is taken.
constexpr std::array kByPreference = {PathKind::kDevice,
                                      PathKind::kNvlink,
                                      PathKind::kPcie,
                                      PathKind::kHost,
                                      PathKind::kRail,
                                      PathKind::kShm};

// Enough for the two halves of a staged path to overlap, with one in reserve for each.
constexpr int kSlots = 4;
constexpr std::int64_t kTileAlignBytes = 4096;

// A put into scratch would need a free word of its own: the slots of the channel do not say when
// the instance was last read. Output cells of different tiles are different memory.
bool lands_in_output(const Schedule& schedule, const Channel& channel, int number) {
  return std::ranges::all_of(channel.readers, [&](const LaneId& reader) {
    const Lane& lane =
        schedule
            .ranks[static_cast<std::size_t>(reader.rank)][static_cast<std::size_t>(reader.lane)];
    return std::ranges::all_of(lane.steps, [&](const Step& step) {
      return std::ranges::find(step.in, number) == step.in.end() ||
             std::ranges::all_of(step.to,
                                 [](const Block& block) { return block.space == Space::kOutput; });
    });
  });
}

class Binder {
 public:
  Binder(const MachinePlanRequest& request, sim::Fabric fabric)
      : request_(request), fabric_(std::move(fabric)) {}

  Result<Plan> run(const std::shared_ptr<const Schedule>& schedule) {
    const bool on_gpus =
        fabric_.topology()
            .vertices[static_cast<std::size_t>(fabric_.topology().devices().front())]
            .kind == VertexKind::kGpu;
    Strand strand = bind(schedule,
                         PathKind::kShm,
                         Protocol::kSlots,
                         kSlots,
                         on_gpus ? Engine::kStream : Engine::kCpu);
    for (std::size_t c = 0; c < strand.channels.size(); ++c) {
      SENNIT_RETURN_IF_ERROR(bind_channel(*schedule, static_cast<int>(c), strand.channels[c]));
      // A step of the simulator lasts until its message has come; a running one hands it to a card
      // and goes on. So there is a copy of the lanes for each card.
      strand.width = std::max(strand.width, static_cast<int>(strand.channels[c].paths.size()));
    }
    strand.tile_bytes = request_.tile_bytes > 0 ? request_.tile_bytes : best_tile(*schedule);
    return Plan{{std::move(strand)}};
  }

 private:
  // The slowest start and the narrowest wire that some reader of the channel is reached by.
  Status bind_channel(const Schedule& schedule, int number, ChannelBinding& binding) {
    const Channel& channel = schedule.channels[static_cast<std::size_t>(number)];
    const std::vector<Path> paths = common_paths(channel);
    if (paths.empty()) {
      return fail(Code::kInvalidArgument,
                  "machine {} has no path from rank {} to rank {}",
                  fabric_.topology().name,
                  channel.writer.rank,
                  channel.readers.front().rank);
    }
    binding.paths = paths;
    const sim::Route* route =
        fabric_.route(channel.writer.rank, channel.readers.front().rank, paths.front());
    if (paths.size() == 1 && !route->staged && is_stored_whole(schedule, number) &&
        lands_in_output(schedule, channel, number)) {
      binding.protocol = Protocol::kDirectPut;
    }
    const double start_s = fabric_.topology().cost(paths.front().kind).start_us * 1e-6;
    start_s_ = std::max(start_s_, start_s);
    for (const sim::Leg* leg : {&route->put, &route->fetch}) {
      for (const sim::Use& use : leg->uses) {
        constexpr double kPicosecondsPerSecond = 1e12;
        narrowest_ = std::min(narrowest_,
                              fabric_.capacities()[static_cast<std::size_t>(use.resource)] /
                                  use.weight * kPicosecondsPerSecond);
      }
    }
    return {};
  }

  std::vector<Path> common_paths(const Channel& channel) {
    const auto serves = [&](const Path& path) {
      return std::ranges::all_of(channel.readers, [&](const LaneId& reader) {
        return fabric_.route(channel.writer.rank, reader.rank, path) != nullptr;
      });
    };
    if (!request_.paths.empty() && std::ranges::all_of(request_.paths, serves)) {
      return request_.paths;
    }
    // Between nodes, cards that are named and are not there are a mistake.
    if (!request_.paths.empty() && request_.paths.front().card != Path::kReadersCard &&
        serves(PathKind::kRail)) {
      return {};
    }
    const auto found = std::ranges::find_if(kByPreference, serves);
    return found == kByPreference.end() ? std::vector<Path>() : std::vector<Path>{*found};
  }

  std::int64_t best_tile(const Schedule& schedule) {
    PipelineModel model = pipeline_model(schedule);
    model.start_s = start_s_;
    model.bytes_per_s = std::isfinite(narrowest_) ? narrowest_ : 1;
    const std::int64_t block = block_range(schedule.problem, request_.bytes, 1, 0).length;
    const double best = model.best_tile_bytes(static_cast<double>(block));
    const auto units = static_cast<std::int64_t>(std::ceil(best / kTileAlignBytes));
    return std::max<std::int64_t>(1, units) * kTileAlignBytes;
  }

  const MachinePlanRequest& request_;
  sim::Fabric fabric_;
  double start_s_ = 0;
  double narrowest_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Shape grouped(const Shape& shape, const Topology& machine, int ranks_per_device) {
  const std::vector<int> islands = machine.islands();
  const auto devices = static_cast<int>(islands.size());
  const bool one_node = shape.ranks <= devices * ranks_per_device;
  std::map<int, std::vector<int>> groups;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int device = rank / ranks_per_device;
    groups[one_node ? islands[static_cast<std::size_t>(device)] : device / devices].push_back(rank);
  }
  Shape result = shape;
  result.groups.clear();
  if (groups.size() > 1) {
    for (auto& [island, ranks] : groups) {
      result.groups.push_back(std::move(ranks));
    }
  }
  return result;
}

Result<Plan> plan_on_machine(const MachinePlanRequest& request, const Topology& machine) {
  SENNIT_ASSIGN_OR_RETURN(
      sim::Fabric fabric,
      sim::Fabric::build(
          machine, {.ranks = request.shape.ranks, .ranks_per_device = request.ranks_per_device}));
  SENNIT_ASSIGN_OR_RETURN(Schedule schedule, make_schedule(*request.algorithm, request.shape));
  return Binder(request, std::move(fabric))
      .run(std::make_shared<const Schedule>(std::move(schedule)));
}

}  // namespace sennit
