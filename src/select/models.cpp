#include "select/models.hpp"

#include "schedule/dynamic_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

namespace sennit::models {
namespace {

// ceil(log_k n), counted: a quotient of logarithms may fall to the wrong side of a whole number.
int rounds_of_tree(int ranks, int radix) {
  int rounds = 0;
  for (long long reached = 1; reached < ranks; reached *= radix) {
    ++rounds;
  }
  return rounds;
}

// Peers among `count`, oneself included as the paper has it or not.
int peers(const MultiRailModel& model, int count) { return model.corrected ? count - 1 : count; }

}  // namespace

double broadcast_direct_as_printed(const LinkModel& link, int ranks, double bytes) {
  return ranks * link.message(bytes);
}

double broadcast_direct(const LinkModel& link, int ranks, double bytes) {
  return (ranks - 1) * link.message(bytes);
}

double broadcast_chain(const LinkModel& link, int ranks, double bytes) {
  return (ranks - 1) * link.message(bytes);
}

double broadcast_k_nomial_as_printed(const LinkModel& link, int ranks, int radix, double bytes) {
  return rounds_of_tree(ranks, radix) * link.message(bytes);
}

double broadcast_k_nomial(const LinkModel& link, int ranks, int radix, double bytes) {
  return (radix - 1) * broadcast_k_nomial_as_printed(link, ranks, radix, bytes);
}

double broadcast_scatter_all_gather(const LinkModel& link, int ranks, double bytes) {
  return (rounds_of_tree(ranks, 2) + ranks - 1) * link.start_s +
         2.0 * (ranks - 1) / ranks * bytes / link.bytes_per_s;
}

double broadcast_pipelined_chain(const LinkModel& link, int ranks, double bytes, double chunk) {
  return (bytes / chunk + ranks - 2) * link.message(chunk);
}

double broadcast_best_chunk(const LinkModel& link, int ranks, double bytes) {
  return ranks <= 2
             ? bytes
             : std::min(bytes, std::sqrt(bytes * link.start_s * link.bytes_per_s / (ranks - 2)));
}

double shared_chain_messages(int ranks, double bytes, double chunk, double copies) {
  const double chunks = bytes / chunk;
  return std::max(chunks + ranks - 2, (ranks - 1) * chunks / copies);
}

double broadcast_shared_chain(
    const LinkModel& link, int ranks, double bytes, double chunk, double copies) {
  return shared_chain_messages(ranks, bytes, chunk, copies) * link.message(chunk);
}

double broadcast_shared_best_chunk(const LinkModel& link, int ranks, double bytes, double copies) {
  if (ranks <= 2) {
    return bytes;
  }
  const double unbound = bytes * ((ranks - 1) / copies - 1) / (ranks - 2);
  return std::min(bytes, std::max(unbound, broadcast_best_chunk(link, ranks, bytes)));
}

double broadcast_staged_k_nomial(
    const LinkModel& link, int ranks, int radix, double bytes, double pcie_bytes_per_s) {
  return bytes / pcie_bytes_per_s + broadcast_k_nomial_as_printed(link, ranks, radix, bytes);
}

double multi_path_best_share(const MultiPathModel& model) {
  return model.host_bytes_per_s / (model.direct_bytes_per_s + model.host_bytes_per_s);
}

double multi_path_host_time(const MultiPathModel& model, double host_bytes, double chunk) {
  return (host_bytes / chunk + 1) * (model.host_start_s + chunk / model.host_bytes_per_s);
}

double multi_path_best_chunk(const MultiPathModel& model, double host_bytes) {
  return std::min(host_bytes, std::sqrt(host_bytes * model.host_start_s * model.host_bytes_per_s));
}

double multi_path_time(const MultiPathModel& model, double bytes, double host_share) {
  const double direct = (1 - host_share) * bytes / model.direct_bytes_per_s;
  const double host_bytes = host_share * bytes;
  if (host_bytes == 0) {
    return direct;
  }
  // Without a start-up the best chunk is infinitely small, and the pipeline full at once.
  const double chunk = multi_path_best_chunk(model, host_bytes);
  const double host = chunk > 0 ? multi_path_host_time(model, host_bytes, chunk)
                                : host_bytes / model.host_bytes_per_s;
  return std::max(direct, host);
}

double multi_rail_inter(const MultiRailModel& model, double bytes) {
  return peers(model, model.nodes) * model.network.message(bytes);
}

double multi_rail_intra(const MultiRailModel& model, double bytes) {
  return model.nodes * peers(model, model.gpus_per_node) * model.gpu.message(bytes);
}

double multi_rail_basic(const MultiRailModel& model, double bytes) {
  return multi_rail_inter(model, bytes) + multi_rail_intra(model, bytes);
}

double multi_rail_local(const MultiRailModel& model, double bytes) {
  return peers(model, model.gpus_per_node) * model.gpu.message(bytes);
}

double multi_rail_inter_single(const MultiRailModel& model, double bytes) {
  return peers(model, model.nodes) * model.network.message(bytes);
}

double multi_rail_intra_single(const MultiRailModel& model, double bytes) {
  return (model.nodes - 1) * peers(model, model.gpus_per_node) * model.gpu.message(bytes);
}

double multi_rail_optimized(const MultiRailModel& model, double bytes, int segments) {
  const double segment = bytes / segments;
  const double inter = multi_rail_inter_single(model, segment);
  const double intra = multi_rail_intra_single(model, segment);
  return std::max(multi_rail_local(model, bytes), inter) + (segments - 1) * std::max(inter, intra) +
         intra;
}

int multi_rail_best_segments(const MultiRailModel& model, double bytes, int most) {
  int best = 1;
  for (int segments = 2; segments <= most; ++segments) {
    if (multi_rail_optimized(model, bytes, segments) < multi_rail_optimized(model, bytes, best)) {
      best = segments;
    }
  }
  return best;
}

namespace {

// Of one message: seconds in each of its stages.
struct CompressedStages {
  CompressedStages(const CompressionModel& model, double bytes)
      : wire_bytes(bytes * model.rate / kPlainBits),
        codec(model.rate < kPlainBits ? bytes / model.codec_bytes_per_s : 0),
        pcie(model.pcie.message(wire_bytes)),
        network(model.network.message(wire_bytes)) {}

