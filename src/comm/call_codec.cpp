#include "comm/call_codec.hpp"

namespace sennit {
namespace {

Status check_codec_of(const Operation& operation, Codec codec, bool reproducible) {
  SENNIT_RETURN_IF_ERROR(check_codec(codec, operation.dtype));
  return !reproducible || is_lossless(codec)
             ? Status()
             : fail(
                   Code::kUnsupported,
                   "codec {} is lossy, and what it loses depends on where blocks begin, so on the "
                   "number of ranks: {} cannot be reproducible with it; take another codec or none",
                   name(codec),
                   name_of(operation));
}

}  // namespace

Result<CallCodec> call_codec(const Operation& operation,
                             const CodecRules& rules,
                             const std::string& communicator,
                             bool reproducible) {
  const std::string& named = operation.request.codec;
  if (named == "none" || operation.collective == Collective::kBarrier) {
    return CallCodec{};
  }
  if (!named.empty()) {
    SENNIT_ASSIGN_OR_RETURN(const Codec codec, parse_codec(named));
    SENNIT_RETURN_IF_ERROR(check_codec_of(operation, codec, reproducible));
    return CallCodec{.codec = codec};
  }
  const auto codec = rules.empty()
                         ? std::nullopt
                         : rules.find(communicator, operation.collective, known_bytes(operation));
  const bool has_it = codec && check_codec_of(operation, *codec, reproducible).ok();
  return has_it ? CallCodec{.codec = codec, .is_by_rule = true} : CallCodec{};
}

}  // namespace sennit
