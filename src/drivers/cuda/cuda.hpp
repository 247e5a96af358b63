// CudaDriver: the calls of the CUDA runtime that the library makes from the host, and nothing else.
// This is the only folder that spells them; everything above it builds without CUDA.
//
//   Result<CudaDriver*> driver = cuda_driver();         // kUnsupported in a build without CUDA
//   SENNIT_RETURN_IF_ERROR((*driver)->use_device(0));   // of the calling thread, as in CUDA
//   SENNIT_ASSIGN_OR_RETURN(void* memory, (*driver)->allocate(1 << 20));
//
// All functions may be called from any thread. Streams are cudaStream_t as void*.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace sennit {

struct CudaDevice {
  int index = 0;
  std::string name;
  std::string pci_bus_id;  // "0000:1b:00.0"
  std::array<std::uint8_t, 16> uuid{};
  std::int64_t memory_bytes = 0;
  int sm_count = 0;
  int compute_capability = 0;  // 90 for sm_90
  // Kernels of several processes run on it at once, by the Multi-Process Service, and not in turn.
  bool has_mps = false;
};

enum class MemoryKind : std::uint8_t { kPageable, kPinned, kDevice, kManaged };

struct PointerFacts {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;  // of device and managed memory
};

// The allocation in which a pointer of device memory lies. Where a program maps several next to
// each other (cuMemMap), that of the pointer alone.
struct Allocation {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  // Unlike the address, given to no second allocation of this process: never, or, of memory that
  // was mapped, not as long as it is held (ExportedMemory).
  std::uint64_t id = 0;
  int device = -1;
  bool can_be_exported = false;
};

// Names memory of one process to the others of the same machine.
struct MemoryHandle {
  enum class Kind : std::uint32_t {
    kIpc,         // CUDA IPC: all is in `ipc`
    kDescriptor,  // what a file descriptor of its owner stands for; whoever imports it has to have
                  // that in its own process, and puts the number that it has there in its place
  };

  Kind kind = Kind::kIpc;
  std::int32_t descriptor = -1;
  std::uint64_t mapped_bytes = 0;  // of kDescriptor
  std::array<std::byte, 64> ipc{};
};

// What the owner keeps of memory that it has exported.
struct ExportedMemory {
  MemoryHandle handle;
  UniqueFd descriptor;         // of kDescriptor: needed until all have imported it
  std::shared_ptr<void> hold;  // of kDescriptor: keeps the allocation, and its id its own
};

// Pinned host memory and where the current device sees it.
struct MappedMemory {
  void* host = nullptr;
  void* device = nullptr;
};

// What a stream does with one 64-bit word of device or mapped host memory, as this device sees it.
struct WordStep {
  enum class Kind : std::uint8_t {
    kStore,  // after all that the stream did before is visible to all devices and the host
    kAwait,  // what follows in the stream begins when the word equals `value`
  };
  Kind kind = Kind::kStore;
  std::uint64_t* word = nullptr;
  std::uint64_t value = 0;
};
// In one call of walk_words.
inline constexpr std::size_t kMaxWordSteps = 255;

// Of a device, where CUDA_DEVICE_MAX_CONNECTIONS says nothing.
inline constexpr int kDefaultQueues = 8;

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

// Device memory that processes of one machine share.
class CudaSharing {
 public:
  virtual ~CudaSharing() = default;

  // `memory`: where an allocation begins.
  virtual Result<ExportedMemory> export_memory(void* memory) = 0;
  // For the current device. What is imported holds the memory, whatever its owner does.
  virtual Result<void*> import_memory(const MemoryHandle& handle) = 0;
  // Nothing in any stream uses it any more.
  virtual Status close_imported(void* memory) = 0;
};

// Events of the current device. They may be destroyed while work that they stand for goes on.
class CudaEvents {
 public:
  virtual ~CudaEvents() = default;

