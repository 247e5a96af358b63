#include "comm/device/message_groups.hpp"

#include "comm/own_messages.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/peer_launcher.hpp"
#include "exec/stream/copy_engines.hpp"
#include "select/copy_choice.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace sennit {
namespace {

using Message = MessageGroups::Message;

// Up to so many bytes packets of the rank to itself take less time than a further copy, 7 us of the
// host.
constexpr std::int64_t kShortOwnBytes = std::int64_t{128} << 10;

Result<std::vector<OwnMessage>> own_messages(std::span<const GpuCall> calls, int rank) {
  std::vector<OwnEnd> ends;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].operation.peer == rank) {
      ends.push_back({.operation = &calls[i].operation, .place = i});
    }
  }
  return pair_own_messages(ends);
}

// Nothing else of the group goes from its sender to its receiver.
bool is_alone(const Message& message, const std::vector<Message>& messages) {
  return std::ranges::count_if(messages, [&](const Message& other) {
           return other.operation().peer == message.operation().peer &&
                  other.operation().is_send == message.operation().is_send &&
                  other.operation().bytes() > 0;
         }) == 1;
}

}  // namespace

// In place of a plan's hash: kernels of other packets would not meet.
std::uint64_t Message::word_of_kernels() const {
  return choice.put_hash != 0 ? choice.put_hash : static_cast<std::uint64_t>(choice.packets);
}

CallWords Message::words() const {
  return words_of(operation(), is_for_kernels() ? word_of_kernels() : choice.plan_hash);
}

// What kernels carry, as has been decided.
sm::ByteRange Message::range_of_kernels() const {
  const std::int64_t whole = operation().bytes();
  if (!copies) {
    return {.length = whole};
  }
  const std::optional<Portion>& portion = copies->program->of_kernels;
  const ElementRange part = portion ? portion->of(whole, /*element_bytes=*/1) : ElementRange{};
  return {.begin = part.begin, .length = part.length};
}

// See stream::GroupId; of what is for copy engines.
std::uint32_t MessageGroups::partners(const std::vector<Message>& messages) const {
  std::uint32_t sent_to = 0;
  std::uint32_t received_from = 0;
  for (const Message& message : messages) {
    if (!message.is_for_kernels()) {
      (message.operation().is_send ? sent_to : received_from) |= 1U << message.operation().peer;
    }
  }
  return sent_to == received_from && sent_to != 0 ? sent_to | (1U << rank_) : 0;
}

Result<MessageChoice> MessageGroups::choose(const Operation& op) const {
  const DeviceFacts& facts = context_.facts();
  Means means = Means::of(facts);
  CallRequest request = op.request;
  if (op.peer == rank_) {
    means = without(means, Lack::kCopyEngines);  // a rank has no other end to decide with
    if (request == CallRequest() && facts.reach && means.one_sided && op.bytes() > kShortOwnBytes) {
      request.protocol = name(Protocol::kDirectPut);  // no packet has a wire to fill
    }
  }
  MessageChoice found;
  SENNIT_ASSIGN_OR_RETURN(
      found.choice,
      choose_for_devices(op.collective, {.ranks = 2}, op.bytes(), request, facts, means));
  const DeviceChoice& choice = found.choice;
  const bool may_be_put = choice.protocol == Protocol::kDirectPut;
  if (may_be_put) {
    SENNIT_ASSIGN_OR_RETURN(const Executable* const put,
                            executables_.find(op, with_host_share(choice, 0)));
    found.put_hash = put->hash();
  }
  // Others carry it where the ends cannot agree about a buffer, or their ring.
  const bool by_packets = !may_be_put && leaves_rest_to_kernels(choice);
  found.packets =
      sm::packets_of(by_packets ? choice.protocol : protocol_of_message(op.bytes(), facts), facts);
  if (choice.engine != Engine::kStream && choice.host_share == 0) {
    return found;
  }
  SENNIT_ASSIGN_OR_RETURN(
      const Executables::Copies copies,
      executables_.find_copies(op, facts.reach ? with_host_share(choice, 0) : choice));
  found.plan_hash = copies.hash;
  return found;
}

