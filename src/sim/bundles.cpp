#include "sim/bundles.hpp"

#include <array>
#include <limits>

namespace sennit::sim {

int soonest_path(const FlowNetwork& network,
                 const ChannelCounts& channels,
                 const Outgoing& messages,
                 const Ways& ways,
                 double bytes) {
  double least = std::numeric_limits<double>::infinity();
  int best = 0;
  for (const Part& part : ways.parts) {
    if (part.channel != ways.bundle || part.alternative < 0 ||
        !channels.has_room_on(messages.channel, part.alternative, messages.count)) {
      continue;
    }
    const double time = static_cast<double>(part.start) + bytes / network.fair_share(*part.uses);
    if (time < least || (time == least && part.alternative == ways.preferred)) {
      least = time;
      best = part.alternative;
    }
  }
  return best;
}

int pick_path(const PathPolicy& policy,
              const ChannelCounts& channels,
              std::span<const int> bundles,
              const Outgoing& messages) {
  std::array<PathView, kMaxBundlePaths> views;
  for (const int bundle : bundles) {
    for (int p = 0; p < channels.paths(bundle); ++p) {
      PathView& view = views[static_cast<std::size_t>(p)];
      view.under_way += channels.under_way(bundle, p);
      view.taken += channels.freed_on(bundle, p);
    }
  }
  const int paths = channels.paths(messages.channel);
  for (int p = 0; p < paths; ++p) {
    views[static_cast<std::size_t>(p)].free =
        channels.has_room_on(messages.channel, p, messages.count);
  }
  return pick(policy,
              {.number = static_cast<std::uint64_t>(channels.sent(messages.channel)),
               .channel = static_cast<std::uint64_t>(messages.channel)},
              std::span(views).first(static_cast<std::size_t>(paths)));
}

Status check_choices(const Plan& plan) {
  if (plan.division == Division::kClaimed) {
    return fail(Code::kUnsupported,
                "a claimed plan is not simulated: its leader gives out grains while it runs");
  }
  for (const Strand& strand : plan.strands) {
    for (const ChannelBinding& channel : strand.channels) {
      if (channel.paths.size() > 1 && channel.chooser == Chooser::kReader) {
        return fail(Code::kUnsupported, "a bundle whose reader picks the path is not simulated");
      }
    }
  }
  return {};
}

}  // namespace sennit::sim
