#include "exec/stream/message_engine.hpp"

#include "exec/stream/message_operations.hpp"

#include <utility>

namespace sennit::stream {
namespace {

// Where the memory of each message lies, by its place in the group.
struct Places {
  explicit Places(std::span<const Message> messages) {
    inputs.reserve(messages.size());
    outputs.reserve(messages.size());
    rings.reserve(messages.size());
    watches.reserve(messages.size());
    for (const Message& message : messages) {
      inputs.push_back(const_cast<std::byte*>(message.input));  // is only read
      outputs.push_back(message.output);
      rings.push_back(message.ring);
      watches.push_back(message.watch);
    }
  }

  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> rings;
  std::vector<Stopwatch*> watches;
};

}  // namespace

MessageEngine::MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank)
    : rank_(rank), player_(driver, std::move(words)) {}

Status MessageEngine::open() { return player_.reserve(message_streams(ranks())); }

Status MessageEngine::use_slots(const host::RingShape& shape) {
  SENNIT_RETURN_IF_ERROR(player_.reserve(message_streams_with_slots(ranks())));
  ring_ = shape;
  return {};
}

Status MessageEngine::run(const Group& group) {
  list_.clear();
  append_group({.rank = rank_,
                .ranks = ranks(),
                .messages = group.messages,
                .partners = group.partners,
                .has_kernels = static_cast<bool>(group.launch),
                .is_captured = group.is_captured,
                .ring = ring_,
                .number = group.number,
                .deadline_ms = group.deadline_ms},
               list_);
  const Places places(group.messages);
  return player_.play(list_,
                      {.memories = {places.inputs, places.outputs, {}, places.rings},
                       .launch = group.launch,
                       .watches = places.watches},
                      group.stream);
}

}  // namespace sennit::stream
