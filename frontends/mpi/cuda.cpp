#include "cuda.hpp"

#include "cuda_abi.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace sennit_mpi {
namespace {

using namespace cuda_abi;  // NOLINT(google-build-using-namespace): what cuda.h would declare

// The longest pitch that every GPU takes is 2^31 - 1.
constexpr std::size_t kLongestPitch = std::size_t{1} << 30;

// CU_STREAM_LEGACY: the default stream, also of programs that are compiled for one a thread.
Stream default_stream() { return reinterpret_cast<Stream>(std::uintptr_t{1}); }

// The library that was loaded last. It stays loaded, because its place in the loader's list is
// looked at. Most programs load none after their first call.
const link_map* newest_library() {
  link_map* newest = nullptr;
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  if (program == nullptr || ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&newest)) != 0) {
    return nullptr;
  }
  while (newest->l_next != nullptr) {
    newest = newest->l_next;
  }
  return ::dlopen(newest->l_name, RTLD_LAZY | RTLD_NOLOAD) != nullptr ? newest : nullptr;
}

// How often libraries have been loaded: what is not there is not looked for again until that grows.
std::uint64_t loads() {
  std::uint64_t count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*size*/, void* result) {
        *static_cast<std::uint64_t*>(result) = info->dlpi_adds;
        return 1;  // the first says it
      },
      &count);
  return count;
}

}  // namespace

struct Cuda::Functions {
  int (*attributes)(unsigned, const int*, void**, DevicePointer) = nullptr;
  int (*retain_primary)(void**, int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*copy)(DevicePointer, DevicePointer, std::size_t, Stream) = nullptr;
  int (*copy_2d)(const Copy2d*, Stream) = nullptr;
  int (*create_stream)(Stream*, unsigned) = nullptr;
  int (*synchronize)(Stream) = nullptr;
  int (*query)(Stream) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*name)(int, const char**) = nullptr;
};

const Cuda* Cuda::find() {
  static std::atomic<const Cuda*> found{nullptr};
  static std::atomic<std::uint64_t> seen_loads{0};
  if (const Cuda* const known = found.load(std::memory_order_acquire)) {
    return known;
  }
  const std::uint64_t now = loads();
  if (seen_loads.load(std::memory_order_relaxed) == now) {
    return nullptr;
  }
  static std::mutex finding;
  const std::scoped_lock lock(finding);
  if (found.load(std::memory_order_acquire) == nullptr) {
    void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) {
      auto functions = std::make_unique<Functions>();
      const auto take = [&](auto& function, const char* name) {
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
        return function != nullptr;
      };
      if (take(functions->attributes, "cuPointerGetAttributes") &&
          take(functions->retain_primary, "cuDevicePrimaryCtxRetain") &&
          take(functions->push, "cuCtxPushCurrent_v2") &&
          take(functions->pop, "cuCtxPopCurrent_v2") && take(functions->copy, "cuMemcpyAsync") &&
          take(functions->copy_2d, "cuMemcpy2DAsync_v2") &&
          take(functions->create_stream, "cuStreamCreate") &&
          take(functions->synchronize, "cuStreamSynchronize") &&
          take(functions->query, "cuStreamQuery") &&
          take(functions->allocate_host, "cuMemHostAlloc") &&
          take(functions->name, "cuGetErrorName")) {
        // Never freed: programs call MPI in destructors of their own globals.
        found.store(new Cuda(std::move(functions)), std::memory_order_release);
      }
    }
    seen_loads.store(now, std::memory_order_relaxed);
    const bool is_there = found.load(std::memory_order_relaxed) != nullptr;
    if (is_there) {
      next_library.store(nullptr, std::memory_order_relaxed);
    } else if (next_library.load(std::memory_order_relaxed) == nullptr) {
      if (const link_map* const newest = newest_library()) {
        next_library.store(&newest->l_next, std::memory_order_relaxed);
      }
    }
  }
  return found.load(std::memory_order_acquire);
}

Cuda::Cuda(std::unique_ptr<const Functions> functions) : functions_(std::move(functions)) {}

void Cuda::check(int code, const char* what) const {
  if (code != kSuccess) {
    const char* name = nullptr;
    functions_->name(code, &name);
    throw std::runtime_error(std::string(what) +
                             " failed: " + (name != nullptr ? name : std::to_string(code)));
  }
}

MemoryPlace Cuda::place_of(const void* memory) const {
  std::array attributes = {kMemoryTypeOf, kIsManaged, kDeviceOf, kContextOf};
  unsigned type = 0;
  // The documentation calls it a boolean and does not say how wide: room for all.
  std::uint64_t is_managed = 0;
  MemoryPlace place;
  std::array<void*, attributes.size()> values = {
      &type, &is_managed, &place.device, static_cast<void*>(&place.context)};
  // It knows host memory of the system as well, and a process without a context has no other.
  const int code = functions_->attributes(static_cast<unsigned>(attributes.size()),
                                          attributes.data(),
                                          values.data(),
                                          reinterpret_cast<DevicePointer>(memory));
  return code == kSuccess && type == kDeviceMemory && is_managed == 0 ? place : MemoryPlace{};
}

void* Cuda::primary_context(int device) const {
  const std::scoped_lock lock(mutex_);
  const auto index = static_cast<std::size_t>(device);
  if (contexts_.size() <= index) {
    contexts_.resize(index + 1);
  }
  if (contexts_[index] == nullptr) {
    check(functions_->retain_primary(&contexts_[index], device), "cuDevicePrimaryCtxRetain");
  }
  return contexts_[index];
}

