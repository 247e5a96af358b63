// Sends and recvs on GPU memory: those of one group that kernels run, and those of copy engines.
#include "comm/device/device_comm.hpp"

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

// The streams of the calls but that of the first, each once.
std::vector<void*> other_streams(std::span<const DeviceComm::Call> calls) {
  std::vector<void*> others;
  for (const DeviceComm::Call& call : calls) {
    if (call.stream != calls.front().stream &&
        std::ranges::find(others, call.stream) == others.end()) {
      others.push_back(call.stream);
    }
  }
  return others;
}

}  // namespace

// A send or recv on its way.
struct DeviceComm::MessagePlan {
  const Operation* operation = nullptr;
  void* stream = nullptr;
  MessageWay way{};
  std::optional<stream::Message> copies{};  // as both ends have decided; none: kernels run it

  [[nodiscard]] bool is_for_kernels() const { return way.plan_hash == 0; }
  // In place of a plan's hash: kernels of other packets would not meet.
  [[nodiscard]] std::uint64_t word_of_kernels() const {
    return way.put_hash != 0 ? way.put_hash : static_cast<std::uint64_t>(way.packets);
  }
  [[nodiscard]] CallWords words() const {
    return words_of(*operation, is_for_kernels() ? word_of_kernels() : way.plan_hash);
  }
  // What of it is for kernels, as has been decided.
  [[nodiscard]] sm::ByteRange range_of_kernels() const {
    const std::int64_t whole = operation->bytes();
    if (!copies) {
      return {.length = whole};
    }
    const std::optional<Portion>& portion = copies->program->of_kernels;
    const ElementRange part = portion ? portion->of(whole, /*element_bytes=*/1) : ElementRange{};
    return {.begin = part.begin, .length = part.length};
  }

  // Nothing else of the group goes from its sender to its receiver.
  static bool is_alone(const MessagePlan& plan, const std::vector<MessagePlan>& plans) {
    return std::ranges::count_if(plans, [&](const MessagePlan& other) {
             return other.operation->peer == plan.operation->peer &&
                    other.operation->is_send == plan.operation->is_send &&
                    other.operation->bytes() > 0;
           }) == 1;
  }

  // See stream::GroupId; of what is for copy engines.
  static std::uint32_t partners(const std::vector<MessagePlan>& plans, int rank) {
    std::uint32_t sent_to = 0;
    std::uint32_t received_from = 0;
    for (const MessagePlan& plan : plans) {
      if (!plan.is_for_kernels()) {
        (plan.operation->is_send ? sent_to : received_from) |= 1U << plan.operation->peer;
      }
    }
    return sent_to == received_from && sent_to != 0 ? sent_to | (1U << rank) : 0;
  }
};

Result<MessageWay> DeviceComm::find_way(const Operation& op) {
  DeviceFacts facts = facts_;
  facts.copy_engines = copy_engines_ != nullptr && op.peer != world_.rank();
  MessageWay way;
  SENNIT_ASSIGN_OR_RETURN(way.choice, choose(op, facts));
  const bool may_be_put = way.choice.protocol == Protocol::kDirectPut;
  if (may_be_put) {
    SENNIT_ASSIGN_OR_RETURN(const Putting* const putting,
                            find_putting(op, with_host_share(way.choice, 0)));
    way.put_hash = putting->plan_hash;
  }
  // Others carry it where the ends cannot agree about a buffer, or their ring.
  const bool by_packets = !may_be_put && leaves_rest_to_kernels(way.choice);
  way.packets =
      packets_of(by_packets ? way.choice.protocol : protocol_of_message(op.bytes(), facts_));
  if (!is_for_streams(way.choice)) {
    return way;
  }
  SENNIT_ASSIGN_OR_RETURN(
      const Copying* const copying,
      find_copying(op, facts.nvlink ? with_host_share(way.choice, 0) : way.choice));
  way.plan_hash = copying->plan_hash;
  return way;
}

Status DeviceComm::plan_message(const Call& call, MessagePlan& plan) {
  const Operation& op = call.operation;
  plan.operation = &op;
  plan.stream = call.stream;
  if (op.count == 0) {
    return {};
  }
  const bool is_own = op.peer == world_.rank();
  const MessageWay* known = ways_.find(op, is_own);
  if (known == nullptr) {
    SENNIT_ASSIGN_OR_RETURN(const MessageWay found, find_way(op));
    known = &ways_.keep(op, is_own, found);
  }
  plan.way = *known;
  return {};
}

