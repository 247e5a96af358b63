#include "comm/inbox.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <set>

namespace sennit {

std::optional<NextMessage> next_message(const World& world, int peer) {
  const auto& received = world.message_log(world.rank(), peer).received;
  NextMessage next{.number = received.ended.load(std::memory_order_relaxed) + 1};
  const bool has_begun =
      world.message_log(peer, world.rank()).sent.calls.read(next.number, next.words);
  return has_begun ? std::optional(next) : std::nullopt;
}

bool Inbox::knows(int peer) const {
  return peer != world_.rank() && world_.is_local(peer) && slots_ <= MessageLog::kMostSlots;
}

Status Inbox::check(const Operation& op) const {
  if (slots_ > MessageLog::kMostSlots) {
    return fail(Code::kUnsupported,
                "tags and recvs from any rank need at most {} slots (SENNIT_SLOTS), here are {}",
                MessageLog::kMostSlots,
                slots_);
  }
  const bool is_from_any = op.peer == kAnyRank;
  if (is_from_any ? world_.nodes() == 1 : world_.is_local(op.peer)) {
    return {};
  }
  return fail(Code::kUnsupported,
              "tags and recvs from any rank are for ranks of one node, and {}; name the peer, and "
              "make sends and recvs in one order on both ranks",
              is_from_any ? std::string("here are several nodes")
                          : fmt::format("rank {} is on another one", op.peer));
}

std::shared_ptr<Work> Inbox::match(int peer) {
  const auto running = queues_.pairs.find(WorkQueues::recv_from(peer));
  const bool is_busy = running != queues_.pairs.end() && !running->second.empty() &&
                       running->second.front()->is_matched;
  if (is_busy || !knows(peer)) {
    return nullptr;
  }
  const std::optional<NextMessage> next = next_message(world_, peer);
  std::shared_ptr<Work> recv = next ? find_recv(peer, next->words) : nullptr;
  if (recv == nullptr) {
    return nullptr;
  }
  WorkQueues::Queue& queue = queues_.pairs[WorkQueues::recv_from(peer)];
  if (!queue.empty()) {
    queue.front()->job.reset();  // nothing has moved there
  }
  queue.push_front(recv);
  recv->is_matched = true;
  recv->status = bind(*recv, peer);
  return recv;
}

std::shared_ptr<Work> Inbox::match_any() {
  for (int i = 0; i < world_.size(); ++i) {
    const int peer = (turn_ + i) % world_.size();
    if (std::shared_ptr<Work> recv = match(peer)) {
      turn_ = (peer + 1) % world_.size();
      return recv;
    }
  }
  return nullptr;
}

// Of a message without a recv those behind it may be waited for.
std::shared_ptr<Work> Inbox::find_recv(int peer, const CallWords& words) {
  if (std::shared_ptr<Work> recv = queues_.take_recv(peer, words.tag)) {
    return recv;
  }
  const auto of_peer = queues_.pairs.find(WorkQueues::recv_from(peer));
  const bool is_waited_for = of_peer != queues_.pairs.end() && !of_peer->second.empty();
  const auto& waiting =
      is_waited_for ? of_peer->second : queues_.pairs.at(WorkQueues::recv_from(kAnyRank));
  return new_recv(peer, words, *waiting.front());
}

// Null where count and type do not say how the message is sent: its call has options of its own.
std::shared_ptr<Work> Inbox::new_recv(int peer, const CallWords& words, const Work& waiting) {
  const Result<Dtype> dtype = dtype_from_value(static_cast<int>(words.dtype));
  if (!dtype.ok()) {
    return nullptr;
  }
  Operation operation;
  operation.collective = Collective::kSendRecv;
  operation.count = static_cast<std::int64_t>(words.count);
  operation.dtype = *dtype;
  operation.peer = peer;
  operation.tag = words.tag;
  const Result<std::shared_ptr<Work>> prepared = prepare_(operation);
  if (!prepared.ok() || (*prepared)->words != words) {
    return nullptr;
  }
  const std::shared_ptr<Work>& work = *prepared;
  const auto bytes = static_cast<std::size_t>(operation.bytes());
  work->parked.reset(new (std::nothrow) std::byte[std::max<std::size_t>(bytes, 1)]);
  work->operation.recv = work->call.output = work->parked.get();
  work->posted = waiting.posted;
  work->deadline = waiting.deadline;
  work->next_look = waiting.next_look;
  work->look_interval = waiting.look_interval;
  work->next_warning = waiting.next_warning;
  return work->parked != nullptr ? work : nullptr;
}

// A recv from any rank becomes one from `peer`.
Status Inbox::bind(Work& recv, int peer) {
  if (recv.operation.peer != kAnyRank) {
    return {};
  }
  recv.operation.peer = peer;
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<Work> bound, prepare_(recv.operation));
  recv.program = bound->program;
  return {};
}

std::shared_ptr<Work> Inbox::take_recv_for(const std::shared_ptr<Work>& message) {
  const Operation& operation = message->operation;
  std::shared_ptr<Work> recv = queues_.take_recv(operation.peer, operation.tag);
  if (recv == nullptr) {
    parked_.push_back(message);
  }
  return recv;
}

std::optional<Verdict> Inbox::copy(const Work& message, const Work& recv) const {
  const Operation& from = message.operation;
  if (recv.words != message.words) {
    world_.message_log(world_.rank(), from.peer)
        .received.calls.replace(message.message, recv.words);  // for its sender to see
    return different_message(world_,
                             {.from = from.peer, .to = world_.rank(), .number = message.message},
                             message.words,
                             recv.words);
  }
  if (from.count > 0) {
    std::memcpy(recv.operation.recv, message.parked.get(), static_cast<std::size_t>(from.bytes()));
  }
  return std::nullopt;
}

std::shared_ptr<Work> Inbox::take(const Work& recv) {
  const auto found = std::ranges::find_if(parked_, [&](const auto& message) {
    return recv.takes_from(message->operation.peer, message->operation.tag);
  });
  if (found == parked_.end()) {
    return nullptr;
  }
  std::shared_ptr<Work> message = *found;
  parked_.erase(found);
  return message;
}

std::string Inbox::describe_parked(int peer) const {
  std::set<std::int32_t> tags;
  std::size_t count = 0;
  for (const std::shared_ptr<Work>& message : parked_) {
    if (peer == kAnyRank || message->operation.peer == peer) {
      tags.insert(message->operation.tag);
      ++count;
    }
  }
  return count == 0 ? std::string()
                    : fmt::format("; {} message{} from {} with tag{} {} wait{} for a recv",
                                  count,
                                  count == 1 ? "" : "s",
                                  peer == kAnyRank ? "other ranks" : fmt::format("rank {}", peer),
                                  tags.size() == 1 ? "" : "s",
                                  fmt::join(tags, ", "),
                                  count == 1 ? "s" : "");
}

}  // namespace sennit
