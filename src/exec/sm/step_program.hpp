// Programs of exec/sm/step_call.hpp, read off a strand of one lane a rank.
//
//   SENNIT_ASSIGN_OR_RETURN(StepProgram program, compile_steps(plan.strands.front(), rank));
//   StepCall call = ...;                           // buffers, staging buffers
//   SENNIT_RETURN_IF_ERROR(bind(problem, elements, limits, call));
#pragma once

#include "exec/sm/direct_program.hpp"
#include "exec/sm/step_call.hpp"
#include "schedule/plan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace sennit::sm {

// kUnsupported, saying why, where the tables of StepProgram have no room for it.
Result<std::unique_ptr<const StepProgram>> compile_steps(const Strand& strand, int rank);

struct Elements {
  std::int64_t count = 0;
  std::int64_t bytes = 1;  // of one
};

struct StepLimits {
  int blocks = 1;                 // of a kernel
  std::size_t scratch_bytes = 0;  // of one block
  // Of one block for the slots of two ranks, by where their staging buffer lies.
  std::array<std::size_t, kStagingPlaces> slot_bytes{};
};

// How a call is cut into tiles.
struct StepTiling {
  std::int64_t block_bytes = 0;
  std::int64_t tile_bytes = 0;
  std::int64_t tiles = 1;
  std::int32_t blocks = 1;  // of the kernel
};
// Equal on all ranks, for equal limits and staging buffers, and so is a refusal: kUnsupported where
// messages of the least tile would not fit, or are too many.
Result<StepTiling> tiling_of(const Problem& problem,
                             Elements elements,
                             const StepLimits& limits,
                             const StepProgram& program);

// Fills the part of `call` that follows from the number of elements. Fails as tiling_of() does.
Status bind(const Problem& problem, Elements elements, const StepLimits& limits, StepCall& call);

}  // namespace sennit::sm