// Programs send the same again and again. Good until the next one.
Result<const MessageChoice*> MessageGroups::known_choice(const Operation& op) {
  const bool is_own = op.peer == rank_;
  const MessageChoice* known = choices_.find(op, is_own);
  if (known == nullptr) {
    SENNIT_ASSIGN_OR_RETURN(const MessageChoice found, choose(op));
    known = &choices_.keep(op, is_own, found);
  }
  return known;
}

// In the kernel of messages with other ranks, which takes no further launch: straight from buffer
// to buffer, or a short one by packets. Who requests copy engines, or a path, gets a copy: there is
// no way from a rank to itself.
Result<bool> MessageGroups::goes_with_others(const Operation& own) {
  if (!own.request.path.empty() || requests_copies(Collective::kSendRecv, own.request)) {
    return false;
  }
  SENNIT_ASSIGN_OR_RETURN(const MessageChoice* const choice, known_choice(own));
  return choice->put_hash != 0 || own.bytes() <= kShortOwnBytes;
}

Result<MessageGroups::Group> MessageGroups::plan(std::span<const GpuCall> calls) {
  static_assert(sm::kMaxPairCalls <= stream::kMaxMessages);
  SENNIT_ASSIGN_OR_RETURN(const std::vector<OwnMessage> own, own_messages(calls, rank_));
  std::size_t message_count = calls.size() - 2 * own.size();
  const bool has_others = message_count > 0;
  Group group;
  std::vector<bool> is_copied(calls.size());
  for (const OwnMessage& message : own) {
    const Operation& send = calls[message.send].operation;
    bool goes_along = has_others && send.count > 0 && message_count + 2 <= sm::kMaxPairCalls;
    if (goes_along) {
      SENNIT_ASSIGN_OR_RETURN(goes_along, goes_with_others(send));
    }
    if (goes_along) {
      message_count += 2;
      continue;
    }
    is_copied[message.send] = is_copied[message.recv] = true;
    group.copies.push_back({.from = send.send,
                            .to = calls[message.recv].operation.recv,
                            .bytes = static_cast<std::size_t>(send.bytes())});
  }
  if (message_count > sm::kMaxPairCalls) {
    return fail(Code::kUnsupported,
                "a group has {} sends and recvs; GPU ranks take up to {}",
                message_count,
                sm::kMaxPairCalls);
  }
  group.messages.reserve(message_count);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (is_copied[i]) {
      continue;
    }
    Message& message = group.messages.emplace_back(calls[i]);
    if (message.operation().count > 0) {
      SENNIT_ASSIGN_OR_RETURN(const MessageChoice* const choice, known_choice(message.operation()));
      message.choice = *choice;
    }
  }
  return group;
}

// A receiver lets its sender's copy engines put the message where that rank reaches the buffer.
void MessageGroups::agree_to_a_put(const Message& message, MessageCopies::End& end) {
  const Operation& op = message.operation();
  const DeviceChoice& choice = message.choice.choice;
  MessagePuts* const buffers = context_.message_puts();
  if (buffers == nullptr || choice.engine != Engine::kStream ||
      choice.protocol == Protocol::kSlots || op.request.protocol == name(Protocol::kDirectGet)) {
    return;
  }
  end.may_be_put = true;
  if (!op.is_send) {
    end.there = buffers->address_at(op.peer,
                                    {.memory = static_cast<std::byte*>(op.recv),
                                     .bytes = op.bytes(),
                                     .takes_slow = op.request.name_a_way()});
  } else if (!end.is_capturing) {
    buffers->map_buffer_of(op.peer);
  }
}

Result<MessageCopies::End> MessageGroups::end_of(const Message& message,
                                                 const stream::GroupId& group,
                                                 bool is_alone_in_group) {
  const Operation& op = message.operation();
  const DeviceChoice& choice = message.choice.choice;
  MessageCopies::End end{.operation = op,
                         .words = message.words(),
                         .host_share = choice.host_share,
                         .dynamic_share = choice.dynamic_share,
                         .shares_puts_alone = choice.shares_puts_alone,
                         .is_alone = is_alone_in_group,
                         .leaves_rest = leaves_rest_to_kernels(choice),
                         .program_of = nullptr,
                         .group = group,
                         .trouble = message.call.guard.trouble_of(op)};
  end.program_of = [this,
                    &message](const MessageCopies::Way& way) -> Result<const stream::PlanProgram*> {
    DeviceChoice decided = with_host_share(message.choice.choice, way.host_share);
    if (way.is_put) {
      decided.protocol = Protocol::kDirectPut;
    }
    SENNIT_ASSIGN_OR_RETURN(const Executables::Copies copies,
                            executables_.find_copies(message.operation(), decided));
    return copies.program;
  };
  SENNIT_ASSIGN_OR_RETURN(end.is_capturing, driver_.is_capturing(message.call.stream));
  agree_to_a_put(message, end);
  return end;
}

