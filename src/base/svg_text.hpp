// Text of others inside of SVG.
#pragma once

#include <string>
#include <string_view>

namespace sennit {

// As it may stand between tags and in attributes.
std::string svg_escaped(std::string_view text);

}  // namespace sennit
