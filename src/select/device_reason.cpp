#include "select/device_reason.hpp"

#include "base/integers.hpp"
#include "select/copy_choice.hpp"
#include "select/packet_choice.hpp"
#include "select/read_choice.hpp"

namespace sennit {
namespace {

// Sizes of rules are whole powers of two.
std::string human(std::int64_t bytes) {
  return bytes % kMega == 0   ? fmt::format("{} MB", bytes / kMega)
         : bytes % kKilo == 0 ? fmt::format("{} KB", bytes / kKilo)
                              : fmt::format("{} B", bytes);
}

std::string why_packets(const DeviceChoice& choice,
                        int ranks,
                        std::int64_t bytes,
                        const GpuProfile& profile) {
  const Algorithm& algorithm = *choice.algorithm;
  if (const auto from = timed_from_bytes(profile, algorithm.collective, ranks, bytes, {})) {
    return fmt::format(
        "it was the fastest way timed from {} of all ranks together on (GPU profile {})",
        human(*from),
        profile.name);
  }
  const bool small = choice.protocol == Protocol::kLl;
  return fmt::format(
      "by the model, as nothing was timed at this size: a second hop costs as much as {} KB, and "
      "{} {} of a rank in a hop go by {}",
      profile.hop_bytes / 1000,
      small ? "up to" : "more than",
      human(profile.ll_up_to_bytes),
      name(choice.protocol));
}

}  // namespace

std::string reason_for(const DeviceChoice& choice,
                       int ranks,
                       std::int64_t bytes,
                       const DeviceFacts& facts) {
  const Collective collective = choice.algorithm->collective;
  const bool is_message = collective == Collective::kSendRecv;
  std::string why;
  if (choice.engine == Engine::kStream) {
    why = fmt::format("copy engines {} of {} and more{}",
                      is_message ? "move messages" : "run calls",
                      human(copied_from_bytes(collective, facts)),
                      is_message ? "; those whose recv is posted in time, by direct_put" : "");
  } else if (choice.protocol == Protocol::kDirectPut) {
    why = fmt::format(
        "kernels store it in place from {} {} on",
        human(is_message ? facts.profile->message_puts_from_bytes : facts.profile->puts_from_bytes),
        is_message ? "a message" : "of all ranks together");
  } else if (choice.protocol == Protocol::kDirectGet) {
    why = fmt::format("{} thread blocks read what they reduce where it lies",
                      reading_blocks(collective, ranks, facts));
  } else {
    why = why_packets(choice, ranks, bytes, *facts.profile);
  }
  return fmt::format("GPU ranks take {} by {}{}: {}",
                     choice.algorithm->name,
                     name(choice.protocol),
                     choice.host_share > 0
                         ? fmt::format(", {}{} % of it through host memory",
                                       choice.dynamic_share ? "as the load allows, first " : "",
                                       choice.host_share)
                         : std::string(),
                     why);
}

}  // namespace sennit
