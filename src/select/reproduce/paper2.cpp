// Awan et al. 2018: broadcast on KESCH, a dense node of 16 GPUs, and several of them. Its figures
// print no values; what can be checked is who wins, and whether the equations hold on a machine
// whose links are shared.
#include "select/models.hpp"
#include "select/reproduce/claims.hpp"

#include <algorithm>
#include <array>

namespace sennit {
namespace {

constexpr std::array kRanks = {2, 4, 8, 16, 64, 128};
constexpr int kGpusOfANode = 16;
constexpr std::int64_t kLarge = std::int64_t{64} << 20;
constexpr std::int64_t kSmall = 8 * 1024;

Run broadcast(std::string_view algorithm, int ranks, std::int64_t bytes) {
  return {.collective = Collective::kBroadcast,
          .algorithm = algorithm,
          .ranks = ranks,
          .bytes = bytes,
          .radix = algorithm == "k_nomial" ? 2 : 0};
}

// The slowest link on the way, and the start-up that all paths of this machine have.
models::LinkModel slowest_link(const Topology& machine, int ranks) {
  models::LinkModel link{.start_s = machine.cost(PathKind::kHost).start_us * 1e-6,
                         .bytes_per_s = 1e18};
  for (const Wire& wire : machine.wires) {
    const bool used =
        wire.kind == WireKind::kPcie || (wire.kind == WireKind::kNet && ranks > kGpusOfANode);
    constexpr double kGiga = 1e9;
    const bool of_card =
        machine.vertices[static_cast<std::size_t>(wire.a)].kind == VertexKind::kNic;
    if (used && (!of_card || ranks > kGpusOfANode)) {
      link.bytes_per_s = std::min(link.bytes_per_s, wire.gbps * kGiga);
    }
  }
  return link;
}

Result<double> against_equation_5(const Topology& machine, int ranks) {
  const models::LinkModel link = slowest_link(machine, ranks);
  const auto bytes = static_cast<double>(kLarge);
  const double chunk = models::broadcast_best_chunk(link, ranks, bytes);
  const double model = models::broadcast_pipelined_chain(link, ranks, bytes, chunk);
  SENNIT_ASSIGN_OR_RETURN(
      const double simulated,
      simulated_seconds(
          machine, broadcast("chain", ranks, kLarge), static_cast<std::int64_t>(chunk)));
  return simulated / model;
}

}  // namespace

std::vector<Claim> claims_of_paper2() {
  std::vector<Claim> claims;
  for (const int ranks : kRanks) {
    const std::string figure = ranks <= kGpusOfANode ? "figure 1" : "figure 2";
    claims.push_back(
        {.figure = "equation (5)",
         .quantity = fmt::format("pipelined chain of 64 MB to {} GPUs, against (5)", ranks),
         .unit = "of (5)",
         .paper_value = 1,
         .machine = "kesch",
         .ours = [ranks](const Topology& m) { return against_equation_5(m, ranks); },
         .why = "(5) with the slowest link on the way; hops through the host take two stages"});
    claims.push_back(
        {.figure = figure,
         .quantity = fmt::format("pipelined chain against k-nomial, 64 MB to {} GPUs", ranks),
         .unit = "x",
         .paper_value = std::nullopt,
         .machine = "kesch",
         .ours =
             [ranks](const Topology& m) {
               return simulated_gain(
                   m, broadcast("chain", ranks, kLarge), broadcast("k_nomial", ranks, kLarge));
             },
         .why = "no value is printed; with two ranks both are one message"});
    claims.push_back({.figure = figure,
                      .quantity = fmt::format("k-nomial against chain, 8 KB to {} GPUs", ranks),
                      .unit = "x",
                      .paper_value = std::nullopt,
                      .machine = "kesch",
                      .ours =
                          [ranks](const Topology& m) {
                            return simulated_gain(m,
                                                  broadcast("k_nomial", ranks, kSmall),
                                                  broadcast("chain", ranks, kSmall));
                          },
                      .why = "no value is printed; with two ranks both are one message"});
  }
  // With two ranks nothing is compared.
  std::erase_if(claims, [](const Claim& claim) {
    return claim.unit == "x" && claim.quantity.ends_with(" 2 GPUs");
  });
  return claims;
}

}  // namespace sennit
