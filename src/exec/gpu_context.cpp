#include "exec/gpu_context.hpp"

#include "base/log.hpp"
#include "exec/row_norm_call.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/peer_launcher.hpp"
#include "exec/stream/copy_engines.hpp"
#include "memory/message_puts.hpp"
#include "select/packet_choice.hpp"
#include "world/call_ledger.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sennit {
namespace {

// What a message may hold that goes by Ll in one round.
std::int64_t round_bytes(const sm::FifoShape& shape) {
  return std::int64_t{shape.ll_blocks} * shape.ll_depth * sm::kWarps *
         sm::payload_bytes(sm::Packets::kLl);
}

// Messages between threads of one process were seen to hang with 8 hardware queues a device, and
// not with 16 and 32 (docs/decisions/0043-streams-that-share-queues.md).
constexpr int kQueuesForThreads = 32;

bool has_reach(const DeviceMemory& memory) {
  return memory.fifos().plan().place == FifoPlace::kDevice;
}

}  // namespace

Result<GpuOptions::CopyUse> parse_copy_engines(std::string_view text) {
  using CopyUse = GpuOptions::CopyUse;
  for (const auto& [word, value] : {std::pair("auto", CopyUse::kAuto),
                                    std::pair("on", CopyUse::kOn),
                                    std::pair("off", CopyUse::kOff)}) {
    if (text == word) {
      return value;
    }
  }
  return fail(Code::kInvalidArgument, "SENNIT_COPY_ENGINES is '{}'; it can be auto, on, off", text);
}

GpuContext::GpuContext() = default;
GpuContext::~GpuContext() = default;

Result<std::unique_ptr<GpuContext>> GpuContext::create(CudaDriver& driver,
                                                       int device,
                                                       World& world,
                                                       const GpuOptions& options,
                                                       const Exchange& exchange) {
  std::unique_ptr<GpuContext> context(new GpuContext());
  SENNIT_ASSIGN_OR_RETURN(context->memory_,
                          DeviceMemory::create(driver,
                                               {.device = device,
                                                .rank = world.rank(),
                                                .ranks = world.size(),
                                                .group = options.group,
                                                .may_use_nvlink = options.nvlink,
                                                .may_use_device = options.device},
                                               {.blocks = options.blocks,
                                                .groups_by = options.groups_by,
                                                .host = world.gpu_staging().fifos},
                                               exchange));
  context->ledger_ = std::make_unique<CallLedger>(world);
  context->kernels_ =
      std::make_unique<sm::Context>(sm::Context{.driver = driver,
                                                .world = world,
                                                .memory = *context->memory_,
                                                .facts = context->facts_,
                                                .ledger = *context->ledger_,
                                                .kernels = sm::KernelsOnDemand(driver)});
  context->launcher_ = std::make_unique<sm::PeerLauncher>(*context->kernels_);
  // No rank launches before all have loaded these, since loading waits for what runs: the exchange
  // of facts sees to that.
  SENNIT_RETURN_IF_ERROR(context->kernels_->kernels.load_movers());
  if (!context->memory_->has_a_process_each()) {
    SENNIT_RETURN_IF_ERROR(context->kernels_->kernels.load_reducers());
  }
  context->open_copy_engines(driver, world, options);
  SENNIT_RETURN_IF_ERROR(context->agree_on_facts(driver, device, world, options, exchange));
  return context;
}

Status GpuContext::normalise_rows(const Operation& operation, void* stream) {
  const RowNormCall norm = row_norm_call(operation);
  SENNIT_ASSIGN_OR_RETURN(const void* const kernel,
                          kernels_->kernels.normer(row_norm_kernel(operation.dtype), stream));
  return kernels_->driver.launch(
      kernel,
      {.blocks = static_cast<unsigned>(std::min(norm.row_count, kMostRowBlocks)),
       .threads = static_cast<unsigned>(row_threads(norm.row_bytes))},
      &norm,
      stream);
}

