#include "exec/stream/flag.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <type_traits>

namespace sennit::stream {
namespace {

static_assert(std::is_standard_layout_v<RankWords>);

// An array of flags within RankWords, of up to three dimensions.
struct Region {
  std::string_view name;
  std::size_t offset = 0;  // bytes
  std::array<int, 3> sizes{1, 1, 1};
  int dimensions = 0;

  [[nodiscard]] constexpr std::uint32_t words() const {
    return static_cast<std::uint32_t>(sizes[0] * sizes[1] * sizes[2]);
  }
  [[nodiscard]] constexpr std::uint32_t first() const {
    return static_cast<std::uint32_t>(offset / sizeof(std::uint64_t));
  }
  [[nodiscard]] Flag at(int owner, int i, int j, int k) const {
    SENNIT_CHECK(i >= 0 && i < sizes[0] && j >= 0 && j < sizes[1] && k >= 0 && k < sizes[2],
                 "a flag outside of RankWords");
    const int index = (i * sizes[1] + j) * sizes[2] + k;
    return {.owner = owner, .place = first() + static_cast<std::uint32_t>(index)};
  }
};

constexpr Region of_messages(std::string_view name, std::size_t offset) {
  return {name, offset, {kMaxRanks, kMaxMessages, kMaxChannels}, 3};
}
constexpr Region of_slots(std::string_view name, std::size_t offset) {
  return {name, offset, {kMaxRanks, host::kMaxSlots, 1}, 2};
}

constexpr Region kReady{
    "ready", offsetof(RankWords, ready), {kMaxRanks, kMaxChannels, kMaxPieces}, 3};
constexpr Region kDone{"done", offsetof(RankWords, done), {kMaxRanks, kMaxChannels, 1}, 2};
constexpr Region kFilled = of_slots("filled", offsetof(RankWords, filled));
constexpr Region kEmptied = of_slots("emptied", offsetof(RankWords, emptied));
constexpr Region kRunningWord{"running", offsetof(RankWords, running)};
constexpr Region kEndedWord{"ended", offsetof(RankWords, ended)};
constexpr Region kMessageReady = of_messages("message_ready", offsetof(RankWords, message_ready));
constexpr Region kMessageDone = of_messages("message_done", offsetof(RankWords, message_done));
constexpr Region kMessageAdmitted =
    of_messages("message_admitted", offsetof(RankWords, message_admitted));
constexpr Region kMessageArrived =
    of_messages("message_arrived", offsetof(RankWords, message_arrived));
constexpr Region kMessageFilled = of_slots("message_filled", offsetof(RankWords, message_filled));
constexpr Region kMessageEmptied =
    of_slots("message_emptied", offsetof(RankWords, message_emptied));

constexpr std::array kRegions = {kReady,
                                 kDone,
                                 kFilled,
                                 kEmptied,
                                 kRunningWord,
                                 kEndedWord,
                                 kMessageReady,
                                 kMessageDone,
                                 kMessageAdmitted,
                                 kMessageArrived,
                                 kMessageFilled,
                                 kMessageEmptied};
constexpr std::size_t words_of_all() {
  std::size_t words = 0;
  for (const Region& region : kRegions) {
    words += region.words();
  }
  return words;
}
static_assert(words_of_all() * sizeof(std::uint64_t) <= sizeof(RankWords) &&
                  sizeof(RankWords) - words_of_all() * sizeof(std::uint64_t) < alignof(RankWords),
              "all words of RankWords are flags");

}  // namespace

Flag ready_flag(int owner, int sender, int channel, int piece) {
  return kReady.at(owner, sender, channel, piece);
}
Flag done_flag(int owner, int reader, int channel) { return kDone.at(owner, reader, channel, 0); }
Flag filled_flag(int owner, int sender, int slot) { return kFilled.at(owner, sender, slot, 0); }
Flag emptied_flag(int owner, int reader, int slot) { return kEmptied.at(owner, reader, slot, 0); }

Flag message_ready_flag(int owner, int sender, int slot, int channel) {
  return kMessageReady.at(owner, sender, slot, channel);
}
Flag message_done_flag(int owner, int reader, int slot, int channel) {
  return kMessageDone.at(owner, reader, slot, channel);
}
Flag message_admitted_flag(int owner, int reader, int slot, int channel) {
  return kMessageAdmitted.at(owner, reader, slot, channel);
}
Flag message_arrived_flag(int owner, int sender, int slot, int channel) {
  return kMessageArrived.at(owner, sender, slot, channel);
}
Flag message_filled_flag(int owner, int sender, int slot) {
  return kMessageFilled.at(owner, sender, slot, 0);
}
Flag message_emptied_flag(int owner, int reader, int slot) {
  return kMessageEmptied.at(owner, reader, slot, 0);
}

Flag running_flag(int owner) { return kRunningWord.at(owner, 0, 0, 0); }
Flag ended_flag(int owner) { return kEndedWord.at(owner, 0, 0, 0); }
bool is_for_hosts(const Flag& flag) {
  return flag.place == kRunningWord.first() || flag.place == kEndedWord.first();
}

std::string name(const Flag& flag) {
  for (const Region& region : kRegions) {
    if (flag.place < region.first() || flag.place >= region.first() + region.words()) {
      continue;
    }
    std::string text(region.name);
    auto index = static_cast<int>(flag.place - region.first());
    std::array<int, 3> at{};
    for (std::size_t d = at.size(); d-- > 0;) {
      at[d] = index % region.sizes[d];
      index /= region.sizes[d];
    }
    for (int d = 0; d < region.dimensions; ++d) {
      text += fmt::format("[{}]", at[static_cast<std::size_t>(d)]);
    }
    return fmt::format("{} of rank {}", text, flag.owner);
  }
  return fmt::format("word {} of rank {}", flag.place, flag.owner);
}

}  // namespace sennit::stream
