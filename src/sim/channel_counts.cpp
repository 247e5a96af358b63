#include "sim/channel_counts.hpp"

#include <algorithm>
#include <utility>

namespace sennit::sim {

int ChannelCounts::add(Ends ends) {
  Channel channel{.ends = std::move(ends)};
  channel.taken.resize(channel.ends.readers.size());
  channel.freed.resize(channel.ends.readers.size());
  if (channel.ends.paths > 1) {
    channel.path_of_message.resize(
        static_cast<std::size_t>(channel.ends.slots * channel.ends.paths));
    channel.on_path.resize(static_cast<std::size_t>(channel.ends.paths));
  }
  channels_.push_back(std::move(channel));
  return size() - 1;
}

bool ChannelCounts::has(int channel, int reader, std::int64_t messages) const {
  return of(channel).arrived - taken(channel, reader) >= messages;
}

bool ChannelCounts::has_room(int channel, std::int64_t messages) const {
  const Channel& here = of(channel);
  return here.sent + messages - *std::ranges::min_element(here.freed) <= here.ends.slots;
}

bool ChannelCounts::is_released(int channel) const {
  const Channel& here = of(channel);
  return *std::ranges::min_element(here.freed) == here.sent;
}

void ChannelCounts::free(int channel, int reader, std::int64_t taken) {
  Channel& here = of(channel);
  const std::int64_t before = *std::ranges::min_element(here.freed);
  here.freed[static_cast<std::size_t>(reader)] = taken;
  const std::int64_t after = *std::ranges::min_element(here.freed);
  for (std::int64_t message = before; message < after && is_bundle(channel); ++message) {
    ++here.on_path[static_cast<std::size_t>(path_of(channel, message))].freed;
  }
}

bool ChannelCounts::has_room_on(int channel, int path, std::int64_t messages) const {
  return under_way(channel, path) + messages <= of(channel).ends.slots;
}

std::int64_t ChannelCounts::under_way(int channel, int path) const {
  const OnPath& here = of(channel).on_path[static_cast<std::size_t>(path)];
  return here.begun - here.freed;
}

int ChannelCounts::path_of(int channel, std::int64_t message) const {
  const std::vector<int>& paths = of(channel).path_of_message;
  return paths[static_cast<std::size_t>(message) % paths.size()];
}

void ChannelCounts::set_path(int channel, std::int64_t message, int path) {
  Channel& here = of(channel);
  here.path_of_message[static_cast<std::size_t>(message) % here.path_of_message.size()] = path;
  ++here.on_path[static_cast<std::size_t>(path)].begun;
}

}  // namespace sennit::sim
