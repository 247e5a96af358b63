// How pictures draw the kinds of steps, so that one legend serves all of them. Kinds differ by
// pattern as well as colour: pictures read in print and without colour vision.
#pragma once

#include "schedule/schedule.hpp"

#include <array>
#include <string>
#include <string_view>

namespace sennit {

struct StepLook {
  StepKind kind;
  std::string_view colour;
  std::string_view pattern;  // drawn in black over the colour, in a tile of 6 x 6
};

// Colours of Okabe and Ito, "Color Universal Design" (2008).
inline constexpr std::array kStepLooks = {
    StepLook{StepKind::kSend, "#56B4E9", ""},
    StepLook{StepKind::kRecv, "#009E73", "M0 3H6"},
    StepLook{StepKind::kRecvReduce, "#E69F00", "M0 6L6 0"},
    StepLook{StepKind::kCopy, "#F0E442", "M3 0V6"},
    StepLook{StepKind::kReduce, "#D55E00", "M0 0L6 6M0 6L6 0"},
    StepLook{StepKind::kToken, "#CC79A7", "M3 2V4M2 3H4"},
};

// SVG's <pattern> of each kind; its id is the kind's name.
std::string step_patterns();

}  // namespace sennit