  static constexpr double kPlainBits = 32;
  double wire_bytes;
  double codec;
  double pcie;
  double network;
};

}  // namespace

double compressed_message(const CompressionModel& model, double bytes, int streams) {
  const CompressedStages part(model, bytes / streams);
  // The first part passes all stages; then the slowest stage decides.
  return 2 * part.codec + 2 * part.pcie + part.network +
         (streams - 1) * std::max({part.codec, part.pcie, part.network});
}

double compressed_exchange(const CompressionModel& model, const CompressedExchange& exchange) {
  const CompressedStages message(model, exchange.bytes);
  const int others = exchange.local + exchange.remote - 1;
  return 2 * message.codec + 2 * message.pcie + message.network +
         std::max({others * message.codec,
                   others * message.pcie,
                   (exchange.remote - 1) * message.network});
}

double compressed_scatter(const CompressionModel& model,
                          const CompressedExchange& exchange,
                          const LinkModel& local) {
  const CompressedStages message(model, exchange.bytes);
  return (exchange.local + exchange.remote) * 2 * message.codec +
         std::max(exchange.remote * message.network,
                  exchange.local * local.message(message.wire_bytes));
}

double compressed_pairs(const CompressionModel& model,
                        const CompressedExchange& exchange,
                        const LinkModel& local) {
  const CompressedStages message(model, exchange.bytes);
  return (exchange.local + exchange.remote) * 2 * message.codec +
         exchange.remote * message.network + exchange.local * local.message(message.wire_bytes);
}

namespace {

// Copies of one kind, of messages of `bytes`.
struct Copies {
  const LinkModel& link;
  double bytes;
  double free = 0;             // when the last of them has ended
  std::deque<double> begun{};  // when the start-ups of the others have ended, or with a change of
                               // context, when they were asked for
};

// The GPU as several ranks copy on it. Under MPS start-ups go through one queue, and copies of the
// two kinds overlap. Without it the GPU has one rank at a time: each copy waits for the one before
// it, and pays a change of context and its own start-up.
class SharedGpu {
 public:
  SharedGpu(const SharedGpuModel& model, double bytes)
      : switch_s_(model.switch_s),
        device{.link = model.device, .bytes = bytes},
        host{.link = model.host, .bytes = bytes} {}

