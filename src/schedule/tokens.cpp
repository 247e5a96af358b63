#include "schedule/tokens.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Not <cctype>, whose answers depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool continues_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The longest token at the front of `rest`, which begins with neither blank nor comment.
Token first_token(std::string_view rest) {
  if (is_digit(rest.front())) {
    const auto end = std::ranges::find_if_not(rest, is_digit);
    return {TokenKind::kNumber, {rest.begin(), end}};
  }
  if (is_letter(rest.front())) {
    const auto end = std::ranges::find_if_not(rest, continues_word);
    return {TokenKind::kWord, {rest.begin(), end}};
  }
  const bool two = rest.starts_with("->") || rest.starts_with("..");
  return {TokenKind::kSymbol, rest.substr(0, two ? 2 : 1)};
}

}  // namespace

std::vector<Token> tokenize(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<Token> tokens;
  std::size_t at = 0;
  while (at < line.size()) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    Token token = first_token(line.substr(at));
    token.column = at + 1;
    at += token.text.size();
    tokens.push_back(token);
  }
  tokens.push_back({TokenKind::kEnd, {}, line.size() + 1});
  return tokens;
}

bool is_word(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, continues_word);
}

}  // namespace sennit
