#include "comm/communicator.hpp"

#include "base/log.hpp"
#include "comm/allowed_paths.hpp"
#include "comm/call_codec.hpp"
#include "comm/rail_cards.hpp"
#include "comm/tuning_file.hpp"
#include "memory/fifo_plan.hpp"
#include "path/rail/greetings.hpp"
#include "sennit/sennit.h"
#include "world/nodes/nodes.hpp"
#include "world/rendezvous/join_request.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>
#include <utility>

namespace sennit {
namespace {

// A setting may come from a variable or from the program's config, and the reader may not know
// which.
template <typename Parsed>
Result<Parsed> setting(const char* variable, Result<Parsed> parsed) {
  if (parsed.ok()) {
    return parsed;
  }
  return fail(parsed.status().code(), "{} or the config: {}", variable, parsed.status().message());
}

// Slots shrink with the number of ranks, so that rings between all pairs stay below some hundred
// megabytes when every one of them is used. Over nodes, messages of less make a card slower.
std::int64_t default_slot_bytes(int ranks, int nodes) {
  if (ranks <= (nodes > 1 ? 64 : 4)) {
    return 64 * 1024;
  }
  return ranks <= 16 ? 32 * 1024 : ranks <= 64 ? 16 * 1024 : 4 * 1024;
}

constexpr int kDefaultSlots = 4;

constexpr int kMostPaths = static_cast<int>(kMaxBundlePaths);

// What GPUs may want is address space; it becomes memory when it is wanted.
World::Layout layout_for(int ranks,
                         int nodes,
                         const CommConfig& config,
                         const AllowedPaths& paths) {
  World::Layout layout;
  // Send and recv have ports of their own, between nodes for as many cards as they may take.
  const bool may_bundle = nodes > 1 && 2 * static_cast<std::size_t>(ranks) <= rail::kMostRoutes;
  layout.rings = {.ranks = ranks,
                  .ports = config.ports + (may_bundle ? kMostPaths : 1),
                  .slots = static_cast<std::uint32_t>(config.slots),
                  .slot_bytes = static_cast<std::size_t>(config.slot_bytes != 0
                                                             ? config.slot_bytes
                                                             : default_slot_bytes(ranks, nodes))};
  if (config.device != "host" && paths.host) {
    if (ranks <= stream::kMaxRanks) {
      layout.host_rings = config.host_rings(ranks);
    }
    layout.fifo_bytes_a_rank =
        FifoPlan::make(FifoPlace::kHost, ranks, config.device_blocks).bytes();
  }
  return layout;
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::create(const Identity& identity,
                                                           const CommConfig& config,
                                                           const JoinInterruption& interruption) {
  CommConfig full = config;
  full.slots = full.slots != 0 ? full.slots : kDefaultSlots;
  if (full.ports < 1 || full.ports > 1024 || full.slots < 1 || full.slots > 4096 ||
      (full.slot_bytes != 0 && full.slot_bytes < 1024) ||
      full.slot_bytes > (std::int64_t{1} << 30)) {
    return fail(Code::kInvalidArgument,
                "ports must lie in 1..1024, slots in 1..4096 and slot_bytes in 1K..1G; they are "
                "{}, {} and {}",
                full.ports,
                full.slots,
                full.slot_bytes);
  }
  if (full.device_blocks < 1 || full.device_blocks > CommConfig::kMostDeviceBlocks) {
    return fail(Code::kInvalidArgument,
                "device_blocks must lie in 1..{}; it is {}",
                CommConfig::kMostDeviceBlocks,
                full.device_blocks);
  }
  if (std::isnan(full.deadline_s)) {
    return fail(Code::kInvalidArgument, "the deadline is no number of seconds");
  }
  if (!(full.first_warning_s > 0) || !(full.idle.after_s >= 0)) {
    return fail(Code::kInvalidArgument,
                "first_warning_s has to be positive and idle_after_s not negative; they "
                "are {} and {}",
                full.first_warning_s,
                full.idle.after_s);
  }
  const bool has_device = full.device != "host";
  SENNIT_ASSIGN_OR_RETURN(const AllowedPaths paths,
                          setting("SENNIT_PATHS", parse_paths(full.paths, has_device)));
  SENNIT_ASSIGN_OR_RETURN(const PathChoice path_choice,
                          setting("SENNIT_PATH_POLICY", parse_path_choice(full.path_policy)));
  SENNIT_ASSIGN_OR_RETURN(CodecRules codec_rules,
                          setting("SENNIT_CODEC", CodecRules::parse(full.codec)));
  SENNIT_ASSIGN_OR_RETURN(const auto table, load_tuning_table(full.tuning_table));
  SENNIT_ASSIGN_OR_RETURN(const auto profile, load_gpu_profile(full.gpu_profile));
  const auto layout_on = [&](int nodes) { return layout_for(identity.size, nodes, full, paths); };
  std::unique_ptr<rail::MirroredRings> rails;
  const JoinOptions options{.timeout_s = full.join_timeout_s,
                            .settings = full.settings(table ? table->hash() : "none",
                                                      profile ? profile->hash : "built in"),
                            .segment_bytes = World::segment_bytes(layout_on(1)),
                            .segment_bytes_over_nodes = World::segment_bytes(layout_on(2)),
                            .interruption = progressing(interruption),
                            .rail_address = [&] {
                              rails = make_rails(identity.rank, identity.size, full.gpu_bus_id);
                              return rails ? rails->introduction().text() : std::string();
                            }};
  SENNIT_ASSIGN_OR_RETURN(Membership membership, join_world(identity, options));
  const World::Layout layout = layout_on(membership.nodes);
  std::shared_ptr<Communicator> comm(
      new Communicator(std::move(membership), std::move(full), layout));
  comm->facts_.sharing = path_choice.sharing;
  comm->facts_.table = table;
  comm->path_policy_ = path_choice.policy;
  comm->codec_rules_ = std::move(codec_rules);
  SENNIT_RETURN_IF_ERROR(comm->open_rails(std::move(rails), layout.rings));
  if (const auto links = comm->world_.take_links()) {
    comm->star_ = std::make_unique<ControlStar>(comm->world_, links);
  }
  SENNIT_RETURN_IF_ERROR(comm->greet_peers(interruption));
  SENNIT_RETURN_IF_ERROR(comm->probe_memory(paths));
  return comm;
}

Communicator::Communicator(Membership membership, CommConfig config, const World::Layout& layout)
    : config_(std::move(config)), world_(std::move(membership), layout) {
  facts_.slots = layout.rings.slots;
  facts_.slot_bytes = layout.rings.slot_bytes;
  calls_.inbox().use([this](const Operation& operation) { return make_work(operation); });
}

Communicator::~Communicator() {
  finalize();
  if (calls_.is_inherited()) {
    // NOLINTNEXTLINE(bugprone-unused-return-value): cards and connections are the parent's
    static_cast<void>(rails_.release());
  }
}

// Every rank tries to read a word of every other and all learn whether all could, so that they make
// the same plans. Where the system forbids it, path cma stays closed and one line says so.
Status Communicator::probe_memory(const AllowedPaths& paths) {
  facts_.shm = paths.shm;
  SENNIT_ASSIGN_OR_RETURN(facts_.cma, world_.probe_memory(paths.cma, config_.join_timeout_s));
  if (paths.cma && !facts_.cma && rank() == 0) {
    SENNIT_INFO("comm",
                "path cma is closed: the system forbids process_vm_readv between these ranks");
  }
  if (rank() == 0) {
    SENNIT_INFO(
        "comm",
        "communicator '{}': version {}.{}.{}, {} ranks, paths{}{}, {} slots of {} bytes a "
        "channel, {}",
        config_.name,
        SENNIT_VERSION_MAJOR,
        SENNIT_VERSION_MINOR,
        SENNIT_VERSION_PATCH,
        size(),
        facts_.shm ? " shm" : "",
        facts_.cma ? " cma" : "",
        facts_.slots,
        facts_.slot_bytes,
        facts_.table ? "choices by tuning table " + config_.tuning_table : "no tuning table");
  }
  plans_ = std::make_unique<PlanCache>(
      world_.host_rank(), facts_, config_.ports, world_.nodes_of_ranks());
  return {};
}

// Rails are there if all ranks brought theirs, so that all make the same plans.
Status Communicator::open_rails(std::unique_ptr<rail::MirroredRings> rails,
                                const shm::RingGeometry& geometry) {
  HostRank& host = world_.host_rank();
  host.nodes = world_.nodes_of_ranks();
  std::vector<std::string> introductions;
  for (int peer = 0; peer < size(); ++peer) {
    const std::string& text = world_.member(peer).rail_address;
    if (rails == nullptr || host.nodes.empty() || text.empty()) {
      return {};
    }
    introductions.push_back(text);
  }
  SENNIT_RETURN_IF_ERROR(rails->open(
      std::make_unique<PoolRings>(host.rank, host.rings),
      {.ports = geometry.ports, .slots = geometry.slots, .slot_bytes = geometry.slot_bytes},
      introductions,
      host.nodes));
  std::map<int, int> places;  // the next on each node
  for (int peer = 0; peer < size(); ++peer) {
    const int place = places[host.nodes[static_cast<std::size_t>(peer)]]++;
    host.rails_to.push_back(rails->rail_to(peer, config_.first_place + place));
  }
  SENNIT_ASSIGN_OR_RETURN(const auto all, rail::parse_introductions(introductions));
  facts_.why_no_cards = rail::why_no_bundles(all);
  if (facts_.why_no_cards.empty()) {
    facts_.cards = rails->cards().size();
    // Messages to a GPU rank take the cards nearest to its GPU.
    const bool have_gpus = !config_.gpu_bus_id.empty() || config_.first_place > 0;
    const int ranks = std::ranges::max(places | std::views::values);
    facts_.cards_a_rank = have_gpus ? 1 : std::clamp(facts_.cards / ranks, 1, kMostPaths);
  }
  rails_ = std::move(rails);
  host.rails = rails_.get();
  calls_.use(rails_.get());
  return {};
}

// Before the ranks wait for each other in probe_memory(), where nobody carries rails on.
Status Communicator::greet_peers(const JoinInterruption& interruption) {
  if (rails_ == nullptr) {
    return {};
  }
  const auto begin = Clock::now();
  const auto check = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(interruption.reason ? interruption.reason() : Status());
    std::vector<int> dead = world_.peers().dead();
    return dead.empty() ? Status()
                        : join_failure(Code::kRankFailed,
                                       fmt::format("{} died", rank_list(dead)),
                                       dead,
                                       world_.peers().describe(dead.front()),
                                       {});
  };
  const Status status = rail::exchange_greetings(*rails_,
                                                 {.rails_to = world_.host_rank().rails_to,
                                                  .timeout_s = config_.join_timeout_s,
                                                  .check = check});
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  return status.ok() ? status : describe_join_failure(world_.identity(), status, elapsed.count());
}

Status Communicator::check_process() const {
  return !calls_.is_inherited() ? Status()
                                : fail(Code::kInvalidUsage,
                                       "communicator '{}' was made before this process was "
                                       "forked; only the parent may use it",
                                       config_.name);
}

Status Communicator::check(const Operation& op) {
  SENNIT_RETURN_IF_ERROR(check_process());
  if (!failure().ok()) {
    return failure();
  }
  if (finalized_) {
    return fail(
        Code::kInvalidUsage, "{} on communicator '{}' after finalize", name_of(op), config_.name);
  }
  if (op.collective == Collective::kSendRecv && op.peer == rank()) {
    return fail(Code::kInvalidArgument,
                "peer {} is rank {} itself; put the send and its recv into one group",
                op.peer,
                rank());
  }
  SENNIT_RETURN_IF_ERROR(check_arguments(op, rank(), size()));
  const bool needs_inbox = op.tag != 0 || op.peer == kAnyRank;
  return needs_inbox ? calls_.inbox().check(op) : Status();
}

Result<std::shared_ptr<Work>> Communicator::prepare(const Operation& operation) {
  SENNIT_RETURN_IF_ERROR(check(operation));
  return make_work(operation);
}

Result<std::shared_ptr<Work>> Communicator::make_work(const Operation& operation) {
  auto work = std::make_shared<Work>();
  work->operation = operation;
  SENNIT_ASSIGN_OR_RETURN(work->program, find_program(operation));
  const Program& program = work->program->program();
  work->words = words_of(operation, program.plan_hash, codec_of(*program.plan));
  work->call = {
      .input = operation.send,
      .output = operation.recv,
      .count = operation.count,
      .dtype = operation.dtype,
      .op = operation.op,
      .scaling = {.scalar = operation.scaling.scalar,
                  .ranks = operation.averaged_over > 0 ? operation.averaged_over : size()},
      .fingerprint = fingerprint_of(work->words),
      .path_policy = path_policy_,
      .inputs = work->operation.inputs,
      .outputs = work->operation.outputs};
  if (operation.varying) {
    work->counts = pair_counts(operation, rank(), size());
  }
  learn(*work);
  return work;
}

Result<const BoundProgram*> Communicator::find_program(const Operation& operation) {
  const bool pair = operation.collective == Collective::kSendRecv;
  // A message from any rank has the plan of one from any other; its program is bound later.
  const int peer = operation.peer == kAnyRank ? (rank() == 0 ? 1 : 0) : operation.peer;
  const bool reduces = is_reduction(operation.collective);
  CallRequest request = operation.request;
  const bool reproducible = request.rank_order || config_.reproducible;
  request.rank_order = reduces && reproducible;
  SENNIT_ASSIGN_OR_RETURN(const CallCodec codec,
                          call_codec(operation, codec_rules_, config_.name, reproducible));
  request.codec = codec.codec ? name(*codec.codec) : "";
  const ScaledParts scaled{.contributions = reduces && scales_contributions(operation.op),
                           .sums = reduces && finishes_sum(operation.op)};
  const PlanRequest wanted{.collective = operation.collective,
                           .root = is_rooted(operation.collective) ? operation.root : 0,
                           .bytes = known_bytes(operation),
                           .peer = pair ? peer : -1,
                           .role = pair ? (operation.is_send ? 0 : 1) : -1,
                           .varying = operation.varying,
                           .request = std::move(request),
                           .codec_is_by_rule = codec.is_by_rule,
                           .scaled = scaled};
  return plans_->find(wanted);
}

void Communicator::abort() {
  calls_.abort();
  // A failed rank's line goes on telling why it failed.
  if (world_.my_line().state.load(std::memory_order_acquire) != RankState::kFailed) {
    world_.my_line().fail(Code::kAborted, -1);
  }
  world_.sound_alarm();
}

void Communicator::finalize() {
  // As in abort().
  RankState active = RankState::kActive;
  finalized_ = true;
  if (!calls_.is_inherited()) {
    const bool was_active =
        world_.my_line().state.compare_exchange_strong(active, RankState::kFinalized);
    if (was_active && calls_.is_idle() && rails_ != nullptr) {
      rails_->say_bye();
    }
    world_.sound_alarm();
  }
}

std::string Communicator::name_split(std::uint64_t call) const {
  return fmt::format("{}/split/{}", world_.identity().key, call);
}

std::string Communicator::name_shrink() {
  return fmt::format("{}/shrink/{}", world_.identity().key, ++shrinks_);
}

}  // namespace sennit
