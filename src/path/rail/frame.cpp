#include "path/rail/frame.hpp"

#include "base/sha256.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sennit::rail {
namespace {

constexpr char kFormat = 3;

std::size_t take_number(std::string_view& text, std::size_t bytes) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= static_cast<std::size_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  text.remove_prefix(bytes);
  return value;
}

}  // namespace

Secret random_secret() {
  Secret secret{};
  SENNIT_CHECK(::getrandom(secret.data(), secret.size(), 0) == static_cast<ssize_t>(secret.size()),
               "the system gives no random bytes");
  return secret;
}

std::uint64_t token_of(const Secret& secret_of_reader, int writer, int rail) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(secret_of_reader)));
  hash.update(fmt::format("rail {} of writer {}", rail, writer));
  const auto digest = hash.finish();
  std::uint64_t token = 0;
  std::memcpy(&token, digest.data(), sizeof(token));
  return token != 0 ? token : 1;
}

std::string Introduction::text() const {
  std::string text(1, kFormat);
  text.append(reinterpret_cast<const char*>(secret.data()), secret.size());
  text.push_back(are_named ? 1 : 0);
  text.push_back(static_cast<char>(card_addresses.size()));
  for (const std::string& address : card_addresses) {
    text.push_back(static_cast<char>(address.size() & 0xff));
    text.push_back(static_cast<char>(address.size() >> 8));
    text.append(address);
  }
  text.push_back(static_cast<char>(nearest.size()));
  text.append(nearest.begin(), nearest.end());
  return text;
}

std::optional<Introduction> Introduction::parse(std::string_view text) {
  Introduction parsed;
  if (text.size() < 3 + parsed.secret.size() || text.size() > kMostBytes ||
      text.front() != kFormat) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  std::memcpy(parsed.secret.data(), text.data(), parsed.secret.size());
  text.remove_prefix(parsed.secret.size());
  parsed.are_named = take_number(text, 1) != 0;
  const std::size_t cards = take_number(text, 1);
  for (std::size_t card = 0; card < cards; ++card) {
    if (text.size() < 2) {
      return std::nullopt;
    }
    const std::size_t bytes = take_number(text, 2);
    if (bytes == 0 || text.size() < bytes) {
      return std::nullopt;
    }
    parsed.card_addresses.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  if (text.empty() || take_number(text, 1) != text.size()) {
    return std::nullopt;
  }
  parsed.nearest.assign(text.begin(), text.end());
  const auto is_rail = [&](std::uint8_t rail) { return rail < cards; };
  return std::ranges::all_of(parsed.nearest, is_rail) ? std::optional(std::move(parsed))
                                                      : std::nullopt;
}

Result<std::vector<Introduction>> parse_introductions(std::span<const std::string> texts) {
  std::vector<Introduction> all;
  for (const std::string& text : texts) {
    auto introduction = Introduction::parse(text);
    if (!introduction) {
      return fail(Code::kInvalidArgument,
                  "rank {} described its network cards in a form that is not known here",
                  all.size());
    }
    all.push_back(*std::move(introduction));
    if (all.back().card_addresses.size() != all.front().card_addresses.size()) {
      return fail(Code::kInvalidArgument,
                  "for messages between nodes rank {} has {} network cards, rank 0 has {}; name as "
                  "many on all ranks of all nodes in SENNIT_RAILS",
                  all.size() - 1,
                  all.back().card_addresses.size(),
                  all.front().card_addresses.size());
    }
  }
  return all;
}

std::string why_no_bundles(std::span<const Introduction> introductions) {
  const std::size_t cards = introductions.front().card_addresses.size();
  if (cards == 1) {
    return "each node has one network card";
  }
  if (!std::ranges::all_of(introductions, &Introduction::are_named)) {
    return "SENNIT_RAILS does not name the network cards on all ranks";
  }
  return introductions.size() * cards <= kMostRoutes
             ? ""
             : fmt::format("{} ranks would connect {} cards each", introductions.size(), cards);
}

}  // namespace sennit::rail