Result<std::vector<DeviceComm::MessagePlan>> DeviceComm::plan_messages(
    std::span<const Call> calls) {
  static_assert(sm::kMaxPairCalls <= stream::kMaxMessages);
  if (calls.size() > sm::kMaxPairCalls) {
    return fail(Code::kUnsupported,
                "a group has {} sends and recvs; GPU ranks take up to {}",
                calls.size(),
                sm::kMaxPairCalls);
  }
  std::vector<MessagePlan> plans;
  plans.reserve(calls.size());
  for (const Call& call : calls) {
    SENNIT_RETURN_IF_ERROR(plan_message(call, plans.emplace_back()));
  }
  return plans;
}

// Before anything that waits, as collectives are announced.
void DeviceComm::log(int peer, bool is_send, const CallWords& words) {
  if (world_.size() > stream::kMaxRanks) {
    return;
  }
  MessageLine& line = world_.device_line(world_.rank()).messages[static_cast<std::size_t>(peer)];
  auto& log = is_send ? line.sent : line.received;
  log.enter(log.entered.load(std::memory_order_relaxed) + 1, words);
}

// A receiver lets its sender's copy engines put the message where that rank reaches the buffer.
void DeviceComm::agree_to_a_put(const MessagePlan& plan, MessageCopies::End& end) {
  const Operation& op = *plan.operation;
  if (message_puts_ == nullptr || plan.way.choice.engine != Engine::kStream ||
      plan.way.choice.protocol == Protocol::kSlots ||
      op.wishes.protocol == name(Protocol::kDirectGet)) {
    return;
  }
  end.may_be_put = true;
  if (!op.is_send) {
    end.there = message_puts_->address_at(op.peer,
                                          {.memory = static_cast<std::byte*>(op.recv),
                                           .bytes = op.bytes(),
                                           .takes_slow = op.wishes.name_a_way()});
  } else if (!end.is_capturing) {
    message_puts_->map_loan_of(op.peer);
  }
}

Result<MessageCopies::End> DeviceComm::end_of(const MessagePlan& plan,
                                              const stream::GroupId& group,
                                              bool is_alone) {
  const Operation& op = *plan.operation;
  MessageCopies::End end{.operation = op,
                         .words = plan.words(),
                         .host_share = plan.way.choice.host_share,
                         .dynamic_share = plan.way.choice.dynamic_share,
                         .shares_puts_alone = plan.way.choice.shares_puts_alone,
                         .is_alone = is_alone,
                         .leaves_rest = leaves_rest_to_kernels(plan.way.choice),
                         .program_of = nullptr,
                         .group = group,
                         .trouble = trouble_of(op)};
  end.program_of = [this,
                    &plan](const MessageCopies::Way& way) -> Result<const stream::PlanProgram*> {
    DeviceChoice choice = with_host_share(plan.way.choice, way.host_share);
    if (way.is_put) {
      choice.protocol = Protocol::kDirectPut;
    }
    SENNIT_ASSIGN_OR_RETURN(const Copying* const copying, find_copying(*plan.operation, choice));
    return &copying->program;
  };
  SENNIT_ASSIGN_OR_RETURN(end.is_capturing, driver_.is_capturing(plan.stream));
  agree_to_a_put(plan, end);
  return end;
}

// All that the group receives is posted, and all that it sends is offered, before any offer is
// waited for: the peers may be in groups that send to this rank.
Status DeviceComm::decide(std::vector<MessagePlan>& plans) {
  if (std::ranges::all_of(plans, &MessagePlan::is_for_kernels)) {
    return {};
  }
  const stream::GroupId group =
      copy_engines_->messages().next_group(MessagePlan::partners(plans, world_.rank()));
  struct Undecided {
    MessagePlan& plan;
    MessageCopies::End end;
  };
  std::vector<Undecided> sends;
  std::vector<Undecided> recvs;
  for (MessagePlan& plan : plans) {
    if (!plan.is_for_kernels()) {
      SENNIT_ASSIGN_OR_RETURN(MessageCopies::End end,
                              end_of(plan, group, MessagePlan::is_alone(plan, plans)));
      (plan.operation->is_send ? sends : recvs).push_back({plan, std::move(end)});
    }
  }
  for (const Undecided& recv : recvs) {
    copy_engines_->messages().post(recv.end);
  }
  for (Undecided& send : sends) {
    send.end.group_receives = !recvs.empty();
    SENNIT_ASSIGN_OR_RETURN(send.plan.copies, copy_engines_->messages().offer(send.end));
  }
  for (const Undecided& recv : recvs) {
    SENNIT_ASSIGN_OR_RETURN(recv.plan.copies, copy_engines_->messages().accept(recv.end));
  }
  return {};
}

