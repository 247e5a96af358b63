// GpuProfile: what selection knows of a model of GPUs, as data: from which sizes on which way was
// the fastest that was measured. A new generation of GPUs is a new file in select/profiles.
//
//   const GpuProfile& profile = profile_for({.name = "NVIDIA H200", .compute_capability = 90});
//   const bool by_copies = bytes >= profile.copies_from_bytes;
//
// docs/adding/gpu.md has the lines of a file.
#pragma once

#include "base/status.hpp"
#include "schedule/plan.hpp"
#include "types/types.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Sizes are of all ranks together, of each result once (total_bytes()), unless said otherwise.
struct GpuProfile {
  // How kernels carry a call over NVLink from some size on.
  struct Packets {
    Collective collective = Collective::kAllReduce;
    int up_to_ranks = 0;
    std::int64_t from_bytes = 0;
    std::string_view algorithm;
    Protocol protocol = Protocol::kLl;
  };
  // The part of each block that goes through host memory, next to copies over NVLink.
  struct HostShare {
    Collective collective = Collective::kAllReduce;
    int up_to_ranks = 0;
    std::int64_t from_bytes = 0;
    int percent = 0;
  };

  // What few thread blocks carry.
  struct FewBlocks {
    Collective collective = Collective::kAllReduce;
    int up_to_ranks = 0;
    std::int64_t from_bytes = 0;
    int blocks = 0;
  };

  // Collectives whose blocks copy engines move through host memory where no GPU reaches another.
  struct HostCopies {
    Collective collective = Collective::kAllReduce;
    int up_to_ranks = 0;
    std::int64_t from_bytes = 0;
  };

  // Of the kernels that encode and decode, in uncompressed bytes.
  struct CodecRate {
    std::string family;  // zfp, q8, ...: a codec's name up to the colon
    int gb_per_s = 0;
  };

  std::string name;
  std::string hash;               // 16 hexadecimal digits of the text
  std::vector<std::string> gpus;  // words of the names of GPUs that it was measured on
  int compute_capability = 0;     // theirs; 90 for sm_90
  std::string measured_on;

  // Rows in order: the first that fits holds.
  std::vector<Packets> packets;
  std::vector<HostShare> host_shares;
  std::vector<FewBlocks> reads;         // reductions whose inputs kernels read in place
  std::vector<FewBlocks> shared_reads;  // the same, of processes that share a GPU at once
  std::vector<FewBlocks> puts;          // blocks that kernels store in place; of a message
  std::vector<HostCopies> host_copies;
  std::vector<CodecRate> codec_rates;
  int first_dynamic_share = 0;  // percent; of messages that have no row above

  // What a second hop costs, as bytes that a GPU could have sent meanwhile.
  std::int64_t hop_bytes = 0;
  std::int64_t host_hop_bytes = 0;  // through host memory
  // Up to these sizes ll carries what a rank sends in a hop; through host memory, one message.
  std::int64_t ll_up_to_bytes = 0;
  std::int64_t host_ll_up_to_bytes = 0;
  // Copy engines, over NVLink.
  std::int64_t copies_from_bytes = kNever;                 // all_gather, all_to_all
  std::int64_t all_reduce_copies_from_bytes = kNever;      // all_reduce
  std::int64_t reduce_scatter_copies_from_bytes = kNever;  // reduce_scatter of more than two ranks
  std::int64_t broadcast_copies_from_bytes = kNever;       // between two ranks
  std::int64_t message_copies_from_bytes = kNever;         // of one message
  // Kernels that store in the outputs of others.
  std::int64_t puts_from_bytes = kNever;
  std::int64_t message_puts_from_bytes = kNever;  // of one message
  // Whether copy engines move a collective of so many bytes through host memory alone.
  [[nodiscard]] bool has_host_copies_of(Collective collective, int ranks, std::int64_t bytes) const;
  // The same, of one message.
  std::int64_t host_message_copies_from_bytes = kNever;
  // An all_reduce through groups of ranks that reach each other.
  std::int64_t groups_from_bytes = kNever;
};

// Failures are kInvalidArgument and begin with "file_name:line:column: ".
Result<GpuProfile> gpu_profile_from_text(std::string_view text, std::string_view file_name);

// What is known of the GPU.
struct GpuModel {
  std::string_view name;  // as the driver reports it
  int compute_capability = 0;
};

// All that are built in, the one for unknown GPUs first.
std::span<const GpuProfile> gpu_profiles();

// A profile that names a word of the GPU's name was measured on that model.
bool is_measured_on(const GpuProfile& profile, const GpuModel& gpu);

// The one measured on that model; else the one of the nearest compute capability.
const GpuProfile& profile_for(const GpuModel& gpu);

}  // namespace sennit
