// RoundOrder: keeps in a graph what slots need of the order of issue, by events.
//
// In a round a rank puts parts into slots, and then takes those that others put in this round. A
// graph forgets in which order streams got their operations. Where a wait of round t may be ahead
// of signals of its rank from round t - d + 1 on, the rank holds up d rounds. Let d be P for waits
// of puts and signals of puts, T for takes and takes. Waits of puts need takes of round t - S,
// where a ring has S slots, and waits of takes puts of round t. So what is signalled in a round
// comes in the end if P + T <= S + 1, takes wait behind the puts of their round, and puts behind
// the takes of round t - S. That no order of a queue makes a circle then is proved by
// call_queues_test.cpp and message_queues_test.cpp.
//
//   order.before_puts(round);    // that wait
//   order.has_put(round);
//   order.before_takes(round);
//   order.has_taken(round);
//   order.end(round);
#pragma once

#include "exec/stream/operation_line.hpp"
#include "path/host/rings.hpp"

#include <cstdint>

namespace sennit::stream {

class RoundOrder {
 public:
  // Events, from `first_event` on.
  static constexpr int kEvents = 2 * host::kMaxSlots;

  struct Setting {
    int slots = 0;
    int first_event = 0;
    bool is_captured = false;  // else nothing is to be kept
  };
  // `puts`, `takes`: the lines of all puts and all takes.
  RoundOrder(OperationWriter& writer,
             const Setting& setting,
             const OperationLine& puts,
             const OperationLine& takes)
      : writer_(writer), setting_(setting), puts_(puts), takes_(takes) {}

  void before_puts(std::int64_t round);
  void before_takes(std::int64_t round);
  void has_put(std::int64_t round) { first_put_ = first_put_ < 0 ? round : first_put_; }
  void has_taken(std::int64_t round) { first_taken_ = first_taken_ < 0 ? round : first_taken_; }
  void end(std::int64_t round);

 private:
  [[nodiscard]] int put_event(std::int64_t round) const {
    return setting_.first_event + static_cast<int>(round % setting_.slots);
  }
  [[nodiscard]] int taken_event(std::int64_t round) const {
    return put_event(round) + host::kMaxSlots;
  }

  OperationWriter& writer_;
  Setting setting_;
  OperationLine puts_;
  OperationLine takes_;
  // Rounds from which on there are events.
  std::int64_t first_put_ = -1;
  std::int64_t first_taken_ = -1;
};

}  // namespace sennit::stream
