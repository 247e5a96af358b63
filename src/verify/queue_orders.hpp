// The queue check where the order of a queue is not that of one host: any order may come about that
// certain pairs of steps leave open.
//
// Whatever the orders, a shortest circle is in each queue at most once: of two visits, one of the
// four steps could be skipped, since a queue has one order. And where each queue is visited once,
// all orders that a circle needs can come about together. So there are orders in which steps wait
// for each other exactly if there is a circle of this form: a step is signalled or ordered from
// another queue, a step that may stand behind it in its own queue orders one in a third queue, and
// so on, each queue once.
#pragma once

#include "verify/queues.hpp"
#include "verify/stream_graph.hpp"

namespace sennit {

// Of a graph without a circle. With several queues a device and any order, what it refuses may need
// orders of two queues that no one order of both has.
Status check_all_orders(const StreamGraph& graph, const QueueModel& model);

}  // namespace sennit
