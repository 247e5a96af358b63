#include "schedule/step_looks.hpp"

#include <fmt/format.h>

namespace sennit {

std::string step_patterns() {
  std::string svg;
  for (const StepLook& look : kStepLooks) {
    svg += fmt::format(
        R"(<pattern id="{0}" width="6" height="6" patternUnits="userSpaceOnUse">)"
        R"(<rect width="6" height="6" fill="{1}"/><path d="{2}" stroke="#000"/></pattern>)"
        "\n",
        name(look.kind),
        look.colour,
        look.pattern.empty() ? "M0 0" : look.pattern);
  }
  return svg;
}

}  // namespace sennit
