// The calls of a DeviceComm that go by copy engines.
#include "base/log.hpp"
#include "comm/device/device_comm.hpp"
#include "select/packet_choice.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sennit {
namespace {

// What a message may hold that goes by Ll in one round.
std::int64_t round_bytes(const sm::ArenaShape& shape) {
  return std::int64_t{shape.ll_blocks} * shape.ll_depth * sm::kWarps *
         sm::payload_bytes(sm::Packets::kLl);
}

}  // namespace

Result<DeviceComm::Options::CopyUse> parse_copy_engines(std::string_view text) {
  using CopyUse = DeviceComm::Options::CopyUse;
  for (const auto& [word, value] : {std::pair("auto", CopyUse::kAuto),
                                    std::pair("on", CopyUse::kOn),
                                    std::pair("off", CopyUse::kOff)}) {
    if (text == word) {
      return value;
    }
  }
  return fail(Code::kInvalidArgument, "SENNIT_COPY_ENGINES is '{}'; it can be auto, on, off", text);
}

// No rank launches before all have loaded their kernels, since loading waits for running ones: the
// exchange sees to that, too.
Status DeviceComm::open_copy_engines(const Exchange& exchange) {
  const bool wanted = options_.copy_engines == Options::CopyUse::kOn ||
                      (options_.copy_engines == Options::CopyUse::kAuto &&
                       memory_->has_a_process_each() && world_.size() > 1);
  if (wanted) {
    auto opened = CopyEngines::create(driver_, *memory_, world_, options_.copies_by_kernel);
    if (opened.ok()) {
      copy_engines_ = std::move(opened).value();
    } else {
      SENNIT_INFO("device", "no copy engines: {}", opened.status().message());
    }
  }
  struct Means {
    bool copy_engines;
    bool copies_messages;
    bool offers;
  };
  const bool has_nvlink = memory_->arenas().plan().place == ArenaPlace::kDevice;
  const bool has_queues = driver_.queues() >= kDefaultQueues;
  if (copy_engines_ != nullptr && !has_queues) {
    SENNIT_INFO("device",
                "copy engines run sends and recvs by wish alone: CUDA_DEVICE_MAX_CONNECTIONS is {}",
                driver_.queues());
  }
  const Means mine{.copy_engines = copy_engines_ != nullptr,
                   .copies_messages = has_queues,
                   // They have lines for so many.
                   .offers = has_nvlink && world_.size() <= stream::kMaxRanks &&
                             options_.copy_engines != Options::CopyUse::kOff};
  std::vector<Means> all(static_cast<std::size_t>(world_.size()));
  SENNIT_RETURN_IF_ERROR(exchange(&mine, all.data(), sizeof(Means)));
  if (!std::ranges::all_of(all, &Means::copy_engines)) {
    copy_engines_.reset();
  }
  if (std::ranges::all_of(all, &Means::offers)) {
    message_puts_ = std::make_unique<MessagePuts>(driver_, *memory_, world_);
  }
  facts_ = {
      .copy_engines = copy_engines_ != nullptr,
      .nvlink = has_nvlink,
      .why_no_nvlink = memory_->arenas().why_not_on_devices(),
      .reproducible = options_.reproducible,
      .groups = memory_->near_groups(),
      .ll_call_bytes = round_bytes(memory_->shape()),
      .ll_send_bytes = std::min(round_bytes(memory_->pair_shape()), ll_send_bytes(world_.size())),
      .host_slots = world_.host_ring_shape().slots,
      .host_share = options_.host_share,
      .dynamic_share = options_.dynamic_share,
      .is_pair = world_.size() == 2,
      .shares_devices = !memory_->has_a_device_each(),
      .copies_from_bytes = options_.copies_from_bytes,
      .folds_from_bytes = options_.folds_from_bytes,
      .copies_messages = std::ranges::all_of(all, &Means::copies_messages),
      .messages_from_bytes = options_.messages_from_bytes,
      .offers = message_puts_ != nullptr,
      .puts_from_bytes = options_.puts_from_bytes,
      .message_puts_from_bytes = options_.message_puts_from_bytes};
  return {};
}

