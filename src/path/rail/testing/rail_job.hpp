// Job: ranks over the cards of a FakeUcx.
#pragma once

#include "drivers/ucx/testing/fake_ucx.hpp"
#include "path/rail/mirrored_rings.hpp"
#include "path/rail/testing/plain_rings.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace sennit::rail {

inline constexpr RingGeometry kGeometry{.ports = 2, .slots = 4, .slot_bytes = 4096};

// Ranks on a node each, in this process.
struct Job {
  Job(UcxDriver& driver, int ranks, int rails) {
    std::vector<NetworkCard> cards;
    for (int rail = 0; rail < rails; ++rail) {
      cards.push_back({.device = fmt::format("rail{}", rail)});
    }
    for (int rank = 0; rank < ranks; ++rank) {
      sets.push_back(*CardSet::open(driver, cards));
      rings.push_back(std::make_unique<MirroredRings>(sets.back(), rank, ranks));
    }
  }

  [[nodiscard]] std::vector<std::string> introductions() const {
    std::vector<std::string> texts;
    for (const auto& each : rings) {
      texts.push_back(each->introduction().text());
    }
    return texts;
  }
  // Every rank is on a node of its own.
  [[nodiscard]] std::vector<int> nodes() const {
    std::vector<int> nodes(rings.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
  }
  void open(int rank) {
    auto memory = std::make_unique<PlainRings>(static_cast<int>(rings.size()), kGeometry);
    memories.resize(rings.size());
    memories[static_cast<std::size_t>(rank)] = memory.get();
    const Status status = rings[static_cast<std::size_t>(rank)]->open(
        std::move(memory), kGeometry, introductions(), nodes());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void open_all() {
    for (std::size_t rank = 0; rank < rings.size(); ++rank) {
      open(static_cast<int>(rank));
    }
  }
  // Rank 0 sends a message to rank 1, whose card is cut off before it arrives.
  void lose_a_message(FakeUcx& driver) {
    rings[0]->publish(1, 0, 0, {.position = 0, .word = channel::full_word(0, 1), .bytes = 4096});
    driver.cut(sets[1]->addresses().front());
    settle();
  }
  // Lets all carry on for a while.
  void settle() {
    for (int round = 0; round < 200; ++round) {
      for (const auto& each : rings) {
        each->progress();
      }
    }
  }

  [[nodiscard]] bool is_full(int reader, int writer, std::uint64_t position) const {
    const RingName name{.peer = writer, .outgoing = false, .port = 0};
    return channel::is_full(
        memories[static_cast<std::size_t>(reader)]->full(name, position), position, kPrint);
  }
  [[nodiscard]] bool is_returned(int writer, int reader, std::uint64_t position) const {
    const RingName name{.peer = reader, .outgoing = true, .port = 0};
    return channel::is_released(memories[static_cast<std::size_t>(writer)]->free(name, position),
                                position);
  }
  // The message arrives, and its reader makes no round more.
  void pass(int writer, int reader, std::uint64_t position) {
    rings[static_cast<std::size_t>(writer)]->publish(
        reader,
        0,
        0,
        {.position = position, .word = channel::full_word(position, kPrint), .bytes = 8});
    while (!is_full(reader, writer, position)) {
      rings[static_cast<std::size_t>(writer)]->progress();
      rings[static_cast<std::size_t>(reader)]->progress();
    }
  }

  static constexpr std::uint32_t kPrint = 1;
  std::vector<std::shared_ptr<CardSet>> sets;
  std::vector<std::unique_ptr<MirroredRings>> rings;
  std::vector<PlainRings*> memories;
};

}  // namespace sennit::rail
