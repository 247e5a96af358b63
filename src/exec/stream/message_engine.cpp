#include "exec/stream/message_engine.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

std::uint64_t* word(RankWords::Messages& words, int peer, int slot, int channel) {
  return &words[static_cast<std::size_t>(peer)][static_cast<std::size_t>(slot)]
               [static_cast<std::size_t>(channel)];
}

// Of whom the group takes something, in its order.
std::vector<int> senders_of(std::span<const Message> messages) {
  std::vector<int> senders;
  for (const Message& message : messages) {
    if (!message.program->pulls.empty() &&
        std::ranges::find(senders, message.peer) == senders.end()) {
      senders.push_back(message.peer);
    }
  }
  return senders;
}

}  // namespace

MessageEngine::MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank)
    : driver_(driver), words_(std::move(words)), rank_(rank), sides_(words_.size()) {}

Status MessageEngine::open() {
  for (std::size_t sender = 0; sender < sides_.size(); ++sender) {
    if (static_cast<int>(sender) != rank_) {
      SENNIT_ASSIGN_OR_RETURN(sides_[sender].stream, driver_.create_stream());
      SENNIT_ASSIGN_OR_RETURN(sides_[sender].event, driver_.create_event());
    }
  }
  SENNIT_ASSIGN_OR_RETURN(began_, driver_.create_event());
  return {};
}

MessageEngine::~MessageEngine() {
  for (const Side& side : sides_) {
    if (side.stream != nullptr) {
      (void)driver_.destroy_stream(side.stream);
    }
  }
  for (const Side& side : sides_) {
    if (side.event != nullptr) {
      (void)driver_.destroy_event(side.event);
    }
  }
  if (began_ != nullptr) {
    (void)driver_.destroy_event(began_);
  }
}

std::uint64_t* MessageEngine::ready(int reader, int sender, int slot, int channel) const {
  return word(words_of(reader).message_ready, sender, slot, channel);
}

std::uint64_t* MessageEngine::done(int sender, int reader, int slot, int channel) const {
  return word(words_of(sender).message_done, reader, slot, channel);
}

Status MessageEngine::run(const Group& group) {
  std::uint64_t* const running = &words_of(rank_).message_runs[static_cast<std::size_t>(group.run)];
  WordWalk walk(driver_, group.stream);
  walk.store(running, kRunning);
  for (const Message& message : group.messages) {
    for (const Offer& offer : message.program->offers) {
      walk.fill(ready(message.peer, rank_, message.slot, offer.channel));
    }
  }
  const std::vector<int> senders = senders_of(group.messages);
  // The user's stream takes what one rank sends, unless kernels have it.
  const bool has_room = !group.launch && !senders.empty();
  const std::span aside = std::span(senders).first(senders.size() - (has_room ? 1 : 0));
  if (!aside.empty()) {
    SENNIT_RETURN_IF_ERROR(walk.go());
    SENNIT_RETURN_IF_ERROR(driver_.record(began_, group.stream));
  }
  // Kernels first: what comes behind a wait in a device's only queue waits as well, but what comes
  // behind a kernel that runs does not.
  if (group.launch) {
    SENNIT_RETURN_IF_ERROR(walk.go());
    SENNIT_RETURN_IF_ERROR(group.launch());
  }
  SENNIT_RETURN_IF_ERROR(take_aside(group, aside));
  if (has_room) {
    SENNIT_RETURN_IF_ERROR(take_all_of(senders.back(), group, group.stream, walk));
  }
  for (const int sender : aside) {
    SENNIT_RETURN_IF_ERROR(walk.go());
    SENNIT_RETURN_IF_ERROR(
        driver_.wait_for(sides_[static_cast<std::size_t>(sender)].event, group.stream));
  }
  for (const Message& message : group.messages) {
    for (const Offer& offer : message.program->offers) {
      walk.consume(done(rank_, message.peer, message.slot, offer.channel));
    }
  }
  walk.store(running, kIdle);
  return walk.go();
}

Status MessageEngine::take_aside(const Group& group, std::span<const int> senders) {
  for (const int sender : senders) {
    const Side& side = sides_[static_cast<std::size_t>(sender)];
    SENNIT_RETURN_IF_ERROR(driver_.wait_for(began_, side.stream));
    WordWalk walk(driver_, side.stream);
    SENNIT_RETURN_IF_ERROR(take_all_of(sender, group, side.stream, walk));
    SENNIT_RETURN_IF_ERROR(walk.go());
    SENNIT_RETURN_IF_ERROR(driver_.record(side.event, side.stream));
  }
  return {};
}

Status MessageEngine::take_all_of(int sender,
                                  const Group& group,
                                  void* stream,
                                  WordWalk& walk) const {
  for (const Message& message : group.messages) {
    if (message.peer == sender) {
      SENNIT_RETURN_IF_ERROR(take(message, stream, walk));
    }
  }
  return {};
}

Status MessageEngine::take(const Message& message, void* stream, WordWalk& walk) const {
  for (const Pull& pull : message.program->pulls) {
    const Problem& problem = message.program->problem;
    const ElementRange from = block_range(problem, message.bytes, 1, pull.from.index);
    const ElementRange to = block_range(problem, message.bytes, 1, pull.to.index);
    walk.consume(ready(rank_, message.peer, message.slot, pull.channel));
    SENNIT_RETURN_IF_ERROR(walk.go());
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(message.output + to.begin,
                                              message.input + from.begin,
                                              static_cast<std::size_t>(to.length),
                                              stream));
    walk.fill(done(message.peer, rank_, message.slot, pull.channel));
  }
  return {};
}

}  // namespace sennit::stream
