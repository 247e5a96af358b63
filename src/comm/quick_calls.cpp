#include "comm/quick_calls.hpp"

#include <utility>

namespace sennit {

PlainCall plain(const Operation& operation) {
  return {.collective = operation.collective,
          .send = operation.send,
          .recv = operation.recv,
          .count = static_cast<std::size_t>(operation.count),
          .dtype = static_cast<int>(operation.dtype),
          .op = static_cast<int>(operation.op),
          .root = operation.root};
}

bool QuickCall::fits(const void* send, const void* recv) const {
  if ((needs.input_bytes > 0 && send == nullptr) || (needs.output_bytes > 0 && recv == nullptr)) {
    return false;
  }
  const auto in = reinterpret_cast<std::uintptr_t>(send);
  const auto out = reinterpret_cast<std::uintptr_t>(recv);
  const bool overlap = needs.input_bytes > 0 && needs.output_bytes > 0 &&
                       in < out + static_cast<std::uintptr_t>(needs.output_bytes) &&
                       out < in + static_cast<std::uintptr_t>(needs.input_bytes);
  return !overlap || (in_place && needs.in_place_offset &&
                      in == out + static_cast<std::uintptr_t>(*needs.in_place_offset));
}

std::size_t QuickCalls::place_of(const PlainCall& call) {
  const std::uint64_t what = (static_cast<std::uint64_t>(call.collective) << 48) ^
                             (static_cast<std::uint64_t>(call.dtype) << 40) ^
                             (static_cast<std::uint64_t>(call.root) << 32) ^
                             (static_cast<std::uint64_t>(call.op) << 56) ^ call.count;
  // The upper bits of a product with the golden ratio spread well, whatever step the counts have.
  return (what * 0x9e3779b97f4a7c15ULL) >> 58;
}

const QuickCall* QuickCalls::find(const PlainCall& call) const {
  static_assert(kPlaces == 64, "place_of gives 6 bits");
  for (const auto& found : places_[place_of(call)].calls) {
    if (found == nullptr) {
      return nullptr;
    }
    const PlainCall known = plain(found->operation);
    if (known.collective == call.collective && known.count == call.count &&
        known.dtype == call.dtype && known.op == call.op && known.root == call.root) {
      return found.get();
    }
  }
  return nullptr;
}

void QuickCalls::learn(QuickCall call) {
  Place& place = places_[place_of(plain(call.operation))];
  place.calls[place.next] = std::make_unique<const QuickCall>(std::move(call));
  place.next = (place.next + 1) % kCallsOfPlace;
}

}  // namespace sennit
