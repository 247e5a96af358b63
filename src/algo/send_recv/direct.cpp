#include "algo/send_recv/send_recv.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::send_recv {
namespace {

std::string_view refuses(const Shape& shape) {
  return shape.ranks == 2 ? "" : "it has two roles, the sender 0 and the receiver 1";
}

Schedule build(const Shape&) {
  Builder b("direct", {.collective = Collective::kSendRecv, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int channel = b.single_hop_channel(lanes[0], lanes[1]);
  b.send(lanes[0], {input_block(0)}, channel);
  b.recv(lanes[1], channel, {output_block(0)});
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) { return from == 0 && to == 1 ? 1 : 0; }

std::int64_t rounds(const Shape&) { return 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kSendRecv,
          .name = "direct",
          .summary = "role 0 sends, role 1 receives",
          .source = "textbook: point to point",
          .build = build,
          .refuses = refuses,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::send_recv
