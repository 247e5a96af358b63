// Zhou et al.: all-to-all staged through the host with online compression, and all-to-all over
// peer mappings.
#include "select/models.hpp"
#include "select/reproduce/claims.hpp"

namespace sennit {
namespace {

constexpr double kGiga = 1e9;
constexpr int kStreams = 4;

// What one rank of `node_ranks` on a node sees: its own PCIe link, and its part of the node's
// cards. The codec reads and writes memory once, at best.
models::CompressionModel model_of(const Topology& machine, int rate) {
  models::CompressionModel model{.rate = rate};
  double gpus = 0;
  double network_gbps = 0;
  for (const Vertex& vertex : machine.vertices) {
    if (vertex.kind == VertexKind::kGpu) {
      ++gpus;
      model.codec_bytes_per_s = vertex.memory_gbps / 2 * kGiga;
    }
  }
  for (const Wire& wire : machine.wires) {
    const std::string& from = machine.vertices[static_cast<std::size_t>(wire.a)].name;
    if (wire.kind == WireKind::kNet) {
      network_gbps += wire.gbps;
    } else if (from == "gpu0" &&
               machine.vertices[static_cast<std::size_t>(wire.b)].kind == VertexKind::kCpu) {
      model.pcie = {.start_s = machine.cost(PathKind::kHost).start_us * 1e-6,
                    .bytes_per_s = wire.gbps * kGiga};
    }
  }
  model.network = {.start_s = machine.cost(PathKind::kRail).start_us * 1e-6,
                   .bytes_per_s = network_gbps * kGiga / gpus};
  return model;
}

// Percent of the time of the staged all-to-all that compression saves, for messages of 16 MB.
Result<double> percent_saved(const Topology& machine, int rate) {
  constexpr double kMessage = 16 * kMiB;
  constexpr int kNone = 32;
  const double plain = models::compressed_message(model_of(machine, kNone), kMessage, kStreams);
  const double packed = models::compressed_message(model_of(machine, rate), kMessage, kStreams);
  constexpr double kPercent = 100;
  return kPercent * (1 - packed / plain);
}

Claim saving(std::string figure,
             std::string quantity,
             std::string machine,
             int rate,
             std::optional<double> printed) {
  return {.figure = std::move(figure),
          .quantity = std::move(quantity),
          .unit = "% saved",
          .paper_value = printed,
          .how = How::kModel,
          .machine = std::move(machine),
          .ours = [rate](const Topology& m) { return percent_saved(m, rate); },
          .why = {}};
}

// The rival of MPI libraries that descend from MPICH: Bruck's algorithm for short messages, rounds
// of pairs for long ones.
Result<double> all_to_all_gain(const Topology& machine, int gpus, std::int64_t bytes) {
  constexpr std::int64_t kShort = 256;
  return simulated_gain(
      machine,
      {.collective = Collective::kAllToAll, .algorithm = "direct", .ranks = gpus, .bytes = bytes},
      {.collective = Collective::kAllToAll,
       .algorithm = bytes <= kShort ? "bruck" : "pairwise",
       .ranks = gpus,
       .bytes = bytes});
}

void add_compression(std::vector<Claim>& claims) {
  for (const std::string_view machine : {"frontera-rtx", "longhorn"}) {
    for (const int rate : {4, 8, 16, 24}) {
      claims.push_back(saving("slides on ZFP-OPT",
                              fmt::format("16 MB all-to-all at rate {}, against rate 32", rate),
                              std::string(machine),
                              rate,
                              rate == 4 ? std::optional(87.1) : std::nullopt));
      claims.back().why = rate == 4
                              ? "on constant buffers; on real data 4 bits a value are mostly header"
                              : "a figure without printed values";
    }
  }
  claims.push_back(saving("PSDNS", "all-to-all at rate 24, 64 GPUs", "longhorn", 24, 29.2));
  claims.back().why = "24 of 32 bits can save 25 %; the paper's rival is another algorithm as well";
  claims.push_back(saving("DeepSpeed", "all-to-all at rate 16, 32 GPUs", "longhorn", 16, 35.8));
  claims.back().why = "the message size of the paper's run is not given; 16 MB here";
}

void add_peer_mappings(std::vector<Claim>& claims) {
  const auto add =
      [&](std::string quantity, double printed, int gpus, std::int64_t bytes, std::string why) {
        claims.push_back(
            {.figure = "slides on IPC all-to-all",
             .quantity = std::move(quantity),
             .unit = "x",
             .paper_value = printed,
             .machine = "thetagpu",
             .ours = [=](const Topology& m) { return all_to_all_gain(m, gpus, bytes); },
             .why = std::move(why)});
      };
  add("IPC all-to-all of 16 B, 8 GPUs",
      1.4,
      8,
      16,
      "all pairs at once against the three rounds of Bruck's algorithm; what a library's call "
      "costs by itself makes the paper's gain smaller");
  add("IPC all-to-all of 64 MB, 8 GPUs",
      1.2,
      8,
      std::int64_t{8} << 20,
      "all pairs at once against rounds of pairs; the paper's rival is a library");
  add("IPC all-to-all of 16 B, 128 GPUs",
      13,
      128,
      16,
      "all pairs at once against the seven rounds of Bruck's algorithm");
  add("IPC all-to-all of 1 MB, 128 GPUs",
      1.2,
      128,
      std::int64_t{1} << 20,
      "all pairs at once against rounds of pairs");
}

}  // namespace

std::vector<Claim> claims_of_paper4() {
  std::vector<Claim> claims;
  add_compression(claims);
  add_peer_mappings(claims);
  return claims;
}

}  // namespace sennit