  virtual Result<void*> create_event() = 0;
  // One that keeps the time at which it was reached, for elapsed_us().
  virtual Result<void*> create_timed_event() = 0;
  virtual Status destroy_event(void* event) = 0;
  // The event stands for all that is in the stream now. In a capture, waiting for it takes the
  // waiting stream into the capture.
  virtual Status record(void* event, void* stream) = 0;
  virtual Status wait_for(void* event, void* stream) = 0;
  // Whether all that a recorded event stands for has ended. Does not block. Not for events of a
  // capture.
  virtual Result<bool> has_passed(void* event) = 0;
  // The same of all that was put into a stream, which does not capture.
  virtual Result<bool> is_idle(void* stream) = 0;
  // From one timed event to another, of one device; none where one has not been reached yet. Waits
  // for nothing. Not for events of a capture.
  virtual Result<std::optional<double>> elapsed_us(void* begin, void* end) = 0;
  // Calls act(argument) on a thread of the driver's when the stream gets here: in a capture at
  // every replay. It must neither call CUDA nor wait for anything in a stream.
  virtual Status call_host(void (*act)(void*), void* argument, void* stream) = 0;
};

class CudaDriver {
 public:
  virtual ~CudaDriver() = default;

  // Identifies the processes of a machine, also those with one pid in different containers.
  virtual std::uint64_t process() = 0;

  // Of a device: its streams are dealt to so many queues, and what waits in one holds up what other
  // streams have put behind it.
  virtual int queues() = 0;

  virtual Result<int> device_count() = 0;
  virtual Result<CudaDevice> describe(int device) = 0;
  virtual Result<int> current_device() = 0;
  virtual Status use_device(int device) = 0;
  // Whether the wires let the current device load and store memory of `peer`.
  virtual Result<bool> reaches_peer(int peer) = 0;
  // From now on it may; done once or often.
  virtual Status enable_peer(int peer) = 0;

  // Zeroed device memory of the current device.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual Status release(void* memory) = 0;
  // Zeroed.
  virtual Result<MappedMemory> allocate_mapped(std::size_t bytes) = 0;
  virtual Status release_mapped(const MappedMemory& memory) = 0;
  // Makes ordinary host memory, whole pages of it, the current device's to load and store: answers
  // with the address that the device has for it.
  virtual Result<void*> map_host(void* memory, std::size_t bytes) = 0;
  virtual Status unmap_host(void* memory) = 0;
  virtual Result<PointerFacts> facts_of(const void* pointer) = 0;
  // Of device memory.
  virtual Result<Allocation> allocation_of(const void* pointer) = 0;

  virtual CudaSharing& sharing() = 0;
  virtual CudaEvents& events() = 0;

  // Loads a kernel's code onto the current device: a first launch while a peer spins may never come
  // to run otherwise.
  virtual Status preload(const void* kernel) = 0;
  // `parameters` is the kernel's only parameter, copied before the call returns. Blocks may begin
  // while what is before them in the stream ends: a kernel waits for that by itself
  // (exec/early_launch.cuh).
  virtual Status launch(const void* kernel,
                        const LaunchShape& shape,
                        const void* parameters,
                        void* stream) = 0;
  virtual Status copy_async(void* to, const void* from, std::size_t bytes, void* stream) = 0;

  // Of the current device; never waits for the legacy default stream. May be destroyed while work
  // is in it, which then ends by itself.
  virtual Result<void*> create_stream() = 0;
  virtual Status destroy_stream(void* stream) = 0;
  // Of the stream that the handle means here and now, and of no other one ever. Not in a capture.
  virtual Result<std::uint64_t> stream_id(void* stream) = 0;
  // In the order of `steps`; up to kMaxWordSteps. kUnsupported where the device cannot.
  virtual Status walk_words(std::span<const WordStep> steps, void* stream) = 0;

  virtual Result<bool> is_capturing(void* stream) = 0;
  virtual Status synchronize(void* stream) = 0;
};

// Whether this library can have GPU ranks, on whatever machine it is.
bool is_built_with_cuda();

// The driver of this process. kUnsupported, with the reason, where the library was built without
// CUDA or the machine has no usable device.
Result<CudaDriver*> cuda_driver();

// Sets the calling thread's device for a scope and sets it back.
class DeviceScope {
 public:
  DeviceScope(CudaDriver& driver, int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  CudaDriver& driver_;
  int before_ = -1;
  Status status_;
};

}  // namespace sennit
