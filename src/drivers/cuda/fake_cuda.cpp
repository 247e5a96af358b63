#include "drivers/cuda/fake_cuda.hpp"

#include "drivers/cuda/fake_stream.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

namespace sennit {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

// The device of a thread, for each fake that it uses.
int& device_of_thread(const FakeCuda* cuda) {
  thread_local std::map<const FakeCuda*, int> devices;
  return devices[cuda];
}

// What travels as a handle. The file is opened again through its owner's descriptor.
struct FakeHandle {
  pid_t owner = 0;
  int file = -1;
  std::size_t bytes = 0;
  int device = -1;
};

FakeStream* to_stream(void* stream) { return static_cast<FakeStream*>(stream); }
FakeEvent* to_event(void* event) { return static_cast<FakeEvent*>(event); }

void walk(const std::vector<WordStep>& steps, const std::stop_token& stopped) {
  for (const WordStep& step : steps) {
    const std::atomic_ref word(*step.word);
    if (step.kind == WordStep::Kind::kStore) {
      word.store(step.value, std::memory_order_release);
      continue;
    }
    while (word.load(std::memory_order_acquire) != step.value && !stopped.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace

void FakeGraph::launch(void* stream) const {
  for (const Entry& entry : entries_) {
    entry.submit(entry.stream == origin_ ? *to_stream(stream) : *entry.stream);
  }
}

FakeCuda::FakeCuda(const Options& options) : options_(options) {
  static std::atomic<std::uint64_t> processes{1U << 16};
  if (options_.process == 0) {
    options_.process = (static_cast<std::uint64_t>(::getpid()) << 32) + ++processes;
  }
}

FakeCuda::~FakeCuda() {
  streams_.clear();  // ends the threads before the memory goes
  for (const auto& [base, region] : regions_) {
    if (region.device >= 0) {
      ::munmap(region.base, whole_pages(region.bytes));
      ::close(region.file);
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
  return sennit::fail(code, "the fake was told to fail in {}", call);
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
                    .compute_capability = 90};
  result.uuid[0] = static_cast<std::uint8_t>(device + 1);
  return result;
}

Result<int> FakeCuda::current_device() {
  SENNIT_RETURN_IF_ERROR(enter("current_device"));
  return device_of_thread(this);
}

Status FakeCuda::use_device(int device) {
  SENNIT_RETURN_IF_ERROR(enter("use_device"));
  if (device < 0 || device >= options_.devices) {
    return sennit::fail(Code::kSystemError, "there is no fake device {}", device);
  }
  device_of_thread(this) = device;
  return {};
}

Result<bool> FakeCuda::reaches_peer(int peer) {
  SENNIT_RETURN_IF_ERROR(enter("reaches_peer"));
  return options_.has_peers && peer != device_of_thread(this);
}

Status FakeCuda::enable_peer(int peer) {
  SENNIT_RETURN_IF_ERROR(enter("enable_peer"));
  if (!options_.has_peers) {
    return sennit::fail(Code::kSystemError, "no wires join the fake devices");
  }
  const std::scoped_lock lock(mutex_);
  peers_.emplace_back(device_of_thread(this), peer);
  return {};
}

Result<void*> FakeCuda::allocate_region(std::size_t bytes, bool can_be_exported) {
  const int file = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  void* const memory =
      file < 0 || ::ftruncate(file, static_cast<off_t>(whole_pages(bytes))) != 0
          ? MAP_FAILED
          : ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    return sennit::fail(Code::kSystemError, "the fake has no {} bytes", bytes);
  }
  const std::scoped_lock lock(mutex_);
  auto* const base = static_cast<std::byte*>(memory);
  regions_[base] = {.base = base,
                    .bytes = bytes,
                    .device = device_of_thread(this),
                    .id = next_id_++,
                    .file = file,
                    .can_be_exported = can_be_exported};
  return memory;
}

Result<void*> FakeCuda::allocate(std::size_t bytes) {
  SENNIT_RETURN_IF_ERROR(enter("allocate"));
  return allocate_region(bytes, true);
}

Result<void*> FakeCuda::allocate_private(std::size_t bytes) {
  return allocate_region(bytes, false);
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
  regions_[base] = {.base = base, .bytes = bytes};
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
  auto after = regions_.upper_bound(address);
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

Result<CudaIpcHandle> FakeCuda::export_memory(void* memory) {
  SENNIT_RETURN_IF_ERROR(enter("export_memory"));
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(memory);
  if (region == nullptr || !region->can_be_exported || region->is_imported) {
    return sennit::fail(Code::kSystemError, "memory cannot be exported");
  }
  const FakeHandle native{::getpid(), region->file, region->bytes, region->device};
  CudaIpcHandle handle;
  static_assert(sizeof(native) <= sizeof(handle.bytes));
  std::memcpy(handle.bytes.data(), &native, sizeof(native));
  return handle;
}

Result<void*> FakeCuda::import_memory(const CudaIpcHandle& handle) {
  SENNIT_RETURN_IF_ERROR(enter("import_memory"));
  FakeHandle native;
  std::memcpy(&native, handle.bytes.data(), sizeof(native));
  const std::string path = fmt::format("/proc/{}/fd/{}", native.owner, native.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory =
      file < 0
          ? MAP_FAILED
          : ::mmap(nullptr, whole_pages(native.bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
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

Status FakeCuda::preload(const void* /*kernel*/) { return enter("preload"); }

void FakeCuda::put(FakeStream& stream, std::function<void(FakeStream&)> submit) {
  if (stream.capture == nullptr) {
    submit(stream);
    return;
  }
  stream.has_unjoined_work = true;
  stream.capture->entries_.push_back({&stream, std::move(submit)});
}

Status FakeCuda::launch(const void* kernel,
                        const LaunchShape& /*shape*/,
                        const void* parameters,
                        void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("launch"));
  if (kernel_) {
    kernel_(kernel, parameters);
  }
  put(*to_stream(stream), [](FakeStream&) {});
  return {};
}

void FakeCuda::check_range(const void* pointer,
                           std::size_t bytes,
                           int device,
                           std::string_view what) {
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(pointer);
  const auto* const end = static_cast<const std::byte*>(pointer) + bytes;
  if (region == nullptr || end > region->base + region->bytes) {
    faults_ += fmt::format("a copy {} {} bytes outside of all memory; ", what, bytes);
  } else if (region->device >= 0 && region->device != device && !region->is_imported &&
             std::ranges::find(peers_, std::pair(device, region->device)) == peers_.end()) {
    faults_ +=
        fmt::format("device {} copies {} device {} without leave; ", device, what, region->device);
  }
}

Status FakeCuda::copy_async(void* to, const void* from, std::size_t bytes, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("copy_async"));
  put(*to_stream(stream), [this, to, from, bytes](FakeStream& s) {
    s.queue().put([this, to, from, bytes, device = s.device()](const std::stop_token&) {
      check_range(to, bytes, device, "to");
      check_range(from, bytes, device, "from");
      std::memcpy(to, from, bytes);
    });
  });
  return {};
}

Result<void*> FakeCuda::create_stream() {
  SENNIT_RETURN_IF_ERROR(enter("create_stream"));
  const std::scoped_lock lock(mutex_);
  const int device = device_of_thread(this);
  std::shared_ptr<FakeQueue> queue;
  for (const auto& [key, other] : streams_) {
    if (options_.one_queue && other->device() == device) {
      queue = other->shared_queue();
    }
  }
  if (queue == nullptr) {
    queue = std::make_shared<FakeQueue>();
  }
  auto stream = std::make_unique<FakeStream>(device, std::move(queue));
  void* const key = stream.get();
  streams_[key] = std::move(stream);
  return key;
}

Status FakeCuda::destroy_stream(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("destroy_stream"));
  std::unique_ptr<FakeStream> last;  // ends outside of the lock, since its work takes it
  const std::scoped_lock lock(mutex_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) {
    return sennit::fail(Code::kSystemError, "there is no such stream");
  }
  last = std::move(at->second);
  streams_.erase(at);
  return {};
}

Result<void*> FakeCuda::create_event() {
  SENNIT_RETURN_IF_ERROR(enter("create_event"));
  const std::scoped_lock lock(mutex_);
  auto event = std::make_unique<FakeEvent>();
  void* const key = event.get();
  events_[key] = std::move(event);
  return key;
}

Status FakeCuda::destroy_event(void* event) {
  SENNIT_RETURN_IF_ERROR(enter("destroy_event"));
  const std::scoped_lock lock(mutex_);
  return events_.erase(event) == 1 ? Status()
                                   : sennit::fail(Code::kSystemError, "there is no such event");
}

Status FakeCuda::record(void* event, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("record"));
  FakeStream& s = *to_stream(stream);
  FakeEvent& e = *to_event(event);
  e.captured_in = s.capture != nullptr ? &s : nullptr;
  put(s, [&e](FakeStream& in) {
    const std::uint64_t number = [&] {
      const std::scoped_lock lock(e.mutex);
      return ++e.recorded;
    }();
    in.queue().put([&e, number](const std::stop_token&) {
      const std::scoped_lock lock(e.mutex);
      e.reached = std::max(e.reached, number);
      e.changed.notify_all();
    });
  });
  return {};
}

Status FakeCuda::wait_for(void* event, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("wait_for"));
  FakeStream& s = *to_stream(stream);
  FakeEvent& e = *to_event(event);
  if (e.captured_in != nullptr) {
    s.capture = e.captured_in->capture;
    e.captured_in->has_unjoined_work = false;
  } else if (s.capture != nullptr && e.recorded > 0) {
    return sennit::fail(Code::kInvalidUsage, "a capture waits for an event from outside of it");
  }
  put(s, [&e](FakeStream& in) {
    const std::uint64_t number = [&] {
      const std::scoped_lock lock(e.mutex);
      return e.recorded;
    }();
    in.queue().put([&e, number](const std::stop_token& stopped) {
      std::unique_lock lock(e.mutex);
      e.changed.wait(lock, stopped, [&] { return e.reached >= number; });
    });
  });
  return {};
}

Status FakeCuda::walk_words(std::span<const WordStep> steps, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("walk_words"));
  if (!options_.has_word_steps) {
    return sennit::fail(Code::kUnsupported, "the fake device takes no word steps");
  }
  if (steps.size() > kMaxWordSteps) {
    return sennit::fail(Code::kInternalError, "{} word steps at once", steps.size());
  }
  put(*to_stream(stream), [copy = std::vector(steps.begin(), steps.end())](FakeStream& s) {
    s.queue().put([copy](const std::stop_token& stopped) { walk(copy, stopped); });
  });
  return {};
}

Result<bool> FakeCuda::is_capturing(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("is_capturing"));
  return to_stream(stream)->capture != nullptr;
}

Status FakeCuda::synchronize(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("synchronize"));
  to_stream(stream)->queue().drain();
  return {};
}

void FakeCuda::begin_capture(void* stream) {
  captures_.push_back(std::make_shared<FakeGraph>());
  captures_.back()->origin_ = to_stream(stream);
  to_stream(stream)->capture = captures_.back().get();
}

Result<FakeGraph> FakeCuda::end_capture(void* stream) {
  FakeGraph* const graph = to_stream(stream)->capture;
  bool joined = true;
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, other] : streams_) {
    if (other->capture == graph) {
      joined = joined && (other.get() == stream || !other->has_unjoined_work);
      other->capture = nullptr;
      other->has_unjoined_work = false;
    }
  }
  // An event of the capture means nothing outside of it.
  for (const auto& [key, event] : events_) {
    event->captured_in = nullptr;
  }
  if (!joined) {
    return sennit::fail(Code::kInvalidUsage, "a capture ends with work that was not joined");
  }
  return *graph;
}

}  // namespace sennit
