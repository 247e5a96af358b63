#include "exec/stream/copy_line.hpp"

#include <algorithm>

namespace sennit::stream {

CopyLine::CopyLine(CudaDriver& driver, SideStreams& sides, int first, int streams)
    : driver_(driver),
      sides_(sides),
      waits_(first),
      copies_(first + std::min(1, streams - 1)),
      tells_(first + streams - 1) {}

Status CopyLine::await(const std::vector<WordStep>& steps) {
  if (steps.empty()) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(void* const stream, sides_.use(waits_));
  SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
  return waits_ == copies_ ? Status() : sides_.order(waits_, copies_);
}

Status CopyLine::copy(void* to, const void* from, std::size_t bytes) {
  SENNIT_ASSIGN_OR_RETURN(void* const stream, stream_of_copies());
  return driver_.copy_async(to, from, bytes, stream);
}

Status CopyLine::tell(const std::vector<WordStep>& steps) {
  SENNIT_RETURN_IF_ERROR(copies_ == tells_ ? Status() : sides_.order(copies_, tells_));
  SENNIT_ASSIGN_OR_RETURN(void* const stream, sides_.use(tells_));
  return walk(driver_, steps, stream);
}

}  // namespace sennit::stream
