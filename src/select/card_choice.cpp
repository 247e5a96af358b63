#include "select/card_choice.hpp"

#include "base/integers.hpp"

#include <algorithm>

namespace sennit {
namespace {

// From there on a message has tiles for several cards.
constexpr std::int64_t kSpreadFromBytes = 128 * kKilo;

}  // namespace

// The numbers of the cards that a request names, or none.
Result<std::vector<int>> cards_of(const CallRequest& request, const HostFacts& facts) {
  std::vector<int> cards;
  if (!request.path.starts_with(name(PathKind::kRail))) {
    return cards;
  }
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Path> paths, parse_path_list(request.path));
  for (const Path& path : paths) {
    if (path.kind != PathKind::kRail || path.card == Path::kReadersCard ||
        std::ranges::find(cards, path.card) != cards.end() || paths.size() > kMaxBundlePaths) {
      return fail(Code::kInvalidArgument,
                  "path '{}' has to name one to {} cards with their numbers, each once, as in "
                  "rail/0+rail/1",
                  request.path,
                  kMaxBundlePaths);
    }
    if (path.card >= facts.cards) {
      return fail(Code::kUnsupported,
                  "there is no {}: {}",
                  text_of(path),
                  facts.cards == 0 ? facts.why_no_cards
                                   : fmt::format("each node has {} network cards", facts.cards));
    }
    cards.push_back(path.card);
  }
  return cards;
}

bool may_spread(std::int64_t bytes, const HostFacts& facts) {
  return facts.cards_a_rank > 1 && bytes >= kSpreadFromBytes;
}

}  // namespace sennit