void GpuContext::open_copy_engines(CudaDriver& driver, World& world, const GpuOptions& options) {
  const bool wanted = options.copy_engines == GpuOptions::CopyUse::kOn ||
                      (options.copy_engines == GpuOptions::CopyUse::kAuto &&
                       memory_->has_a_process_each() && world.size() > 1);
  if (!wanted) {
    return;
  }
  auto opened = CopyEngines::create(driver, *memory_, world, options.copies_by_kernel);
  if (opened.ok()) {
    copy_engines_ = std::move(opened).value();
  } else {
    SENNIT_INFO("device", "no copy engines: {}", opened.status().message());
  }
}

Status GpuContext::agree_on_facts(CudaDriver& driver,
                                  int device,
                                  World& world,
                                  const GpuOptions& options,
                                  const Exchange& exchange) {
  struct Able {
    bool to_use_copy_engines;
    bool to_copy_messages;
    bool to_map_buffers;
    std::ptrdiff_t profile;  // of its GPU, among gpu_profiles()
  };
  SENNIT_ASSIGN_OR_RETURN(const CudaDevice gpu, driver.describe(device));
  const GpuModel model{.name = gpu.name, .compute_capability = gpu.compute_capability};
  const int needed_queues = memory_->has_a_process_each() ? kDefaultQueues : kQueuesForThreads;
  const bool has_queues = driver.queues() >= needed_queues;
  if (copy_engines_ != nullptr && !has_queues) {
    SENNIT_INFO("device",
                "copy engines run sends and recvs only where a call asks for them: "
                "CUDA_DEVICE_MAX_CONNECTIONS is {}, not {} or more",
                driver.queues(),
                needed_queues);
  }
  const Able mine{.to_use_copy_engines = copy_engines_ != nullptr,
                  .to_copy_messages = has_queues,
                  // Control blocks have room for so many.
                  .to_map_buffers = has_reach(*memory_) && world.size() <= stream::kMaxRanks &&
                                    options.copy_engines != GpuOptions::CopyUse::kOff,
                  .profile = &profile_for(model) - gpu_profiles().data()};
  std::vector<Able> all(static_cast<std::size_t>(world.size()));
  SENNIT_RETURN_IF_ERROR(exchange(&mine, all.data(), sizeof(Able)));
  if (!std::ranges::all_of(all, &Able::to_use_copy_engines)) {
    copy_engines_.reset();
  }
  if (std::ranges::all_of(all, &Able::to_map_buffers)) {
    message_puts_ = std::make_unique<MessagePuts>(driver, *memory_, world);
    kernels_->message_puts = message_puts_.get();
  }
  own_profile_ = options.profile;
  const GpuProfile& profile =
      own_profile_ ? *own_profile_ : gpu_profiles()[static_cast<std::size_t>(all.front().profile)];
  if (!own_profile_ && !is_measured_on(profile, model)) {
    SENNIT_INFO("device",
                "calls are chosen by GPU profile {} ({}), since none was measured on {}; "
                "SENNIT_GPU_PROFILE can name a file with another",
                profile.name,
                profile.measured_on,
                gpu.name);
  }
  facts_ = {.copy_engines = copy_engines_ != nullptr,
            .reach = has_reach(*memory_),
            .why_no_reach = memory_->fifos().why_not_on_devices(),
            .gpus = memory_->gpus().by_rank,
            .reproducible = options.reproducible,
            .groups = memory_->peer_groups(),
            .ll_call_bytes = round_bytes(memory_->shape()),
            .ll_send_bytes =
                std::min(round_bytes(memory_->pair_shape()), ll_send_bytes(profile, world.size())),
            .host_slots = world.gpu_staging().shape.slots,
            .host_share = options.host_share,
            .dynamic_share = options.dynamic_share,
            .is_pair = world.size() == 2,
            .sharing = memory_->gpus().sharing,
            .copies_messages = std::ranges::all_of(all, &Able::to_copy_messages),
            .offers = message_puts_ != nullptr,
            .profile = &profile};
  return {};
}

}  // namespace sennit