Result<const DeviceComm::Copying*> DeviceComm::find_copying(const Operation& operation,
                                                            const DeviceChoice& choice) {
  const Key key = key_of(operation, choice);
  if (const auto known = copyings_.find(key); known != copyings_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const Proved proved, prove(operation, choice));
  // As every rank, so that all refuse alike what one of them could not run.
  stream::PlanProgram program;
  for (int place = 0; place < proved.plan->problem().ranks; ++place) {
    SENNIT_ASSIGN_OR_RETURN(stream::PlanProgram compiled,
                            stream::compile_plan(*proved.plan, place));
    if (place == key.place) {
      program = std::move(compiled);
    }
  }
  return &copyings_.emplace(key, Copying{std::move(program), plan_hash(*proved.plan)})
              .first->second;
}

// What waits of this call ask now and then: why they are in vain. They end before it does.
std::function<Status()> DeviceComm::trouble_of(const Operation& operation) {
  return [this, &operation, begin = Clock::now()]() -> Status {
    const double deadline_s = deadline_of(operation);
    if (deadline_s > 0 && Clock::now() - begin > std::chrono::duration<double>(deadline_s)) {
      return told(operation.collective == Collective::kSendRecv ? explain_absence_of(operation)
                                                                : explain_absence());
    }
    return look();
  };
}

bool DeviceComm::is_for_streams(const DeviceChoice& choice) {
  return choice.engine == Engine::kStream || choice.host_share > 0;
}

Result<DeviceChoice> DeviceComm::choose_kernel(const Operation& operation) const {
  const bool is_for_slots = operation.wishes.protocol == name(Protocol::kSlots) && !facts_.nvlink;
  if (!operation.wishes.protocol.empty() && !is_for_slots) {
    return fail(
        Code::kUnsupported,
        "{} cannot go by {}: on some rank others do not reach the buffers, or they are new while "
        "a stream captures, or the call is in place where it may not be (docs/gpu.md). Wish for no "
        "protocol, and packets will carry it",
        name(operation.collective),
        operation.wishes.protocol);
  }
  DeviceFacts facts = facts_;
  facts.copy_engines = false;
  facts.offers = false;
  const Result<DeviceChoice> choice = choose(operation, facts);
  return choice.ok() ? choice
                     : fail(Code::kUnsupported,
                            "{}: the buffers of some rank are out of others' reach, or the call is "
                            "in place where it may not be, and {}",
                            name(operation.collective),
                            choice.status().message());
}

Result<bool> DeviceComm::copy(const Call& call, DeviceChoice choice) {
  const auto trouble = trouble_of(call.operation);
  SENNIT_ASSIGN_OR_RETURN(const Copying* copying, find_copying(call.operation, choice));
  announce(call.operation, copying->plan_hash);
  if (choice.host_share > 0) {
    const Result<bool> rings = copy_engines_->open_rings(call.stream, trouble);
    if (!rings.ok()) {
      return give_up(rings.status());
    }
    if (!*rings) {
      DeviceFacts facts = facts_;
      facts.host_slots = 0;
      SENNIT_ASSIGN_OR_RETURN(choice, choose(call.operation, facts));
      if (!is_for_streams(choice)) {
        return false;
      }
      const Result<const Copying*> other = find_copying(call.operation, choice);
      if (!other.ok()) {
        return give_up(other.status());
      }
      copying = *other;
    }
  }
  Result<bool> copied = copy_engines_->run({.operation = call.operation,
                                            .program = copying->program,
                                            .stream = call.stream,
                                            .deadline_ms = deadline_ms(call.operation),
                                            .trouble = trouble});
  if (!copied.ok()) {
    return give_up(copied.status());
  }
  return copied;
}

}  // namespace sennit
