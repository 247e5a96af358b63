// Any text as rules for codecs: refused with a message, or rules that can be asked.
#include "base/check.hpp"
#include "codec/codec_rules.hpp"

#include <cstdint>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;
  const Result<CodecRules> rules =
      CodecRules::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!rules.ok()) {
    SENNIT_CHECK(rules.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(!rules.status().message().empty(), "no message");
    return 0;
  }
  for (const Collective collective : kCollectives) {
    const auto codec = rules->find("world", collective, 1 << 20);
    SENNIT_CHECK(!codec || collective != Collective::kBarrier, "a barrier has no values");
    SENNIT_CHECK(!codec || !rules->empty(), "a codec without a rule");
  }
  return 0;
}
