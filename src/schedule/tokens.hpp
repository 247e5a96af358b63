// Tokens of one line of a schedule's text form.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sennit {

enum class TokenKind : std::uint8_t {
  kWord,    // a letter, then letters, digits and underscores
  kNumber,  // digits
  kSymbol,  // "->", "..", or any other single byte
  kEnd,     // behind the last token of the line
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  std::size_t column = 0;  // in bytes, from 1

  [[nodiscard]] bool is(std::string_view word_or_symbol) const {
    return kind != TokenKind::kNumber && text == word_or_symbol;
  }
};

// The tokens of `line` without its comment, and a kEnd. Never fails: a byte that means nothing is a
// symbol, which the grammar then refuses where it stands.
std::vector<Token> tokenize(std::string_view line);

// A name that every form of a schedule can hold: one kWord.
bool is_word(std::string_view text);

}  // namespace sennit
