// PlainRings: one node's memory of rings, and traffic over them.
#pragma once

#include "path/rail/mirrored_rings.hpp"

#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace sennit::rail {

// MirroredRings::Needs.
inline bool everybody(int /*peer*/) { return true; }
inline bool nobody(int /*peer*/) { return false; }

class PlainRings final : public RingMemory {
 public:
  PlainRings(int ranks, const RingGeometry& geometry)
      : geometry_(geometry),
        words_(static_cast<std::size_t>(ranks * 2 * geometry.ports) * 2 * geometry.slots),
        payloads_(words_.size() / 2 * geometry.slot_bytes),
        tags_(words_.size() / 2) {}

  [[nodiscard]] channel::Word& full(const RingName& ring, std::uint64_t position) const override {
    return words_[2 * index(ring, position)];
  }
  [[nodiscard]] channel::Word& free(const RingName& ring, std::uint64_t position) const override {
    return words_[2 * index(ring, position) + 1];
  }
  [[nodiscard]] std::byte* payload(const RingName& ring,
                                   std::uint64_t position,
                                   std::size_t /*bytes*/) const override {
    return payloads_.data() + index(ring, position) * geometry_.slot_bytes;
  }
  [[nodiscard]] std::uint64_t& tag(const RingName& ring, std::uint64_t position) const override {
    return tags_[index(ring, position)];
  }

  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all = payloads_;
    const auto words = std::as_bytes(std::span(words_));
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

 private:
  [[nodiscard]] std::size_t index(const RingName& ring, std::uint64_t position) const {
    const int number = (ring.peer * 2 + (ring.outgoing ? 1 : 0)) * geometry_.ports + ring.port;
    return static_cast<std::size_t>(number) * geometry_.slots + position % geometry_.slots;
  }

  RingGeometry geometry_;
  mutable std::vector<channel::Word> words_;
  mutable std::vector<std::byte> payloads_;
  mutable std::vector<std::uint64_t> tags_;
};

// `messages` on every ring from and to every other rank, of all sizes up to a slot's.
class RingTraffic {
 public:
  struct Options {
    RingGeometry geometry;
    int rank = 0;
    int ranks = 1;
    int rails = 1;
    std::uint64_t messages = 1;
  };

  RingTraffic(MirroredRings& rings, PlainRings& memory, const Options& options)
      : rings_(rings), memory_(memory), options_(options) {}

  // Empty, or what went wrong.
  std::string run() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool is_done = false;
    while (!is_done || !rings_.flush(nobody)) {
      bool moved = false;
      is_done = true;
      for (int peer = 0; peer < options_.ranks; ++peer) {
        for (int port = 0; port < options_.geometry.ports && peer != options_.rank; ++port) {
          moved = write(peer, port) || moved;
          moved = read(peer, port) || moved;
          is_done = is_done && sent_[{peer, port}] == options_.messages &&
                    is_all_sent(peer, port) && received_[{peer, port}] == options_.messages;
        }
      }
      rings_.progress();
      if (!wrong_.empty()) {
        return wrong_;
      }
      if (!rings_.failure(everybody).ok()) {
        return rings_.failure(everybody).message();
      }
      if (std::chrono::steady_clock::now() > end) {
        return in_vain();
      }
      if (!moved) {
        rings_.sleep(bell_, std::chrono::milliseconds(1), [] { return false; });
      }
    }
    return {};
  }

 private:
  static constexpr std::uint32_t kFingerprint = 4711;

  [[nodiscard]] std::size_t bytes_of(std::uint64_t position, int port) const {
    return (position * 977 + static_cast<std::size_t>(port) * 31) %
           (options_.geometry.slot_bytes + 1);
  }
  static std::byte value(int writer, int reader, int port, std::uint64_t position) {
    return static_cast<std::byte>(static_cast<std::uint64_t>(writer * 7 + reader * 31 + port * 3) +
                                  position * 13);
  }
  // As the reader's place says, as in a plan.
  [[nodiscard]] int rail_to(int reader) const { return reader % options_.rails; }

  // What is missing.
  std::string in_vain() {
    std::string text = fmt::format(
        "rank {} waits in vain; it is flushed: {}", options_.rank, rings_.flush(nobody));
    for (const auto& [ring, position] : sent_) {
      text += fmt::format("; to {} by port {}: {} sent, all have left: {}",
                          ring.first,
                          ring.second,
                          position,
                          is_all_sent(ring.first, ring.second));
    }
    for (const auto& [ring, position] : received_) {
      text += fmt::format("; from {} by port {}: {}", ring.first, ring.second, position);
    }
    return text;
  }

  bool is_all_sent(int peer, int port) {
    for (std::uint64_t position = 0; position < options_.geometry.slots; ++position) {
      if (!rings_.is_sent(peer, port, position)) {
        return false;
      }
    }
    return true;
  }

  bool write(int peer, int port) {
    std::uint64_t& position = sent_[{peer, port}];
    const RingName name{.peer = peer, .outgoing = true, .port = port};
    if (position == options_.messages || !rings_.is_sent(peer, port, position) ||
        !channel::may_write(memory_.free(name, position), position, options_.geometry.slots)) {
      return false;
    }
    const std::size_t bytes = bytes_of(position, port);
    std::memset(memory_.payload(name, position, bytes),
                static_cast<int>(value(options_.rank, peer, port, position)),
                bytes);
    rings_.publish(peer,
                   rail_to(peer),
                   port,
                   {.position = position,
                    .word = channel::full_word(position, kFingerprint),
                    .bytes = bytes,
                    .tag = 3 * position});
    ++position;
    return true;
  }

  bool read(int peer, int port) {
    std::uint64_t& position = received_[{peer, port}];
    const RingName name{.peer = peer, .outgoing = false, .port = port};
    if (position == options_.messages ||
        !channel::is_full(memory_.full(name, position), position, kFingerprint)) {
      return false;
    }
    const std::size_t bytes = bytes_of(position, port);
    const std::byte* const data = memory_.payload(name, position, bytes);
    if (memory_.tag(name, position) != 3 * position) {
      wrong_ = fmt::format("rank {}: tag of message {} from {}", options_.rank, position, peer);
    }
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data[i] != value(peer, options_.rank, port, position)) {
        wrong_ =
            fmt::format("rank {}: byte {} of message {} from {}", options_.rank, i, position, peer);
      }
    }
    rings_.release(peer, rail_to(options_.rank), port, position);
    ++position;
    return true;
  }

  std::map<std::pair<int, int>, std::uint64_t> sent_;
  std::map<std::pair<int, int>, std::uint64_t> received_;
  std::string wrong_;
  MirroredRings& rings_;
  Doorbell bell_;  // nobody rings it
  PlainRings& memory_;
  Options options_;
};

}  // namespace sennit::rail
