#include "codec/codec_rules.hpp"

#include "base/env.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <limits>

namespace sennit {
namespace {

Result<std::optional<Codec>> codec_or_none(std::string_view text) {
  if (text == "none") {
    return std::optional<Codec>();
  }
  const Result<Codec> codec = parse_codec(text);
  return codec.ok() ? Result(std::optional(*codec))
                    : Result<std::optional<Codec>>(
                          fail(codec.status().code(), "{}, none", codec.status().message()));
}

Result<Collective> collective_with_values(std::string_view text) {
  SENNIT_ASSIGN_OR_RETURN(const Collective collective, parse_collective(text));
  return collective != Collective::kBarrier
             ? Result(collective)
             : Result<Collective>(fail(Code::kInvalidArgument, "a barrier has no values to code"));
}

}  // namespace

Result<CodecRules::Rule> CodecRules::parse_rule(std::string_view text) {
  Rule rule;
  const std::size_t equals = text.rfind('=');
  const std::string_view codec = equals == std::string_view::npos ? text : text.substr(equals + 1);
  SENNIT_ASSIGN_OR_RETURN(rule.codec, codec_or_none(codec));
  std::string_view calls = equals == std::string_view::npos ? "" : text.substr(0, equals);
  if (const std::size_t least = calls.find(">="); least != std::string_view::npos) {
    SENNIT_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                            parse_bytes("the least size", calls.substr(least + 2)));
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    rule.from_bytes = static_cast<std::int64_t>(std::min(bytes, kMost));
    calls = calls.substr(0, least);
  }
  if (const std::size_t slash = calls.rfind('/'); slash != std::string_view::npos) {
    rule.communicator = calls.substr(0, slash);
    calls = calls.substr(slash + 1);
  }
  if (!calls.empty()) {
    SENNIT_ASSIGN_OR_RETURN(rule.collective, collective_with_values(calls));
  }
  return rule;
}

Result<CodecRules> CodecRules::parse(std::string_view text) {
  CodecRules rules;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view rule = text.substr(0, comma);
    Result<Rule> parsed = parse_rule(rule);
    if (!parsed.ok()) {
      return fail(parsed.status().code(),
                  "rule '{}' for codecs: {}; a rule is "
                  "[communicator/][collective][>=bytes]=codec, as in all_to_all>=1M=zfp:16",
                  rule,
                  parsed.status().message());
    }
    rules.rules_.push_back(*std::move(parsed));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return rules;
}

bool CodecRules::fits(const Rule& rule,
                      const std::string& communicator,
                      Collective collective,
                      std::int64_t bytes) {
  const bool is_of_collective =
      rule.collective ? *rule.collective == collective : collective != Collective::kBroadcast;
  return is_of_collective && collective != Collective::kBarrier && bytes >= rule.from_bytes &&
         ::fnmatch(rule.communicator.c_str(), communicator.c_str(), 0) == 0;
}

std::optional<Codec> CodecRules::find(const std::string& communicator,
                                      Collective collective,
                                      std::int64_t bytes) const {
  const auto rule = std::ranges::find_if(
      rules_, [&](const Rule& r) { return fits(r, communicator, collective, bytes); });
  return rule == rules_.end() ? std::nullopt : rule->codec;
}

}  // namespace sennit
