#include "exec/stream/round_order.hpp"

namespace sennit::stream {
namespace {

bool has_event(std::int64_t first, std::int64_t round) { return first >= 0 && round >= first; }

}  // namespace

void RoundOrder::before_puts(std::int64_t round) {
  if (!setting_.is_captured) {
    return;
  }
  const int distance = (setting_.slots + 1) / 2;
  if (has_event(first_put_, round - distance)) {
    writer_.put(puts_.waits(), AwaitEvent{put_event(round - distance)});
  }
  if (has_event(first_taken_, round - setting_.slots)) {
    writer_.put(puts_.waits(), AwaitEvent{taken_event(round - setting_.slots)});
  }
}

void RoundOrder::before_takes(std::int64_t round) {
  if (!setting_.is_captured) {
    return;
  }
  const int distance = setting_.slots + 1 - (setting_.slots + 1) / 2;
  if (has_event(first_taken_, round - distance)) {
    writer_.put(takes_.waits(), AwaitEvent{taken_event(round - distance)});
  }
  if (first_put_ >= 0) {
    writer_.order(puts_.signals(), takes_.waits());
  }
}

void RoundOrder::end(std::int64_t round) {
  if (setting_.is_captured && first_put_ >= 0) {
    writer_.put(puts_.signals(), RecordEvent{put_event(round)});
  }
  if (setting_.is_captured && first_taken_ >= 0) {
    writer_.put(takes_.signals(), RecordEvent{taken_event(round)});
  }
}

}  // namespace sennit::stream
