#include "drivers/cuda/testing/fake_cuda.hpp"

// IWYU pragma: begin_keep: owned streams and events end here
#include "drivers/cuda/testing/fake_stream.hpp"
// IWYU pragma: end_keep

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace sennit {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

constexpr std::uint64_t kVirtualId = std::uint64_t{1} << 63;
constexpr int kNoDescriptor = 1 << 20;  // that any process has

// What travels as a handle. By IPC the file is opened again through its owner's descriptor.
struct FakeHandle {
  pid_t owner = 0;
  int file = -1;
  std::size_t bytes = 0;
  int device = -1;
};

// For the thread sanitizer a thread that maps memory has written to all of it. Here a kernel that
// was launched before may write there next: its rank has announced the mapping, and they the
// kernel, but in words that each of them sees at an address of its own.
void* map_shared(int file, std::size_t bytes) {
#ifdef __SANITIZE_THREAD__
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
#ifdef __SANITIZE_THREAD__
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
  return memory;
}

}  // namespace

int& FakeCuda::device_of_thread() const {
  thread_local std::map<std::uint64_t, int> devices;
  return devices[number_];
}

FakeCuda::FakeCuda(Options options) : options_(std::move(options)) {
  static std::atomic<std::uint64_t> made{0};
  number_ = ++made;
  if (options_.process == 0) {
    options_.process = (static_cast<std::uint64_t>(::getpid()) << 32) + number_;
  }
}

FakeCuda::~FakeCuda() {
  // Ends the threads before the memory goes.
  streams_.clear();
  left_queues_.clear();
  for (const auto& [base, region] : regions_) {
    if (region.device >= 0) {
      ::munmap(region.base, whole_pages(region.bytes));
      ::close(region.file);
    } else if (region.is_pinned) {
      std::free(region.base);
    }
  }
}

Status FakeCuda::enter(std::string_view call) {
  const std::scoped_lock lock(mutex_);
  ++calls_[std::string(call)];
  const auto planned = failures_.find(call);
  if (planned == failures_.end() || --planned->second.first > 0) {
    return {};
  }
  const Code code = planned->second.second;
  failures_.erase(planned);
  return sennit::fail(code, "the fake fails in {}, as requested", call);
}

void FakeCuda::fail(const std::string& call, int nth, Code code) {
  const std::scoped_lock lock(mutex_);
  failures_[call] = {nth, code};
}

int FakeCuda::calls(const std::string& call) {
  const std::scoped_lock lock(mutex_);
  return calls_[call];
}

std::string FakeCuda::faults() {
  const std::scoped_lock lock(mutex_);
  return faults_;
}

int FakeCuda::left_over() {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(regions_.size() + streams_.size() + events_.size());
}

Result<int> FakeCuda::device_count() {
  SENNIT_RETURN_IF_ERROR(enter("device_count"));
  return options_.devices;
}

Result<CudaDevice> FakeCuda::describe(int device) {
  SENNIT_RETURN_IF_ERROR(enter("describe"));
  CudaDevice result{.index = device,
                    .name = "Fake GPU",
                    .pci_bus_id = fmt::format("0000:{:02x}:00.0", 0x10 + device),
                    .memory_bytes = std::int64_t{1} << 30,
                    .sm_count = 132,
                    .compute_capability = 90,
                    .has_mps = options_.has_mps};
  result.uuid[0] = static_cast<std::uint8_t>(device + 1);
  return result;
}

Result<int> FakeCuda::current_device() {
  SENNIT_RETURN_IF_ERROR(enter("current_device"));
  return device_of_thread();
}

Status FakeCuda::use_device(int device) {
  SENNIT_RETURN_IF_ERROR(enter("use_device"));
  if (device < 0 || device >= options_.devices) {
    return sennit::fail(Code::kSystemError, "there is no fake device {}", device);
  }
  device_of_thread() = device;
  return {};
}

Result<bool> FakeCuda::reaches_peer(int peer) {
  SENNIT_RETURN_IF_ERROR(enter("reaches_peer"));
  return peer != device_of_thread() && are_joined(device_of_thread(), peer);
}

bool FakeCuda::are_joined(int device, int peer) const {
  const auto holds = [&](int a, int b) {
    return std::ranges::find(options_.unjoined, std::pair(a, b)) != options_.unjoined.end();
  };
  return device == peer || (options_.has_peers && !holds(device, peer) && !holds(peer, device));
}