// Together, in the stream of the first: sends and recvs that were posted together may need each
// other.
Status DeviceComm::messages(std::span<const Call> calls) {
  SENNIT_ASSIGN_OR_RETURN(std::vector<MessagePlan> plans, plan_messages(calls));
  for (const MessagePlan& plan : plans) {
    log(plan.operation->peer, plan.operation->is_send, plan.words());
  }
  Status status = decide(plans);
  if (status.ok()) {
    status = put_into_streams(plans, calls);
  }
  return status.ok() ? status : give_up(status);
}

Status DeviceComm::put_into_streams(const std::vector<MessagePlan>& plans,
                                    std::span<const Call> calls) {
  void* const stream = calls.front().stream;
  const std::vector<void*> others = other_streams(calls);
  SENNIT_RETURN_IF_ERROR(order_.join(others, stream));
  SENNIT_RETURN_IF_ERROR(order_.before(stream));
  const Status status = run_messages(plans, stream);
  // Also after a failure half way, as of collectives.
  const Status ordered = order_.after(stream);
  SENNIT_RETURN_IF_ERROR(status);
  SENNIT_RETURN_IF_ERROR(ordered);
  return order_.fork(stream, others);
}

Status DeviceComm::run_messages(const std::vector<MessagePlan>& plans, void* stream) {
  std::vector<KernelMessage> of_kernels;
  std::vector<stream::Message> of_copy_engines;
  of_kernels.reserve(plans.size());
  std::uint32_t first_deadline_ms = 0;
  for (const MessagePlan& plan : plans) {
    if (plan.copies) {
      of_copy_engines.push_back(*plan.copies);
      const std::uint32_t ms = deadline_ms(*plan.operation);
      if (ms != 0 && (first_deadline_ms == 0 || ms < first_deadline_ms)) {
        first_deadline_ms = ms;
      }
    }
    if (const sm::ByteRange range = plan.range_of_kernels(); range.length > 0) {
      of_kernels.push_back(
          {.operation = plan.operation,
           .peer = plan.operation->peer,
           .is_send = plan.operation->is_send,
           .range = range,
           .packets = plan.way.packets,
           .takes_part = plan.way.put_hash != 0,
           .fingerprint = fingerprint_of(words_of(*plan.operation, plan.word_of_kernels())),
           // A send and a recv fill a GPU.
           .block_limit = memory_->block_limit() / 2});
    }
  }
  const auto launch = [&] {
    return of_kernels.empty() ? Status() : launch_pairs(of_kernels, stream, Order::kLanes);
  };
  if (of_copy_engines.empty()) {
    return launch();
  }
  return copy_engines_->run({.messages = of_copy_engines,
                             .partners = MessagePlan::partners(plans, world_.rank()),
                             .launch = of_kernels.empty() ? std::function<Status()>() : launch,
                             .stream = stream,
                             .deadline_ms = first_deadline_ms});
}

void DeviceComm::expect_use_of(void* memory, std::size_t bytes) {
  if (message_puts_ == nullptr || !failure().ok()) {
    return;
  }
  const DeviceScope scope(driver_, device_);
  if (scope.status().ok()) {
    message_puts_->lend_to_all(static_cast<std::byte*>(memory), bytes);
  }
}

// In every call: who has registered memory waits for the others to have mapped it, and these may
// have nothing to send there yet.
void DeviceComm::keep_up_with_loans(std::span<const Call> calls) {
  if (message_puts_ == nullptr) {
    return;
  }
  message_puts_->keep_up();
  const auto may_be_captured = [&](const Call& call) {
    const Result<bool> is_capturing = driver_.is_capturing(call.stream);
    return !is_capturing.ok() || *is_capturing;
  };
  if (message_puts_->has_loans() && std::ranges::none_of(calls, may_be_captured)) {
    message_puts_->map_loans();
  }
}

}  // namespace sennit
