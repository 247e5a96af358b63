#include "select/read_choice.hpp"

#include "select/copy_choice.hpp"

#include <algorithm>
#include <vector>

namespace sennit {

std::string_view reading_algorithm(Collective collective) {
  return collective == Collective::kAllReduce       ? "two_shot"
         : collective == Collective::kReduceScatter ? kOneHop
                                                    : std::string_view();
}

bool suits_reads(Collective collective,
                 int ranks,
                 std::int64_t bytes,
                 const DeviceFacts& facts,
                 const Means& means) {
  const bool is_aligned = collective == Collective::kAllReduce || bytes % 16 == 0;
  if (!means.reads || !is_aligned || ranks == 1) {
    return false;
  }
  const std::int64_t total = total_bytes(collective, ranks, bytes);
  if (facts.sharing == DeviceSharing::kAtOnce) {
    return !reading_algorithm(collective).empty() &&
           total >= facts.profile->shared_reads_from_bytes;
  }
  return std::ranges::any_of(facts.profile->reads, [&](const GpuProfile::FewBlocks& row) {
    return row.collective == collective && ranks <= row.up_to_ranks && total >= row.from_bytes;
  });
}

Status can_be_read(Collective collective, const CallRequest& request, const Means& means) {
  const std::string_view algorithm = reading_algorithm(collective);
  if (algorithm.empty()) {
    return fail(Code::kUnsupported,
                "protocol {} is for sends and recvs, all_reduce and reduce_scatter; copy engines "
                "put the blocks of {} where they belong: request {}",
                request.protocol,
                name(collective),
                kByCopyEngines);
  }
  if (!means.reads) {
    return fail(Code::kUnsupported,
                "protocol {} needs ranks that may reach into each other's buffers, which "
                "SENNIT_COPY_ENGINES=off forbids, and an operator that scales no input, as "
                "premul_sum does",
                request.protocol);
  }
  if (!request.algorithm.empty() && request.algorithm != algorithm) {
    return fail(Code::kUnsupported,
                "{} {} has no protocol {} on GPU ranks; algorithm {} has",
                name(collective),
                request.algorithm,
                request.protocol,
                algorithm);
  }
  return {};
}

int reading_blocks(Collective collective, int ranks, const DeviceFacts& facts) {
  if (facts.sharing == DeviceSharing::kAtOnce) {
    constexpr int kMost = 64;  // as many as its part of the GPU has room for: no wire limits them
    return kMost;
  }
  const GpuProfile& profile = *facts.profile;
  const auto row = std::ranges::find_if(profile.reads, [&](const GpuProfile::FewBlocks& reads) {
    return reads.collective == collective && ranks <= reads.up_to_ranks;
  });
  constexpr int kUnmeasured = 16;
  return row == profile.reads.end() ? kUnmeasured : row->blocks;
}

}  // namespace sennit
