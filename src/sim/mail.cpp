#include "sim/mail.hpp"

#include <algorithm>
#include <utility>

namespace sennit::sim {

int Mail::add(Ends ends) {
  Channel channel{.ends = std::move(ends)};
  channel.taken.resize(channel.ends.readers.size());
  channel.freed.resize(channel.ends.readers.size());
  if (channel.ends.is_bundle) {
    channel.path_of_message.resize(static_cast<std::size_t>(channel.ends.slots));
  }
  channels_.push_back(std::move(channel));
  return size() - 1;
}

bool Mail::has(int channel, int reader, std::int64_t messages) const {
  return of(channel).arrived - taken(channel, reader) >= messages;
}

bool Mail::has_room(int channel, std::int64_t messages) const {
  const Channel& here = of(channel);
  return here.sent + messages - *std::ranges::min_element(here.freed) <= here.ends.slots;
}

bool Mail::is_released(int channel) const {
  const Channel& here = of(channel);
  return *std::ranges::min_element(here.freed) == here.sent;
}

int Mail::path_of(int channel, std::int64_t message) const {
  const std::vector<int>& paths = of(channel).path_of_message;
  return paths[static_cast<std::size_t>(message) % paths.size()];
}

void Mail::set_path(int channel, std::int64_t message, int path) {
  std::vector<int>& paths = of(channel).path_of_message;
  paths[static_cast<std::size_t>(message) % paths.size()] = path;
}

}  // namespace sennit::sim