Status FakeCuda::enable_peer(int peer) {
  SENNIT_RETURN_IF_ERROR(enter("enable_peer"));
  if (!are_joined(device_of_thread(), peer)) {
    return sennit::fail(Code::kSystemError, "no wires join the fake devices");
  }
  const std::scoped_lock lock(mutex_);
  peers_.emplace_back(device_of_thread(), peer);
  return {};
}

Result<void*> FakeCuda::allocate_region(std::size_t bytes, const Region& kind, void* address) {
  const int file = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  void* const memory = file < 0 || ::ftruncate(file, static_cast<off_t>(whole_pages(bytes))) != 0
                           ? MAP_FAILED
                           : ::mmap(address,
                                    whole_pages(bytes),
                                    PROT_READ | PROT_WRITE,
                                    MAP_SHARED | (address == nullptr ? 0 : MAP_FIXED),
                                    file,
                                    0);
  if (memory == MAP_FAILED) {
    return sennit::fail(Code::kSystemError, "the fake has no {} bytes", bytes);
  }
  const std::scoped_lock lock(mutex_);
  auto* const base = static_cast<std::byte*>(memory);
  Region& region = regions_[base] = kind;
  region.base = base;
  region.bytes = bytes;
  region.device = device_of_thread();
  region.file = file;
  if (kind.is_virtual) {
    hold_id(region);
  } else {
    region.id = next_id_++;
  }
  return memory;
}

// The lowest one that is free: ids of virtual memory come again.
void FakeCuda::hold_id(Region& region) {
  const std::scoped_lock lock(held_ids_->mutex);
  std::uint64_t id = kVirtualId;
  while (!held_ids_->ids.insert(id).second) {
    ++id;
  }
  region.id = id;
  region.hold = std::shared_ptr<void>(this, [ids = held_ids_, id](void*) {
    const std::scoped_lock free(ids->mutex);
    ids->ids.erase(id);
  });
}

Result<void*> FakeCuda::allocate(std::size_t bytes) {
  SENNIT_RETURN_IF_ERROR(enter("allocate"));
  return allocate_region(bytes, {});
}

Result<void*> FakeCuda::allocate_private(std::size_t bytes) {
  return allocate_region(bytes, {.can_be_exported = false});
}

Result<void*> FakeCuda::allocate_virtual(std::size_t bytes) {
  return allocate_region(bytes, {.is_virtual = true});
}

Result<std::array<void*, 2>> FakeCuda::allocate_virtual_pair(std::size_t bytes_each) {
  const std::size_t bytes = whole_pages(bytes_each);
  void* const room = ::mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    return sennit::fail(Code::kSystemError, "the fake has no {} addresses", 2 * bytes);
  }
  std::array<void*, 2> pair{};
  for (std::size_t i = 0; i < pair.size(); ++i) {
    SENNIT_ASSIGN_OR_RETURN(
        pair[i],
        allocate_region(bytes, {.is_virtual = true}, static_cast<std::byte*>(room) + i * bytes));
  }
  return pair;
}

Status FakeCuda::drop(void* memory, std::string_view what, bool is_imported) {
  const std::scoped_lock lock(mutex_);
  const auto at = regions_.find(static_cast<std::byte*>(memory));
  if (at == regions_.end() || at->second.is_imported != is_imported) {
    return sennit::fail(Code::kSystemError, "{} of what is none", what);
  }
  ::munmap(at->second.base, whole_pages(at->second.bytes));
  ::close(at->second.file);
  regions_.erase(at);
  return {};
}

Status FakeCuda::release(void* memory) {
  SENNIT_RETURN_IF_ERROR(enter("release"));
  return drop(memory, "a release", false);
}

Result<MappedMemory> FakeCuda::allocate_mapped(std::size_t bytes) {
  SENNIT_RETURN_IF_ERROR(enter("allocate_mapped"));
  void* const memory = std::aligned_alloc(kPage, whole_pages(bytes));
  std::memset(memory, 0, whole_pages(bytes));
  const std::scoped_lock lock(mutex_);
  auto* const base = static_cast<std::byte*>(memory);
  regions_[base] = {.base = base, .bytes = bytes, .is_pinned = true};
  return MappedMemory{.host = memory, .device = memory};
}

Status FakeCuda::release_mapped(const MappedMemory& memory) {
  SENNIT_RETURN_IF_ERROR(enter("release_mapped"));
  const std::scoped_lock lock(mutex_);
  if (regions_.erase(static_cast<std::byte*>(memory.host)) == 0) {
    return sennit::fail(Code::kSystemError, "a release of what is no pinned memory");
  }
  std::free(memory.host);
  return {};
}

