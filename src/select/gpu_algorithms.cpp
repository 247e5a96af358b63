#include "select/gpu_algorithms.hpp"

#include <algorithm>
#include <array>

namespace sennit {
namespace {

using Message = GpuAlgorithm::Message;

constexpr std::array kGpuAlgorithms = {
    GpuAlgorithm{"direct", Message::kWhole, /*has_kernel=*/true, /*passes_on=*/false},
    GpuAlgorithm{"one_shot", Message::kWhole, /*has_kernel=*/true, /*passes_on=*/false},
    GpuAlgorithm{"two_shot", Message::kByRanks, /*has_kernel=*/true, /*passes_on=*/false},
    GpuAlgorithm{"scatter_forward", Message::kByPeers, /*has_kernel=*/true, /*passes_on=*/true},
    GpuAlgorithm{"leader", Message::kWhole, /*has_kernel=*/false, /*passes_on=*/false},
    GpuAlgorithm{"shared_buffer",
                 Message::kWhole,
                 /*has_kernel=*/false,
                 /*passes_on=*/false,
                 /*shares_copies=*/true},
    GpuAlgorithm{"scatter_gather", Message::kByPeers, /*has_kernel=*/true, /*passes_on=*/true},
};

// By copy engines a one-shot all_reduce could not be in place, where every rank reads the whole
// input; a reduce in two hops has sums that are stored nowhere; and they do not pass on what comes.
constexpr std::array kGpuCollectives = {
    // one hop, two hops, on the host, by copy engines, by a leader, through groups
    GpuCollective{Collective::kAllReduce,
                  "one_shot",
                  "two_shot",
                  "",
                  "two_shot",
                  "leader",
                  "hierarchical_sliced"},
    GpuCollective{Collective::kReduce, "direct", "scatter_gather", "", "direct", "direct", ""},
    GpuCollective{
        Collective::kBroadcast, "direct", "scatter_forward", "hub", "direct", "direct", ""},
    GpuCollective{Collective::kAllGather, "direct", "", "hub", "", "direct", ""},
    GpuCollective{Collective::kReduceScatter, "direct", "", "", "", "direct", ""},
    GpuCollective{Collective::kAllToAll, "direct", "", "direct", "", "direct", ""},
    GpuCollective{Collective::kGather, "direct", "", "direct", "", "direct", ""},
    GpuCollective{Collective::kScatter, "direct", "", "direct", "", "direct", ""},
    GpuCollective{Collective::kSendRecv, "direct", "", "direct", "", "", ""},
    GpuCollective{Collective::kBarrier, "dissemination", "", "", "", "dissemination", ""},
};

// Bytes that one hop has more to send, or to take, at the busiest rank than two.
std::int64_t more_in_one_hop(Collective collective, int ranks, std::int64_t bytes) {
  // One-shot sends (n - 1) vectors, two-shot 2 (n - 1) / n. A root has (n - 1) vectors in one hop
  // and one in two.
  return collective == Collective::kAllReduce ? bytes * (ranks - 1) * (ranks - 2) / ranks
                                              : bytes * (ranks - 2);
}

}  // namespace

const GpuAlgorithm* find_gpu_algorithm(std::string_view name) {
  const auto* const row = std::ranges::find(kGpuAlgorithms, name, &GpuAlgorithm::name);
  return row == kGpuAlgorithms.end() ? nullptr : row;
}

bool has_direct_kernel(std::string_view algorithm) {
  const GpuAlgorithm* const known = find_gpu_algorithm(algorithm);
  return known != nullptr && known->has_kernel;
}

const GpuCollective& gpu_collective(Collective collective) {
  return *std::ranges::find(kGpuCollectives, collective, &GpuCollective::collective);
}

std::int64_t message_bytes(std::string_view algorithm, int ranks, std::int64_t bytes) {
  const GpuAlgorithm* const known = find_gpu_algorithm(algorithm);
  switch (known == nullptr ? Message::kWhole : known->message) {
    case Message::kWhole:
      return bytes;
    case Message::kByRanks:
      return bytes / ranks;
    case Message::kByPeers:
      return bytes / std::max(1, ranks - 1);
  }
  return bytes;
}

std::string_view algorithm_by_model(Collective collective,
                                    int ranks,
                                    std::int64_t bytes,
                                    std::int64_t hop_bytes) {
  const GpuCollective& known = gpu_collective(collective);
  return known.two_hops.empty() || more_in_one_hop(collective, ranks, bytes) <= hop_bytes
             ? known.one_hop
             : known.two_hops;
}

}  // namespace sennit
