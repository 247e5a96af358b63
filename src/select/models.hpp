// Cost models: the closed forms of the papers, as they print them, each next to the form that holds
// where the paper slips (docs/models.md). Bytes and bytes a second; times in seconds.
//
//   const LinkModel link{.start_s = 10e-6, .bytes_per_s = 11e9};
//   double t = broadcast_pipelined_chain(link, 16, 64e6, broadcast_best_chunk(link, 16, 64e6));
#pragma once

namespace sennit::models {

struct LinkModel {
  double start_s = 0;  // t_s: before the first byte of a message moves
  double bytes_per_s = 1;

  [[nodiscard]] double message(double bytes) const { return start_s + bytes / bytes_per_s; }
};

// ---- Broadcast of M bytes to n ranks (paper 2: Awan et al. 2018)

// (1) n (t_s + M/B), as printed; the root sends n - 1 messages, which the second form counts.
double broadcast_direct_as_printed(const LinkModel& link, int ranks, double bytes);
double broadcast_direct(const LinkModel& link, int ranks, double bytes);
// (2) (n - 1)(t_s + M/B)
double broadcast_chain(const LinkModel& link, int ranks, double bytes);
// (3) ceil(log_k n)(t_s + M/B), as printed. A parent sends to its k - 1 children one after the
// other, so the second form has (k - 1) messages a round.
double broadcast_k_nomial_as_printed(const LinkModel& link, int ranks, int radix, double bytes);
double broadcast_k_nomial(const LinkModel& link, int ranks, int radix, double bytes);
// (4) (ceil(log2 n) + n - 1) t_s + 2 (n-1)/n M/B
double broadcast_scatter_all_gather(const LinkModel& link, int ranks, double bytes);
// (5) (M/C + n - 2)(t_s + C/B)
double broadcast_pipelined_chain(const LinkModel& link, int ranks, double bytes, double chunk);
// C* = sqrt(M t_s B/(n - 2)), where (5) is least: (sqrt(M/B) + sqrt((n - 2) t_s))^2. M for n = 2.
double broadcast_best_chunk(const LinkModel& link, int ranks, double bytes);

// (5) where ranks share cores or memory, so that only `copies` messages move at full speed at once:
// the bytes of all n - 1 hops pass there. For n - 1 copies and more it is (5). `copies` is at
// least 1.
double broadcast_shared_chain(
    const LinkModel& link, int ranks, double bytes, double chunk, double copies);
// The messages of its slower part, each of which takes t_s + C/B.
double shared_chain_messages(int ranks, double bytes, double chunk, double copies);
// Its optimum: where the copies are no longer what binds, or that of (5) behind it.
double broadcast_shared_best_chunk(const LinkModel& link, int ranks, double bytes, double copies);
// (6) M/B_PCIe + ceil(log_k n)(t_s + M/B)
double broadcast_staged_k_nomial(
    const LinkModel& link, int ranks, int radix, double bytes, double pcie_bytes_per_s);

// ---- Multi-path copy (paper 1: Temucin et al. 2021)

struct MultiPathModel {
  double direct_bytes_per_s = 1;  // B
  double host_bytes_per_s = 1;    // P, of the pipelined staged copy
  double host_start_s = 0;        // t_h, of each of the two stages of a chunk
};

// h* = P/(B + P): both paths end together, without start-up.
double multi_path_best_share(const MultiPathModel& model);
// The host path: (h M/C + 1)(t_h + C/P).
double multi_path_host_time(const MultiPathModel& model, double host_bytes, double chunk);
// C* = sqrt(h M t_h P).
double multi_path_best_chunk(const MultiPathModel& model, double host_bytes);
// max((1 - h) M/B, host time) with the share `host_share` and its best chunk.
double multi_path_time(const MultiPathModel& model, double bytes, double host_share);

// ---- Multi-rail all-gather of M bytes a rank (paper 3: Suresh et al. 2022)

struct MultiRailModel {
  LinkModel network{};    // T_ns, B_n
  LinkModel gpu{};        // T_gs, B_g
  int nodes = 1;          // N
  int gpus_per_node = 1;  // GPN
  // Messages to oneself left out: N - 1 and GPN - 1 where the paper has N and GPN in (2), (3) and
  // (5) to (7).
  bool corrected = false;
};

double multi_rail_inter(const MultiRailModel& model, double bytes);         // (2)
double multi_rail_intra(const MultiRailModel& model, double bytes);         // (3)
double multi_rail_basic(const MultiRailModel& model, double bytes);         // (4)
double multi_rail_local(const MultiRailModel& model, double bytes);         // (5)
double multi_rail_inter_single(const MultiRailModel& model, double bytes);  // (6), of one segment
double multi_rail_intra_single(const MultiRailModel& model, double bytes);  // (7), of one segment
double multi_rail_optimized(const MultiRailModel& model, double bytes, int segments);  // (8)
// The count of 1 to `most` segments with the least (8).
int multi_rail_best_segments(const MultiRailModel& model, double bytes, int most);

// ---- All-to-all staged through the host with fixed-rate compression (paper 4)

struct CompressionModel {
  LinkModel pcie{};  // D2H and H2D
  LinkModel network{};
  double codec_bytes_per_s = 1;  // encode or decode, of uncompressed bytes
  int rate = 32;                 // bits of a 32-bit value; 32: none, and no codec runs
};

// One message: encode, D2H, network, H2D, decode, each of the five pipelined over `streams` parts.
double compressed_message(const CompressionModel& model, double bytes, int streams);

// What one GPU sends in an all-to-all: messages of `bytes` to GPUs of its node and to others.
struct CompressedExchange {
  int local = 0;
  int remote = 0;
  double bytes = 0;
};
// Compressed by the collective: all pass through the host, and the stages of all messages overlap.
double compressed_exchange(const CompressionModel& model, const CompressedExchange& exchange);
// Each message is compressed by itself before it is sent from GPU to GPU: no codec overlaps another
// one, or a wire. `local` is what joins the GPUs of a node.
double compressed_scatter(const CompressionModel& model,
                          const CompressedExchange& exchange,
                          const LinkModel& local);
// The same in rounds of pairs, so that messages within the node do not overlap the others.
double compressed_pairs(const CompressionModel& model,
                        const CompressedExchange& exchange,
                        const LinkModel& local);

// ---- All-reduce of ranks that share a GPU (paper 5: Faraji et al. 2015)

// All copy into the leader's buffer, over the device or through the host; the leader reduces; all
// copy back.
struct SharedGpuModel {
  int ranks = 1;
  LinkModel device{};             // copies within the device, all together
  LinkModel host{};               // staged copies, all together
  double memory_bytes_per_s = 1;  // of the reduction, which reads every rank's part
  double switch_s = 0;            // between kernels of two processes; 0 with MPS
};

// With MPS start-ups go through one queue, and the two kinds of copy overlap. Without it one rank
// has the GPU at a time.
//
// With the split between the two kinds of copy that is best for the size, as a tuned table has it.
double shared_gpu_static(const SharedGpuModel& model, double bytes);
// The leader divides the copies by the Dynamic rule (schedule/dynamic_policy.hpp), those back by
// what it has learnt.
double shared_gpu_dynamic(const SharedGpuModel& model, double bytes);

// ---- Lower bounds on a switch whose ports carry B each way

double bound_all_reduce(double port_bytes_per_s, int ranks, double bytes);  // 2 (n-1)/n M/B
// Of all_gather, reduce_scatter and all_to_all, with M bytes over all ranks: (n-1)/n M/B.
double bound_exchange(double port_bytes_per_s, int ranks, double bytes);
double bound_broadcast(double port_bytes_per_s, double bytes);  // and reduce, send: M/B

}  // namespace sennit::models
