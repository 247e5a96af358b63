#include "comm/rail_cards.hpp"

#include "base/env.hpp"
#include "base/fork_guard.hpp"
#include "base/log.hpp"
#include "drivers/ucx/cards.hpp"

#include <utility>
#include <vector>

namespace sennit {
namespace {

Result<std::shared_ptr<rail::CardSet>> open_cards() {
  SENNIT_ASSIGN_OR_RETURN(const std::vector<NetworkCard> wanted,
                          wanted_cards(env_text("SENNIT_RAILS")));
  if (wanted.empty()) {
    return fail(
        Code::kUnsupported,
        "no network card is up here; name one in SENNIT_RAILS (lo: for tries on one machine)");
  }
  SENNIT_ASSIGN_OR_RETURN(UcxDriver* const driver, ucx_driver());
  SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<rail::CardSet> cards,
                          rail::CardSet::open(*driver, wanted));
  for (int rail = 0; rail < cards->size(); ++rail) {
    SENNIT_INFO(
        "rail", "rail/{} is card {}, by UCX {}", rail, cards->name(rail), driver->version());
  }
  return cards;
}

// A child leaves the cards of its parent alone.
std::shared_ptr<RailCards>& cards_of_this_thread() {
  thread_local std::shared_ptr<RailCards> cards;
  thread_local std::uint64_t generation = fork_generation();
  if (std::exchange(generation, fork_generation()) != fork_generation() || cards == nullptr) {
    cards = std::make_shared<RailCards>();
  }
  return cards;
}

}  // namespace

std::shared_ptr<RailCards> RailCards::of_this_thread() { return cards_of_this_thread(); }

void RailCards::adopt(std::shared_ptr<RailCards> cards) {
  cards_of_this_thread() = std::move(cards);
}

Result<std::shared_ptr<rail::CardSet>> RailCards::open() {
  const std::scoped_lock lock(mutex_);
  if (std::shared_ptr<rail::CardSet> cards = cards_.lock()) {
    return cards;
  }
  SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<rail::CardSet> cards, open_cards());
  cards_ = cards;
  return cards;
}

std::shared_ptr<rail::CardSet> RailCards::find() const {
  const std::scoped_lock lock(mutex_);
  return cards_.lock();
}

std::unique_ptr<rail::MirroredRings> make_rails(int rank,
                                                int ranks,
                                                const std::string& gpu_bus_id) {
  Result<std::shared_ptr<rail::CardSet>> cards = RailCards::of_this_thread()->open();
  if (!cards.ok()) {
    SENNIT_WARN(
        "rail", "ranks are on several nodes, and no path joins them: {}", cards.status().message());
    return nullptr;
  }
  std::vector<std::uint8_t> nearest;
  for (const int rail : nearest_cards((*cards)->all(), gpu_bus_id)) {
    nearest.push_back(static_cast<std::uint8_t>(rail));
    SENNIT_INFO("rail", "rail/{} is nearest to GPU {}", rail, gpu_bus_id);
  }
  return std::make_unique<rail::MirroredRings>(
      std::move(*cards),
      rank,
      ranks,
      rail::CardUse{.nearest = std::move(nearest), .are_named = !env_text("SENNIT_RAILS").empty()});
}

JoinInterruption progressing(const JoinInterruption& interruption) {
  const std::weak_ptr<rail::CardSet> cards = RailCards::of_this_thread()->find();
  if (cards.expired()) {
    return interruption;
  }
  JoinInterruption progressing = interruption;
  progressing.reason = [cards, reason = interruption.reason]() -> Status {
    if (const auto set = cards.lock()) {
      set->progress();
    }
    return reason ? reason() : Status();
  };
  return progressing;
}

}  // namespace sennit
