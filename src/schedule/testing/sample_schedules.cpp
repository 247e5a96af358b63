#include "schedule/testing/sample_schedules.hpp"

#include "schedule/builder.hpp"

#include <utility>

namespace sennit {

Schedule schedule_with_everything() {
  Builder b("everything", {Collective::kAllReduce, 3, 2, 4});
  const int stage = b.scratch("stage", 8, 2, Place::kHost);
  const int pre = b.scratch("pre", 4, 1);  // a name that is also a word of the grammar
  const LaneId zero = b.lane(0, Need::kReduce);
  const LaneId one = b.lane(1, Need::kMove);
  const LaneId one_more = b.lane(1, Need::kReduce);
  const LaneId two = b.lane(2, Need::kReduce);
  const int hub = b.hub(zero, {one, two});
  const int flag = b.channel(one, zero);
  const int single = b.channel(one_more, zero);

  b.send(zero, {input_block(0), input_block(1), input_block(2), input_block(0)}, hub);
  b.token(zero, {flag}, {});
  b.step(zero,
         {.kind = StepKind::kRecvReduce,
          .from = {input_block(3), input_block(1)},
          .to = {output_block(0), output_block(2)},
          .in = {single, flag},
          .order = {2, 0, 1},
          .pre = true,
          .post = true});
  b.token(one, {}, {flag});
  const StepRef got = b.recv(one, hub, {scratch_block(stage, 4), scratch_block(stage, 5)});
  b.token(one, {}, {flag});
  b.copy(one_more, {scratch_block(stage, 4)}, {scratch_block(pre, 3)});
  b.after(one_more, {got, {0, 0}});
  b.step(one_more,
         {.kind = StepKind::kReduce,
          .from = {scratch_block(pre, 0),
                   scratch_block(pre, 1),
                   scratch_block(stage, 0),
                   scratch_block(pre, 1)},
          .to = {output_block(1), output_block(3)},
          .out = {single},
          .order = {1, 0},
          .post = true});
  b.recv(two, hub, {output_block(0), output_block(1), output_block(2), output_block(3)});
  Schedule schedule = std::move(b).finish();
  schedule.channels[static_cast<std::size_t>(single)].single_hop = true;
  return schedule;
}

}  // namespace sennit
