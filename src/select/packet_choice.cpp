#include "select/packet_choice.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Null: nothing was measured.
const GpuProfile::Packets* find_measured(const GpuProfile& profile,
                                         Collective collective,
                                         int ranks,
                                         std::int64_t bytes,
                                         std::string_view wanted) {
  const std::int64_t total = total_bytes(collective, ranks, bytes);
  const auto row = std::ranges::find_if(profile.packets, [&](const GpuProfile::Packets& packets) {
    return packets.collective == collective && ranks <= packets.up_to_ranks &&
           total >= packets.from_bytes && (wanted.empty() || packets.algorithm == wanted);
  });
  return row == profile.packets.end() ? nullptr : &*row;
}

}  // namespace

std::int64_t total_bytes(Collective collective, int ranks, std::int64_t bytes) {
  return is_cut(collective) ? bytes : bytes * ranks;
}

std::int64_t ll_send_bytes(const GpuProfile& profile, int ranks) {
  constexpr int kMostMeasured = 4;
  return profile.ll_up_to_bytes / (ranks <= kMostMeasured ? 1 : ranks - 1);
}

namespace {

PacketWay packets_by_model(const GpuProfile& profile,
                           Collective collective,
                           int ranks,
                           std::int64_t bytes,
                           std::string_view wanted) {
  const std::string_view algorithm =
      wanted.empty() ? algorithm_by_model(collective, ranks, bytes, profile.hop_bytes) : wanted;
  const bool is_small =
      (ranks - 1) * message_bytes(algorithm, ranks, bytes) <= profile.ll_up_to_bytes;
  return {algorithm, is_small ? Protocol::kLl : Protocol::kLl128};
}

}  // namespace

PacketWay packets_for(const GpuProfile& profile,
                      Collective collective,
                      int ranks,
                      std::int64_t bytes,
                      std::string_view wanted,
                      std::int64_t round_bytes) {
  const GpuProfile::Packets* const row = find_measured(profile, collective, ranks, bytes, wanted);
  const PacketWay way = row != nullptr
                            ? PacketWay{row->algorithm, row->protocol}
                            : packets_by_model(profile, collective, ranks, bytes, wanted);
  const bool has_a_round = message_bytes(way.algorithm, ranks, bytes) <= round_bytes;
  return way.protocol == Protocol::kLl && !has_a_round ? PacketWay{way.algorithm, Protocol::kLl128}
                                                       : way;
}

std::optional<std::int64_t> timed_from_bytes(const GpuProfile& profile,
                                             Collective collective,
                                             int ranks,
                                             std::int64_t bytes,
                                             std::string_view wanted) {
  const GpuProfile::Packets* const row = find_measured(profile, collective, ranks, bytes, wanted);
  return row == nullptr ? std::nullopt : std::optional(row->from_bytes);
}

}  // namespace sennit