  void ask(Copies& kind, double now, int count) {
    for (int i = 0; i < count; ++i) {
      queue_ = std::max(queue_, now) + (switch_s_ == 0 ? kind.link.start_s : 0);
      kind.begun.push_back(queue_);
    }
  }
  [[nodiscard]] double next_end(const Copies& kind) const {
    if (kind.begun.empty()) {
      return std::numeric_limits<double>::infinity();
    }
    return switch_s_ == 0
               ? std::max(kind.free, kind.begun.front()) + kind.bytes / kind.link.bytes_per_s
               : std::max(busy_, kind.begun.front()) + switch_s_ + kind.link.message(kind.bytes);
  }
  // Which ends next; none is left where its end is infinite.
  Copies& next() { return next_end(device) <= next_end(host) ? device : host; }
  double end_next() {
    Copies& kind = next();
    kind.free = next_end(kind);
    busy_ = std::max(busy_, kind.free);
    kind.begun.pop_front();
    return kind.free;
  }
  [[nodiscard]] bool is_idle() const { return device.begun.empty() && host.begun.empty(); }
  // All that has been asked for.
  double end_all() {
    while (!is_idle()) {
      end_next();
    }
    return std::max(device.free, host.free);
  }

 private:
  double switch_s_;
  double queue_ = 0;  // when the last start-up has ended
  double busy_ = 0;   // until when the GPU has a rank

 public:
  Copies device;
  Copies host;
};

double shared_gpu_copies(const SharedGpuModel& model, double bytes, int device, int host) {
  SharedGpu gpu(model, bytes);
  gpu.ask(gpu.host, 0, host);
  gpu.ask(gpu.device, 0, device);
  return gpu.end_all();
}

double shared_gpu_reduction(const SharedGpuModel& model, double bytes) {
  return model.switch_s + model.device.start_s +
         (model.ranks + 1) * bytes / model.memory_bytes_per_s;
}

// The gather as the leader drives it, of members that are all ready at its begin.
struct DynamicGather {
  double seconds = 0;
  DynamicPolicy policy;
};

DynamicGather dynamic_gather(const SharedGpuModel& model, double bytes) {
  constexpr int kDevice = 0;
  constexpr int kHost = 1;
  DynamicGather result{.policy = DynamicPolicy(model.ranks - 1)};
  SharedGpu gpu(model, bytes);
  std::array<std::deque<int>, 2> members;  // whose copies are under way, by kind
  for (int member = 1; member < model.ranks; ++member) {
    result.policy.arrive(member);
  }
  // A copy that was begun twice is as good as ended when one of the two is.
  int left = model.ranks - 1;
  std::vector<bool> has_ended(static_cast<std::size_t>(model.ranks));
  while (left > 0) {
    while (const auto issue = result.policy.next()) {
      gpu.ask(issue->type == kDevice ? gpu.device : gpu.host, result.seconds, 1);
      members[static_cast<std::size_t>(issue->type)].push_back(issue->member);
    }
    const int kind = &gpu.next() == &gpu.device ? kDevice : kHost;
    std::deque<int>& of_kind = members[static_cast<std::size_t>(kind)];
    result.seconds = gpu.end_next();
    const int member = of_kind.front();
    of_kind.pop_front();
    result.policy.complete(member, kind);
    if (!has_ended[static_cast<std::size_t>(member)]) {
      has_ended[static_cast<std::size_t>(member)] = true;
      --left;
    }
  }
  return result;
}

// Copies of each kind that carry the result back.
std::array<std::int64_t, 2> dynamic_scatter(const DynamicPolicy& policy, int copies) {
  std::array<std::int64_t, 2> load{};
  for (int copy = 0; copy < copies; ++copy) {
    ++load[static_cast<std::size_t>(policy.type_for_scatter(load))];
  }
  return load;
}

}  // namespace

double shared_gpu_static(const SharedGpuModel& model, double bytes) {
  const int copies = model.ranks - 1;
  double least = shared_gpu_copies(model, bytes, copies, 0);
  for (int host = 1; host <= copies; ++host) {
    least = std::min(least, shared_gpu_copies(model, bytes, copies - host, host));
  }
  return 2 * least + shared_gpu_reduction(model, bytes);
}

double shared_gpu_dynamic(const SharedGpuModel& model, double bytes) {
  const DynamicGather gather = dynamic_gather(model, bytes);
  const auto [device, host] = dynamic_scatter(gather.policy, model.ranks - 1);
  return gather.seconds + shared_gpu_reduction(model, bytes) +
         shared_gpu_copies(model, bytes, static_cast<int>(device), static_cast<int>(host));
}

double bound_all_reduce(double port_bytes_per_s, int ranks, double bytes) {
  return 2.0 * (ranks - 1) / ranks * bytes / port_bytes_per_s;
}

double bound_exchange(double port_bytes_per_s, int ranks, double bytes) {
  return 1.0 * (ranks - 1) / ranks * bytes / port_bytes_per_s;
}

double bound_broadcast(double port_bytes_per_s, double bytes) { return bytes / port_bytes_per_s; }

}  // namespace sennit::models
