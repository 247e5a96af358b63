// ChannelCounts: what the channels of a running plan hold, counted from both ends. A message is
// sent, then it has arrived, then a reader has taken it, then the writer knows that its slot is
// free.
#pragma once

#include <cstdint>
#include <vector>

namespace sennit::sim {

class ChannelCounts {
 public:
  struct Ends {
    std::int64_t slots = 0;
    int writer = 0;              // lane
    std::vector<int> readers{};  // lanes
    int paths = 1;               // of a bundle: more
  };
  // The number of the channel.
  int add(Ends ends);

  [[nodiscard]] int size() const { return static_cast<int>(channels_.size()); }
  [[nodiscard]] int writer(int channel) const { return of(channel).ends.writer; }
  [[nodiscard]] const std::vector<int>& readers(int channel) const {
    return of(channel).ends.readers;
  }

  // `reader` counts the channel's readers from 0.
  [[nodiscard]] bool has(int channel, int reader, std::int64_t messages) const;
  [[nodiscard]] bool has_room(int channel, std::int64_t messages) const;
  // The writer knows that all it has sent has been taken.
  [[nodiscard]] bool is_released(int channel) const;
  [[nodiscard]] std::int64_t sent(int channel) const { return of(channel).sent; }
  [[nodiscard]] std::int64_t taken(int channel, int reader) const {
    return of(channel).taken[static_cast<std::size_t>(reader)];
  }

  void send(int channel, std::int64_t messages) { of(channel).sent += messages; }
  void arrive(int channel, std::int64_t messages) { of(channel).arrived += messages; }
  void take(int channel, int reader, std::int64_t messages) {
    of(channel).taken[static_cast<std::size_t>(reader)] += messages;
  }
  // The writer knows that `reader` has taken so many from the beginning.
  void free(int channel, int reader, std::int64_t taken);

  // Of a bundle, each path of which has slots of its own: the path that a message takes, for as
  // long as it has a slot, and what the writer sees of a path.
  [[nodiscard]] bool is_bundle(int channel) const { return paths(channel) > 1; }
  [[nodiscard]] int paths(int channel) const { return of(channel).ends.paths; }
  [[nodiscard]] int path_of(int channel, std::int64_t message) const;
  // The message begins, and is under way.
  void set_path(int channel, std::int64_t message, int path);
  [[nodiscard]] bool has_room_on(int channel, int path, std::int64_t messages) const;
  [[nodiscard]] std::int64_t under_way(int channel, int path) const;
  [[nodiscard]] std::int64_t freed_on(int channel, int path) const {
    return of(channel).on_path[static_cast<std::size_t>(path)].freed;
  }

 private:
  struct OnPath {
    std::int64_t begun = 0;
    std::int64_t freed = 0;
  };
  struct Channel {
    Ends ends{};
    std::int64_t sent = 0;
    std::int64_t arrived = 0;
    std::vector<std::int64_t> taken{};   // by reader
    std::vector<std::int64_t> freed{};   // by reader
    std::vector<int> path_of_message{};  // by its number modulo the slots of all paths
    std::vector<OnPath> on_path{};       // of a bundle
  };

  [[nodiscard]] const Channel& of(int channel) const {
    return channels_[static_cast<std::size_t>(channel)];
  }
  Channel& of(int channel) { return channels_[static_cast<std::size_t>(channel)]; }

  std::vector<Channel> channels_;
};

}  // namespace sennit::sim