// All that the group receives is posted, and all that it sends is offered, before any offer is
// waited for: the peers may be in groups that send to this rank.
Status MessageGroups::agree(std::vector<Message>& messages) {
  for (const Message& message : messages) {
    context_.ledger().report_message(
        message.operation().peer, message.operation().is_send, message.words());
  }
  if (std::ranges::all_of(messages, &Message::is_for_kernels)) {
    return {};
  }
  MessageCopies& copies = context_.copy_engines()->messages();
  const stream::GroupId group = copies.next_group(partners(messages));
  struct Undecided {
    Message& message;
    MessageCopies::End end;
  };
  std::vector<Undecided> sends;
  std::vector<Undecided> recvs;
  for (Message& message : messages) {
    if (!message.is_for_kernels()) {
      SENNIT_ASSIGN_OR_RETURN(MessageCopies::End end,
                              end_of(message, group, is_alone(message, messages)));
      (message.operation().is_send ? sends : recvs).push_back({message, std::move(end)});
    }
  }
  for (const Undecided& recv : recvs) {
    copies.post(recv.end);
  }
  for (Undecided& send : sends) {
    send.end.group_receives = !recvs.empty();
    SENNIT_ASSIGN_OR_RETURN(send.message.copies, copies.offer(send.end));
  }
  for (const Undecided& recv : recvs) {
    SENNIT_ASSIGN_OR_RETURN(recv.message.copies, copies.accept(recv.end));
  }
  return {};
}

Status MessageGroups::enqueue(const Group& group, void* stream) {
  for (const OwnCopy& copy : group.copies) {
    if (copy.bytes > 0 && copy.from != copy.to) {
      SENNIT_RETURN_IF_ERROR(driver_.copy_async(copy.to, copy.from, copy.bytes, stream));
    }
  }
  return enqueue_messages(group.messages, stream);
}

Status MessageGroups::enqueue_messages(const std::vector<Message>& messages, void* stream) {
  std::vector<KernelMessage> of_kernels;
  std::vector<stream::Message> of_copy_engines;
  of_kernels.reserve(messages.size());
  std::uint32_t first_deadline_ms = 0;
  for (const Message& message : messages) {
    const Operation& op = message.operation();
    if (message.copies) {
      of_copy_engines.push_back(*message.copies);
      const std::uint32_t ms = message.call.deadline_ms();
      if (ms != 0 && (first_deadline_ms == 0 || ms < first_deadline_ms)) {
        first_deadline_ms = ms;
      }
    }
    if (const sm::ByteRange range = message.range_of_kernels(); range.length > 0) {
      of_kernels.push_back(
          {.operation = &op,
           .peer = op.peer,
           .is_send = op.is_send,
           .range = range,
           .packets = message.choice.packets,
           .takes_part = message.choice.put_hash != 0,
           .fingerprint = fingerprint_of(words_of(op, message.word_of_kernels())),
           .deadline_ns = message.call.deadline_ns(),
           .block_limit = context_.kernels().limits.within(op.request).blocks_of_send()});
    }
  }
  const auto launch = [&] {
    return of_kernels.empty()
               ? Status()
               : context_.launcher().launch(of_kernels, stream, sm::PeerLauncher::Order::kLanes);
  };
  if (of_copy_engines.empty()) {
    return launch();
  }
  return context_.copy_engines()->run(
      {.messages = of_copy_engines,
       .partners = partners(messages),
       .launch = of_kernels.empty() ? std::function<Status()>() : launch,
       .stream = stream,
       .deadline_ms = first_deadline_ms});
}

}  // namespace sennit