void* Cuda::make_stream() const {
  void* stream = nullptr;
  check(functions_->create_stream(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void* Cuda::stream_of_copies(void* context) const {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(streams_, context, &std::pair<void*, void*>::first);
  return known != streams_.end() ? known->second
                                 : streams_.emplace_back(context, make_stream()).second;
}

Cuda::Scope::Scope(const Cuda& cuda, const MemoryPlace& place) : cuda_(cuda) {
  void* const context =
      place.context != nullptr ? place.context : cuda.primary_context(place.device);
  cuda.check(cuda.functions_->push(context), "cuCtxPushCurrent");
  try {
    stream_ = cuda.stream_of_copies(context);
  } catch (...) {
    void* popped = nullptr;
    cuda.functions_->pop(&popped);
    throw;
  }
}
Cuda::Scope::~Scope() {
  void* context = nullptr;
  cuda_.functions_->pop(&context);
}

void Cuda::Scope::wait_for_program() const {
  if (!is_idle(nullptr)) {
    cuda_.check(cuda_.functions_->synchronize(default_stream()), "cuStreamSynchronize");
  }
}

void Cuda::Scope::copy(std::byte* to, const std::byte* from, const Rows& rows, bool is_in) const {
  const bool is_one = rows.rows == 1 || rows.pitch == rows.width;
  if (is_one || rows.pitch > kLongestPitch) {
    const std::size_t count = is_one ? 1 : rows.rows;
    const std::size_t width = is_one ? rows.width * rows.rows : rows.width;
    for (std::size_t row = 0; row < count; ++row) {
      const std::size_t at = row * rows.pitch;
      cuda_.check(cuda_.functions_->copy(reinterpret_cast<DevicePointer>(to + at),
                                         reinterpret_cast<DevicePointer>(from + at),
                                         width,
                                         stream_),
                  "cuMemcpyAsync");
    }
    return;
  }
  Copy2d copy{.from_type = is_in ? kDeviceMemory : kHostMemory,
              .from_pitch = rows.pitch,
              .to_type = is_in ? kHostMemory : kDeviceMemory,
              .to_pitch = rows.pitch,
              .width = rows.width,
              .height = rows.rows};
  if (is_in) {
    copy.from_device = reinterpret_cast<DevicePointer>(from);
    copy.to_host = to;
  } else {
    copy.from_host = from;
    copy.to_device = reinterpret_cast<DevicePointer>(to);
  }
  cuda_.check(cuda_.functions_->copy_2d(&copy, stream_), "cuMemcpy2DAsync");
}

void Cuda::Scope::copy_in(std::byte* host, const std::byte* device, const Rows& rows) const {
  copy(host + rows.offset, device + rows.offset, rows, true);
}
void Cuda::Scope::copy_out(std::byte* device, const std::byte* host, const Rows& rows) const {
  copy(device + rows.offset, host + rows.offset, rows, false);
}
void Cuda::Scope::wait() const {
  cuda_.check(cuda_.functions_->synchronize(stream_), "cuStreamSynchronize");
}
void Cuda::Scope::end_copies() const noexcept { cuda_.functions_->synchronize(stream_); }
void* Cuda::Scope::stream_for_calls() const { return cuda_.make_stream(); }
bool Cuda::Scope::is_idle(void* stream) const {
  const int code = cuda_.functions_->query(stream != nullptr ? stream : default_stream());
  if (code == kNotReady) {
    return false;
  }
  cuda_.check(code, "cuStreamQuery");
  return true;
}

// To pin memory takes up to milliseconds, so it is pinned once. What does not fit is not pinned.
Cuda::Staging::Staging(const Cuda& cuda, std::size_t bytes)
    : cuda_(&cuda),
      size_class_(
          static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(bytes, 4096) - 1))) {
  if (size_class_ >= kSizeClasses) {
    pageable_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    data_ = pageable_.get();
    return;
  }
  {
    const std::scoped_lock lock(cuda.mutex_);
    std::byte*& idle = cuda.pinned_[size_class_];
    if (idle != nullptr) {
      data_ = idle;
      std::memcpy(static_cast<void*>(&idle), data_, sizeof(idle));
      return;
    }
  }
  void* memory = nullptr;
  cuda.check(
      cuda.functions_->allocate_host(&memory, std::size_t{1} << size_class_, kForAllContexts),
      "cuMemHostAlloc");
  data_ = static_cast<std::byte*>(memory);
}

Cuda::Staging::Staging(Staging&& other) noexcept
    : cuda_(other.cuda_),
      data_(std::exchange(other.data_, nullptr)),
      size_class_(other.size_class_),
      pageable_(std::move(other.pageable_)) {}

Cuda::Staging& Cuda::Staging::operator=(Staging&& other) noexcept {
  if (this != &other) {
    give_back();
    cuda_ = other.cuda_;
    data_ = std::exchange(other.data_, nullptr);
    size_class_ = other.size_class_;
    pageable_ = std::move(other.pageable_);
  }
  return *this;
}

void Cuda::Staging::give_back() {
  if (data_ != nullptr && pageable_ == nullptr) {
    const std::scoped_lock lock(cuda_->mutex_);
    std::byte*& idle = cuda_->pinned_[size_class_];
    std::memcpy(data_, static_cast<const void*>(&idle), sizeof(idle));
    idle = data_;
  }
  data_ = nullptr;
}

}  // namespace sennit_mpi
