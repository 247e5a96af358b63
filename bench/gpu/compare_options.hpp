// What sennit-compare is asked for on its command line.
#pragma once

#include "rival.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sennit_bench {

inline constexpr int kMaxRanks = 16;
inline constexpr int kMaxWindow = 64;

// Which of NCCL's modes ours is compared with: on memory of cudaMalloc, or on symmetric windows, on
// whose memory ours works then, too.
enum class Rivals { kBoth, kPlain, kWindows };

struct Options {
  int ranks = 4;
  std::string nccl;
  std::string mode = "graph";
  std::string collective;  // empty: all
  // What Sennit's own calls request; empty: its choice.
  std::string algorithm;
  std::string path;
  std::string protocol;
  std::string codec;
  std::string load;     // what else runs meanwhile: matmul, copy; empty: nothing
  std::string cublas;   // of matmul; empty: where the loader finds it
  int load_sms = 0;     // that products are made for; 0: all
  std::string against;  // what of Sennit is timed as well: engines, shares; empty: nothing
  Rivals rivals = Rivals::kBoth;
  // Of send_recv: sender and receiver; negative: all ranks, each to the next.
  int pair_from = -1;
  int pair_to = -1;
  bool bidirectional = false;
  int window = 1;
  // Percent through host memory that --against shares tries.
  std::vector<int> shares;
  std::string direct = "nvlink";  // or "device", where all ranks share one GPU
  bool dynamic_share = false;     // and of send_recv one that follows the load
  int sm_budget = 0;  // thread blocks that kernels may have, Sennit's and NCCL's; 0: as they come
  std::vector<std::size_t> sizes;  // in bytes of the total buffer
  int samples = 21;
  int warmup = 3;
  bool check = true;
};

// Exits with a message where they make no sense.
Options parse_options(int argc, char** argv);

// Of each buffer: whole pages for the largest size, as frameworks allocate. Copy engines read other
// allocations of a peer up to 1.5 times as slowly when kernels have run before
// (docs/lab/2026-11-22-copy-engines.md).
std::size_t buffer_bytes(const Options& options);

// What a rank sends and receives in one send_recv.
Exchange exchange_of(const Options& options, int rank);

}  // namespace sennit_bench
