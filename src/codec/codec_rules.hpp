// CodecRules: which calls use a codec, as SENNIT_CODEC says it.
//
//   all_to_all>=1M=zfp:16,tp*/all_reduce=q8
//
// Rules stand behind each other with commas; the first that fits a call counts. A rule is
// [communicator/][collective][>=bytes]=codec, or a codec alone. The communicator is a pattern of
// its name with * and ?; without a collective, a rule is for all but broadcast, which programs use
// for what has to be exact. The codec may be `none`. docs/codecs.md is the page for users.
#pragma once

#include "codec/codec.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

class CodecRules {
 public:
  // A failure names the rule. The empty text has no rules.
  static Result<CodecRules> parse(std::string_view text);

  // `bytes`: of the vector, or of one rank's part.
  [[nodiscard]] std::optional<Codec> find(const std::string& communicator,
                                          Collective collective,
                                          std::int64_t bytes) const;
  [[nodiscard]] bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    std::string communicator = "*";
    std::optional<Collective> collective{};
    std::int64_t from_bytes = 0;
    std::optional<Codec> codec{};
  };
  static Result<Rule> parse_rule(std::string_view text);
  static bool fits(const Rule& rule,
                   const std::string& communicator,
                   Collective collective,
                   std::int64_t bytes);

  std::vector<Rule> rules_;
};

}  // namespace sennit
