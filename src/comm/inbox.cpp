#include "comm/inbox.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace sennit {

std::optional<NextMessage> next_message(const World& world, int peer) {
  const auto& received = world.message_log(world.rank(), peer).received;
  NextMessage next{.number = received.ended.load(std::memory_order_relaxed) + 1};
  const bool has_begun = world.message_log(peer, world.rank()).sent.calls.read(next.number, next.words);
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
  const bool is_on_node = op.peer == kAnyRank ? world_.nodes() == 1 : world_.is_local(op.peer);
  return is_on_node ? Status()
                    : fail(Code::kUnsupported,
                           "{} is between nodes, where there are no tags and no recvs from any "
                           "rank: name the peer, and make the calls in one order on both ranks",
                           name_of(op));
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
