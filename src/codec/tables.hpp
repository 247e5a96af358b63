// The table of codecs as an enumeration, for code that is compiled for devices, too. Host code
// includes codec/codec.hpp, which has names and parsers as well.
#pragma once

#include <cstdint>

namespace sennit {

enum class Codec : std::uint8_t {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) enumerator = (value),
#include "codec/codecs.def"
#undef SENNIT_CODEC
};

}  // namespace sennit
