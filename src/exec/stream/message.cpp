#include "exec/stream/message.hpp"

#include "exec/stream/slot_parts.hpp"

namespace sennit::stream {

ByteRange Message::range_of(const StrandProgram& strand, const Block& block) const {
  const Problem& problem =
      std::visit([](const auto& p) -> const Problem& { return p.problem; }, strand.program);
  return stream::range_of(problem, strand.portion, {.count = bytes}, block.index);
}

std::int64_t slots_for(const PlanProgram& program,
                       std::int64_t bytes,
                       const host::RingShape& ring) {
  std::int64_t slots = 0;
  for (const StrandProgram& strand : program.strands) {
    if (const auto* const through_slots = std::get_if<SlotProgram>(&strand.program)) {
      const ByteRange range =
          range_of(through_slots->problem, strand.portion, {.count = bytes}, /*block=*/0);
      slots += through_slots->rounds * cut_into_slots(range.length, ring).count;
    }
  }
  return slots;
}

}  // namespace sennit::stream
