#include "path/rail/greetings.hpp"

#include "base/seconds.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sennit::rail {
namespace {

using Clock = std::chrono::steady_clock;
using Unanswered = std::vector<MirroredRings::Unanswered>;

constexpr std::chrono::milliseconds kCheckInterval{20};
// A card that reaches nobody may have thousands.
constexpr std::size_t kMostNamed = 4;

// "rank 2 over rail/1 (eth1), rank 3 over rail/1 (eth1)".
std::string routes_text(const MirroredRings& rings, const Unanswered& unanswered) {
  std::string text;
  for (std::size_t i = 0; i < std::min(unanswered.size(), kMostNamed); ++i) {
    text += fmt::format("{}rank {} over rail/{} ({})",
                        i == 0 ? "" : ", ",
                        unanswered[i].peer,
                        unanswered[i].rail,
                        rings.cards().name(unanswered[i].rail));
  }
  return unanswered.size() <= kMostNamed
             ? text
             : text + fmt::format(" and {} more", unanswered.size() - kMostNamed);
}

Status no_answer(const MirroredRings& rings, const Unanswered& unanswered) {
  std::set<int> peers;
  std::set<std::string> cards;
  ErrorDetail detail;
  for (const auto& route : unanswered) {
    peers.insert(route.peer);
    cards.insert(rings.cards().name(route.rail));
    if (detail.evidence.empty() && !route.why.ok()) {
      detail.evidence = fmt::format("to rank {}: {}", route.peer, route.why.message());
    }
  }
  detail.blamed_ranks.assign(peers.begin(), peers.end());
  detail.next = fmt::format(
      "let {} reach the cards of other nodes (cable, switch, firewall), or name others in "
      "SENNIT_RAILS",
      fmt::join(cards, ", "));
  return {Code::kJoinTimeout,
          fmt::format("no connection to {}", routes_text(rings, unanswered)),
          std::move(detail)};
}

}  // namespace

Status exchange_greetings(MirroredRings& rings, const GreetingOptions& options) {
  const Clock::time_point end = Clock::now() + clock_span(options.timeout_s);
  Clock::time_point next_check = Clock::now() + kCheckInterval;
  Doorbell bell;  // nobody rings it
  while (true) {
    const bool has_moved = rings.progress();
    const Unanswered unanswered = rings.greet(options.rails_to);
    if (unanswered.empty()) {
      return {};
    }
    const Clock::time_point now = Clock::now();
    if (options.check && now >= next_check) {
      SENNIT_RETURN_IF_ERROR(options.check());
      next_check = now + kCheckInterval;
    }
    if (now >= end) {
      return no_answer(rings, unanswered);
    }
    if (!has_moved) {
      rings.sleep(bell, std::min<Clock::duration>(end - now, kCheckInterval), [] { return false; });
    }
  }
}

}  // namespace sennit::rail
