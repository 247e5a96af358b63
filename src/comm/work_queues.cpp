#include "comm/work_queues.hpp"

#include <algorithm>

namespace sennit {
namespace {

bool is_message(const Work& work) { return work.operation.collective == Collective::kSendRecv; }

WorkQueues::PairKey pair_of(const Work& work) {
  return {work.operation.peer, work.operation.is_send};
}

}  // namespace

WorkQueues::Queue& WorkQueues::of(const Work& work) {
  return is_message(work) ? pairs[pair_of(work)] : collectives;
}

const Work* WorkQueues::first_of(const Work& work) const {
  if (!is_message(work)) {
    return collectives.empty() ? nullptr : collectives.front().get();
  }
  const auto pair = pairs.find(pair_of(work));
  return pair == pairs.end() ? nullptr : pair->second.front().get();
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
