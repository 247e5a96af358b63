#include "select/read_choice.hpp"

#include "select/copy_choice.hpp"

#include <algorithm>
#include <vector>

namespace sennit {
namespace {

// The first row for so many ranks; null: none.
const GpuProfile::FewBlocks* row_of(Collective collective, int ranks, const DeviceFacts& facts) {
  const GpuProfile& profile = *facts.profile;
  const std::vector<GpuProfile::FewBlocks>& rows =
      facts.sharing == DeviceSharing::kAtOnce ? profile.shared_reads : profile.reads;
  const auto row = std::ranges::find_if(rows, [&](const GpuProfile::FewBlocks& reads) {
    return reads.collective == collective && ranks <= reads.up_to_ranks;
  });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

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
  const GpuProfile::FewBlocks* const row = row_of(collective, ranks, facts);
  return row != nullptr && total_bytes(collective, ranks, bytes) >= row->from_bytes;
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
  const GpuProfile::FewBlocks* const row = row_of(collective, ranks, facts);
  constexpr int kUnmeasured = 16;
  return row == nullptr ? kUnmeasured : row->blocks;
}

}  // namespace sennit