Result<void*> FakeCuda::map_host(void* memory, std::size_t bytes) {
  SENNIT_RETURN_IF_ERROR(enter("map_host"));
  if (reinterpret_cast<std::uintptr_t>(memory) % kPage != 0) {
    return sennit::fail(Code::kSystemError, "memory to be mapped begins within a page");
  }
  const std::scoped_lock lock(mutex_);
  auto* const base = static_cast<std::byte*>(memory);
  if (!regions_.try_emplace(base, Region{.base = base, .bytes = bytes}).second) {
    return sennit::fail(Code::kSystemError, "memory is mapped already");
  }
  return memory;
}

Status FakeCuda::unmap_host(void* memory) {
  SENNIT_RETURN_IF_ERROR(enter("unmap_host"));
  const std::scoped_lock lock(mutex_);
  return regions_.erase(static_cast<std::byte*>(memory)) == 1
             ? Status()
             : sennit::fail(Code::kSystemError, "memory to be unmapped is not mapped");
}

const FakeCuda::Region* FakeCuda::region_of(const void* pointer) const {
  const auto* const address = static_cast<const std::byte*>(pointer);
  const auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) {
    return nullptr;
  }
  const Region& region = std::prev(after)->second;
  return address < region.base + region.bytes ? &region : nullptr;
}

Result<PointerFacts> FakeCuda::facts_of(const void* pointer) {
  SENNIT_RETURN_IF_ERROR(enter("facts_of"));
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(pointer);
  if (region == nullptr) {
    return PointerFacts{};
  }
  return PointerFacts{region->device < 0 ? MemoryKind::kPinned : MemoryKind::kDevice,
                      region->device};
}

Result<Allocation> FakeCuda::allocation_of(const void* pointer) {
  SENNIT_RETURN_IF_ERROR(enter("allocation_of"));
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(pointer);
  if (region == nullptr || region->device < 0) {
    return sennit::fail(Code::kSystemError, "a pointer lies in no device allocation");
  }
  return Allocation{.base = region->base,
                    .bytes = region->bytes,
                    .id = region->id,
                    .device = region->device,
                    .can_be_exported = region->can_be_exported && !region->is_imported};
}

Result<ExportedMemory> FakeCuda::export_memory(void* memory) {
  SENNIT_RETURN_IF_ERROR(enter("export_memory"));
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(memory);
  if (region == nullptr || !region->can_be_exported || region->is_imported) {
    return sennit::fail(Code::kSystemError, "memory cannot be exported");
  }
  const FakeHandle native{::getpid(), region->file, region->bytes, region->device};
  ExportedMemory exported;
  static_assert(sizeof(native) <= sizeof(exported.handle.ipc));
  std::memcpy(exported.handle.ipc.data(), &native, sizeof(native));
  if (region->is_virtual) {
    exported.descriptor = UniqueFd(::fcntl(region->file, F_DUPFD_CLOEXEC, 0));
    exported.hold = region->hold;
    exported.handle.kind = MemoryHandle::Kind::kDescriptor;
    exported.handle.descriptor =
        options_.hides_descriptors ? kNoDescriptor : exported.descriptor.get();
    exported.handle.mapped_bytes = region->bytes;
  }
  return exported;
}

Result<void*> FakeCuda::import_memory(const MemoryHandle& handle) {
  SENNIT_RETURN_IF_ERROR(enter("import_memory"));
  FakeHandle native;
  std::memcpy(&native, handle.ipc.data(), sizeof(native));
  if (!are_joined(device_of_thread(), native.device)) {
    return sennit::fail(Code::kSystemError, "no wires join the fake devices");
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", native.owner, native.file);
  const int file = handle.kind == MemoryHandle::Kind::kDescriptor
                       ? ::fcntl(handle.descriptor, F_DUPFD_CLOEXEC, 0)
                       : ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = file < 0 ? MAP_FAILED : map_shared(file, whole_pages(native.bytes));
  if (memory == MAP_FAILED) {
    return sennit::fail(Code::kSystemError, "memory of another process cannot be imported");
  }
  const std::scoped_lock lock(mutex_);
  auto* const base = static_cast<std::byte*>(memory);
  regions_[base] = {.base = base,
                    .bytes = native.bytes,
                    .device = native.device,
                    .id = next_id_++,
                    .file = file,
                    .is_imported = true};
  return memory;
}

Status FakeCuda::close_imported(void* memory) {
  SENNIT_RETURN_IF_ERROR(enter("close_imported"));
  return drop(memory, "a close", true);
}

}  // namespace sennit
