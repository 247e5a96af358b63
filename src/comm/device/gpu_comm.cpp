#include "comm/device/gpu_comm.hpp"

#include <algorithm>

namespace sennit {

std::vector<void*> other_streams(std::span<const GpuComm::Call> calls) {
  std::vector<void*> others;
  for (const GpuComm::Call& call : calls) {
    if (call.stream != calls.front().stream &&
        std::ranges::find(others, call.stream) == others.end()) {
      others.push_back(call.stream);
    }
  }
  return others;
}

Status record_completions(std::span<const GpuComm::Call> calls) {
  for (const GpuComm::Call& call : calls) {
    if (call.completion != nullptr) {
      SENNIT_RETURN_IF_ERROR(call.completion->record(call.stream));
    }
  }
  return {};
}

}  // namespace sennit
