#include "comm/device/gpu_arguments.hpp"

#include <string_view>
#include <utility>

namespace sennit {
namespace {

Status check_pointer(CudaDriver& driver,
                     int device,
                     const Operation& operation,
                     std::string_view what,
                     const void* pointer) {
  SENNIT_ASSIGN_OR_RETURN(const PointerFacts facts, driver.facts_of(pointer));
  if (facts.kind == MemoryKind::kPageable) {
    return fail(Code::kInvalidArgument,
                "{}: the {} buffer is ordinary host memory, which a GPU cannot reach; use device "
                "or pinned memory",
                name(operation.collective),
                what);
  }
  if (facts.kind == MemoryKind::kDevice && facts.device != device) {
    return fail(Code::kInvalidArgument,
                "{}: the {} buffer lies on device {}, but this rank works on device {}",
                name(operation.collective),
                what,
                facts.device,
                device);
  }
  return {};
}

}  // namespace

Status check_gpu_call(
    CudaDriver& driver, int device, const Operation& operation, int rank, int ranks) {
  SENNIT_RETURN_IF_ERROR(check_arguments(operation, rank, ranks));
  const auto check_memory = [&](std::string_view what, const void* pointer) {
    return check_pointer(driver, device, operation, what, pointer);
  };
  const BufferUse use = buffer_use(operation, rank, ranks);
  if (use.send) {
    SENNIT_RETURN_IF_ERROR(check_memory("send", operation.send));
  }
  if (use.recv && !(use.send && operation.recv == operation.send)) {
    SENNIT_RETURN_IF_ERROR(check_memory("recv", operation.recv));
  }
  if (operation.rms_norm) {
    const RmsNorm& norm = *operation.rms_norm;
    for (const auto& [what, pointer] :
         {std::pair("residual", static_cast<const void*>(norm.residual)),
          std::pair("weight", norm.weight),
          std::pair("quantized", static_cast<const void*>(norm.quantized)),
          std::pair("scale", static_cast<const void*>(norm.scale))}) {
      if (pointer != nullptr) {
        SENNIT_RETURN_IF_ERROR(check_memory(what, pointer));
      }
    }
  }
  return {};
}

}  // namespace sennit
