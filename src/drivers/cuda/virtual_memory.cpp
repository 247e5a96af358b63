#include "drivers/cuda/virtual_memory.hpp"

#include "drivers/cuda/driver_calls.hpp"

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace sennit::cuda {
namespace {

using Handle = CUmemGenericAllocationHandle;

// Distinct from CUDA's ids of other allocations, which it counts from 1.
constexpr std::uint64_t kIdOfHandle = std::uint64_t{1} << 63;

struct Functions {
  decltype(&cuMemRetainAllocationHandle) retain =
      driver_function<decltype(&cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle");
  decltype(&cuMemRelease) release = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties =
      driver_function<decltype(&cuMemGetAllocationPropertiesFromHandle)>(
          "cuMemGetAllocationPropertiesFromHandle");
  decltype(&cuMemGetAddressRange) range =
      driver_function<decltype(&cuMemGetAddressRange)>("cuMemGetAddressRange");
  decltype(&cuMemExportToShareableHandle) share =
      driver_function<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  decltype(&cuMemImportFromShareableHandle) adopt =
      driver_function<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
  decltype(&cuMemAddressReserve) reserve =
      driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) unreserve =
      driver_function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemMap) map = driver_function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access =
      driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");

  [[nodiscard]] bool are_there() const {
    return retain != nullptr && release != nullptr && properties != nullptr && range != nullptr &&
           share != nullptr && adopt != nullptr && reserve != nullptr && unreserve != nullptr &&
           map != nullptr && unmap != nullptr && set_access != nullptr;
  }
};

Result<const Functions*> find_functions() {
  static const Functions kFunctions;
  if (!kFunctions.are_there()) {
    return fail(Code::kUnsupported, "the CUDA driver has no virtual memory management");
  }
  return &kFunctions;
}

// As long as somebody has it, CUDA gives the handle to no other allocation.
using Retained = std::shared_ptr<void>;

struct Mapped {
  Handle handle = 0;
  Retained hold;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  int device = -1;
};

Result<Mapped> find(const Functions& cuda, const void* pointer) {
  Mapped found;
  SENNIT_RETURN_IF_ERROR(to_status(cuda.retain(&found.handle, const_cast<void*>(pointer)),
                                   "asking for the allocation that is mapped at an address"));
  // What it points to is of no use to anybody: it stands for the handle.
  found.hold =
      Retained(reinterpret_cast<void*>(found.handle),
               [release = cuda.release, handle = found.handle](void*) { (void)release(handle); });
  CUmemAllocationProp made{};
  SENNIT_RETURN_IF_ERROR(
      to_status(cuda.properties(&made, found.handle), "asking for an allocation"));
  if ((made.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0 ||
      made.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return fail(Code::kUnsupported, "an allocation was not made to be shared by a descriptor");
  }
  found.device = made.location.id;
  SENNIT_RETURN_IF_ERROR(to_status(cuda.range(&found.base, &found.bytes, to_address(pointer)),
                                   "asking where an allocation is mapped"));
  return found;
}

// Takes back what import_memory() has done so far, unless it comes to its end.
struct Mapping {
  const Functions& cuda;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  bool is_mapped = false;

  Mapping(const Functions& functions, std::size_t size) : cuda(functions), bytes(size) {}
  ~Mapping() { (void)undo(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status undo() {
    if (base == 0) {
      return {};
    }
    const Status unmapped =
        is_mapped ? to_status(cuda.unmap(base, bytes), "unmapping memory of another process")
                  : Status();
    const Status freed = to_status(cuda.unreserve(base, bytes), "giving back addresses");
    base = 0;
    return unmapped.ok() ? freed : unmapped;
  }
};

}  // namespace

Result<Allocation> VirtualMemory::allocation_of(const void* pointer) {
  SENNIT_ASSIGN_OR_RETURN(const Functions* const cuda, find_functions());
  SENNIT_ASSIGN_OR_RETURN(const Mapped found, find(*cuda, pointer));
  return Allocation{.base = reinterpret_cast<std::byte*>(found.base),
                    .bytes = found.bytes,
                    .id = kIdOfHandle | found.handle,
                    .device = found.device,
                    .can_be_exported = true};
}

Result<ExportedMemory> VirtualMemory::export_memory(const void* pointer) {
  SENNIT_ASSIGN_OR_RETURN(const Functions* const cuda, find_functions());
  SENNIT_ASSIGN_OR_RETURN(Mapped found, find(*cuda, pointer));
  int descriptor = -1;
  SENNIT_RETURN_IF_ERROR(
      to_status(cuda->share(&descriptor, found.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                "exporting an allocation by a descriptor"));
  ExportedMemory exported;
  exported.descriptor = UniqueFd(descriptor);
  // Programs that this process starts have nothing to do with it.
  (void)::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  exported.handle.kind = MemoryHandle::Kind::kDescriptor;
  exported.handle.descriptor = descriptor;
  exported.handle.mapped_bytes = found.bytes;
  exported.hold = std::move(found.hold);
  return exported;
}

Result<void*> VirtualMemory::import_memory(const MemoryHandle& handle) {
  SENNIT_ASSIGN_OR_RETURN(const Functions* const cuda, find_functions());
  int device = 0;
  SENNIT_RETURN_IF_ERROR(to_status(cudaGetDevice(&device), "asking for the current device"));
  // CUDA takes a descriptor in place of a pointer.
  const auto number = static_cast<std::uintptr_t>(handle.descriptor);
  Handle allocation = 0;
  SENNIT_RETURN_IF_ERROR(to_status(
      cuda->adopt(
          &allocation, reinterpret_cast<void*>(number), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "taking over an allocation of another process"));
  // The mapping holds the allocation.
  const Retained until_mapped(reinterpret_cast<void*>(allocation),
                              [cuda, allocation](void*) { (void)cuda->release(allocation); });
  Mapping mapping(*cuda, static_cast<std::size_t>(handle.mapped_bytes));
  SENNIT_RETURN_IF_ERROR(
      to_status(cuda->reserve(&mapping.base, mapping.bytes, 0, 0, 0), "reserving addresses"));
  SENNIT_RETURN_IF_ERROR(to_status(cuda->map(mapping.base, mapping.bytes, 0, allocation, 0),
                                   "mapping memory of another process"));
  mapping.is_mapped = true;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  SENNIT_RETURN_IF_ERROR(to_status(cuda->set_access(mapping.base, mapping.bytes, &access, 1),
                                   "opening memory of another process to this device"));
  void* const memory = reinterpret_cast<void*>(std::exchange(mapping.base, 0));
  const std::scoped_lock lock(mutex_);
  imported_[memory] = mapping.bytes;
  return memory;
}

Result<bool> VirtualMemory::close_imported(void* memory) {
  std::size_t bytes = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = imported_.find(memory);
    if (known == imported_.end()) {
      return false;
    }
    bytes = known->second;
    imported_.erase(known);
  }
  SENNIT_ASSIGN_OR_RETURN(const Functions* const cuda, find_functions());
  Mapping mapping(*cuda, bytes);
  mapping.base = to_address(memory);
  mapping.is_mapped = true;
  SENNIT_RETURN_IF_ERROR(mapping.undo());
  return true;
}

}  // namespace sennit::cuda
