#include "comm/nodes/crossing_parts.hpp"

#include <algorithm>
#include <cstdint>

namespace sennit {
namespace {

constexpr std::size_t kAlignment = 128;

// Elements [begin, end) of each block.
struct Cut {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class PartWriter {
 public:
  explicit PartWriter(CrossingPart& part) : part_(part) {}

  void add(const HostCall& call, const Cut& cut) {
    CrossingPart::Call made{.operation = call.operation,
                            .among_counterparts = call.among_counterparts};
    std::vector<ElementRange> inputs;
    std::vector<ElementRange> outputs;
    made.input_at = add_blocks(call, call.inputs, cut, part_.inputs, inputs);
    made.output_at = add_blocks(call, call.outputs, cut, part_.outputs, outputs);
    made.operation.count = cut.end - cut.begin;
    if (call.operation.varying) {
      const auto elements = [](const std::vector<ElementRange>& blocks) {
        return blocks.empty() ? 0 : blocks.back().begin + blocks.back().length;
      };
      made.operation.count = std::max(elements(inputs), elements(outputs));
      made.operation.inputs = std::move(inputs);
      made.operation.outputs = std::move(outputs);
    }
    part_.calls.push_back(std::move(made));
  }

 private:
  // One block after the other; where they begin.
  std::size_t add_blocks(const HostCall& call,
                         const std::vector<DeviceBlock>& blocks,
                         const Cut& cut,
                         std::vector<CrossingPart::Copy>& copies,
                         std::vector<ElementRange>& ranges) {
    const auto element = static_cast<std::int64_t>(size_bytes(call.operation.dtype));
    const std::size_t begin = (part_.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t written = 0;
    for (const DeviceBlock& block : blocks) {
      const std::int64_t block_begin = written;
      std::int64_t range_begin = 0;
      for (const DeviceRange& range : block) {
        const std::int64_t from = std::max(cut.begin - range_begin, std::int64_t{0});
        const std::int64_t to = std::min(cut.end - range_begin, range.elements);
        range_begin += range.elements;
        if (from >= to) {
          continue;
        }
        if (range.memory != nullptr) {
          copies.push_back({.device = range.memory + from * element,
                            .at = begin + static_cast<std::size_t>(written * element),
                            .bytes = static_cast<std::size_t>((to - from) * element)});
        }
        written += to - from;
      }
      ranges.push_back({.begin = block_begin, .length = written - block_begin});
    }
    part_.bytes = begin + static_cast<std::size_t>(written * element);
    return begin;
  }

  CrossingPart& part_;
};

// So that all blocks of that many elements fit; whole lines.
std::int64_t elements_a_part(const HostCall& call, std::size_t most_bytes) {
  const std::size_t element = size_bytes(call.operation.dtype);
  const auto blocks = static_cast<std::size_t>(std::max(call.most_blocks, 1));
  const std::size_t elements = (most_bytes - 2 * kAlignment) / element / blocks;
  const std::size_t line = kAlignment / element;
  return static_cast<std::int64_t>(std::max(elements / line, std::size_t{1}) * line);
}

}  // namespace

std::vector<CrossingPart> parts_of(const Crossing& crossing, std::size_t most_bytes) {
  std::vector<CrossingPart> parts;
  if (crossing.calls.empty()) {
    return parts;
  }
  // Calls at once are messages, which are not cut.
  const HostCall& first = crossing.calls.front();
  if (!first.can_be_cut || first.elements == 0) {
    PartWriter writer(parts.emplace_back());
    for (const HostCall& call : crossing.calls) {
      writer.add(call, {.begin = 0, .end = call.operation.varying ? INT64_MAX : call.elements});
    }
    return parts;
  }
  const std::int64_t elements = elements_a_part(first, most_bytes);
  for (std::int64_t begin = 0; begin < first.elements; begin += elements) {
    PartWriter(parts.emplace_back())
        .add(first, {.begin = begin, .end = std::min(begin + elements, first.elements)});
  }
  return parts;
}

}  // namespace sennit
