// Codecs of plans.
#include "codec/codec.hpp"
#include "schedule/plan.hpp"

#include <algorithm>

namespace sennit {
namespace {

bool is_coded(const Strand& strand) {
  return strand.home_codec.has_value() ||
         std::ranges::any_of(strand.channels, [](const ChannelBinding& channel) {
           return channel.codec.has_value();
         });
}

}  // namespace

bool has_codec(const Plan& plan) {
  return std::ranges::any_of(plan.strands, [](const Strand& strand) { return is_coded(strand); });
}

std::optional<Codec> codec_of(const Plan& plan) {
  for (const Strand& strand : plan.strands) {
    for (const ChannelBinding& channel : strand.channels) {
      if (channel.codec) {
        return channel.codec;
      }
    }
  }
  return plan.strands.front().home_codec;
}

void set_codec(Strand& strand, Codec codec) {
  for (ChannelBinding& channel : strand.channels) {
    channel.codec = codec;
  }
  switch (strand.schedule->problem.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kAllGather:
      strand.home_codec = is_lossless(codec) ? std::nullopt : std::optional(codec);
      return;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kBarrier:
    case Collective::kSendRecv:
      strand.home_codec = std::nullopt;
      return;
  }
}

}  // namespace sennit
