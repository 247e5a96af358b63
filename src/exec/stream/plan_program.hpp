// PlanProgram: what one rank does in a plan, strand by strand, of what runs on streams.
#pragma once

#include "exec/stream/slot_program.hpp"
#include "exec/stream/stream_program.hpp"
#include "schedule/plan.hpp"

#include <optional>
#include <variant>
#include <vector>

namespace sennit::stream {

struct StrandProgram {
  // Straight from the memory of one rank into that of another, or through slots in host memory.
  std::variant<StreamProgram, SlotProgram> program;
  Portion portion;
};

struct PlanProgram {
  int rank = 0;
  std::vector<StrandProgram> strands{};
  std::optional<Portion> of_kernels{};  // what SMs carry meanwhile

  // Of a plan by a leader: what all ranks do, by rank, and no strands. Else empty.
  std::vector<StreamProgram> by_leader{};

  // The only strand, if it goes straight; else null.
  [[nodiscard]] const StreamProgram* alone() const;
  // What other ranks write of this rank's memory.
  [[nodiscard]] bool exposes_output() const;
  [[nodiscard]] bool exposes_staging() const;
  // Whether other ranks read its input.
  [[nodiscard]] bool has_input_read() const {
    return !by_leader.empty() || (alone() != nullptr && alone()->has_input_read());
  }
  [[nodiscard]] bool may_be_in_place() const;
};

// Channels of direct_get or direct_put make a StreamProgram, also where what is reduced comes in
// slots: its staging memory. Slots on path host make a SlotProgram. One strand may be that of SMs,
// which is left to them. kUnsupported for all others, and for claimed plans.
Result<PlanProgram> compile_plan(const Plan& plan, int rank);

}  // namespace sennit::stream
