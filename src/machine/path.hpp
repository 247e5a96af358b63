// Path: a way of messages: its kind, and of rails the network card. As text "nvlink" or "rail/1".
#pragma once

#include "machine/path_kind.hpp"

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct Path {
  // The card that messages to the reader come over (MirroredRings::rail_to).
  static constexpr int kReadersCard = -1;

  // Implicit: all kinds but rails say everything.
  constexpr Path(PathKind path_kind, int card_number = kReadersCard)
      : kind(path_kind), card(card_number) {}

  PathKind kind;
  int card;  // of rails alone

  bool operator==(const Path&) const = default;
  auto operator<=>(const Path&) const = default;
};

std::string text_of(const Path& path);
// Of several, as requests name them: "rail/0+rail/1".
std::string text_of(const std::vector<Path>& paths);

Result<Path> parse_path(std::string_view text);
Result<std::vector<Path>> parse_path_list(std::string_view text);

}  // namespace sennit
