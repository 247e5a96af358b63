// Which codec a call of host ranks uses: the one that it names, else what the communicator's rules
// say.
#pragma once

#include "codec/codec_rules.hpp"
#include "world/operation.hpp"

#include <optional>
#include <string>

namespace sennit {

struct CallCodec {
  std::optional<Codec> codec{};
  bool is_by_rule = false;  // so the call goes without it where it cannot have it
};

// A codec that the call names and cannot have is refused: for its type, or because it is lossy and
// the call is to be reproducible (kUnsupported). A rule leaves such calls alone.
Result<CallCodec> call_codec(const Operation& operation,
                             const CodecRules& rules,
                             const std::string& communicator,
                             bool reproducible);

}  // namespace sennit
