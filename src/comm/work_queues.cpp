#include "comm/work_queues.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sennit {
namespace {

WorkQueues::PairKey pair_of(const Work& work) {
  return {.is_recv = !work.operation.is_send, .peer = work.operation.peer};
}

}  // namespace

WorkQueues::Queue& WorkQueues::of(const Work& work) {
  if (!work.is_message()) {
    return collectives;
  }
  const PairKey key = pair_of(work);
  const auto known = pairs.find(key);
  if (known != pairs.end() || spare.empty()) {
    return known != pairs.end() ? known->second : pairs[key];
  }
  spare.key() = key;
  return pairs.insert(std::move(spare)).position->second;
}

WorkQueues::Pairs::iterator WorkQueues::erase(Pairs::iterator pair) {
  const auto next = std::next(pair);
  spare = pairs.extract(pair);
  return next;
}

const Work* WorkQueues::first_of(const Work& work) const {
  if (!work.is_message()) {
    return collectives.empty() ? nullptr : collectives.front().get();
  }
  const auto pair = pairs.find(pair_of(work));
  return pair == pairs.end() ? nullptr : pair->second.front().get();
}

std::shared_ptr<Work> WorkQueues::take_recv(int peer, std::int32_t tag) {
  auto queue = pairs.end();
  Queue::iterator first;
  for (const int from : {peer, kAnyRank}) {
    const auto pair = pairs.find(recv_from(from));
    if (pair == pairs.end()) {
      continue;
    }
    const auto found = std::ranges::find_if(
        pair->second, [&](const auto& recv) { return recv->takes_from(peer, tag); });
    if (found != pair->second.end() &&
        (queue == pairs.end() || (*found)->order < (*first)->order)) {
      queue = pair;
      first = found;
    }
  }
  if (queue == pairs.end()) {
    return nullptr;
  }
  std::shared_ptr<Work> recv = *first;
  queue->second.erase(first);
  // Others are looked through while this is called.
  if (queue->second.empty() && queue->first.peer == kAnyRank) {
    erase(queue);
  }
  return recv;
}

std::vector<std::shared_ptr<Work>> WorkQueues::running() const {
  std::vector<std::shared_ptr<Work>> found;
  if (!collectives.empty()) {
    found.push_back(collectives.front());
  }
  for (const auto& [key, queue] : pairs) {
    if (!queue.empty()) {
      found.push_back(queue.front());
    }
  }
  return found;
}

std::shared_ptr<Work> WorkQueues::outstanding() const {
  if (!collectives.empty()) {
    return collectives.back();
  }
  return pairs.empty() ? nullptr : pairs.begin()->second.back();
}

Clock::time_point WorkQueues::next_look() const {
  Clock::time_point next = Clock::time_point::max();
  const auto add = [&](const Queue& queue) {
    next = queue.empty() ? next : std::min(next, queue.front()->next_look);
  };
  add(collectives);
  for (const auto& [key, queue] : pairs) {
    add(queue);
  }
  return next;
}

}  // namespace sennit
