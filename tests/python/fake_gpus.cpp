// libsennit.so on two fake GPUs, for tests of the Python package without a GPU: the library as it
// is, with FakeCuda as its driver. LD_PRELOAD puts it in front of the real one. Kernels of the
// fakes move any type, and add bytes.
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_norming_kernel.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace sennit {
namespace {

constexpr int kGpus = 2;

std::function<void()> run_kernel(const void* kernel, const void* parameters) {
  const bool is_of_pairs =
      kernel == sm::pairs_kernel(1, false) || tests::is_small_pairs_kernel(kernel);
  constexpr int kLlBlocks = 32;
  if (std::function<void()> norming = tests::fake_norming_kernel(kernel, parameters, kLlBlocks)) {
    return norming;
  }
  return is_of_pairs ? tests::fake_pairs_kernel(kernel, parameters)
                     : tests::fake_direct_kernel(kernel, parameters);
}

// It is not taken down: streams may still run when the process ends.
FakeCuda& fake_cuda() {
  static FakeCuda& cuda = [&]() -> FakeCuda& {
    auto* const made =
        new FakeCuda({.devices = kGpus, .process = static_cast<std::uint64_t>(::getpid())});
    made->run_kernels(run_kernel);
    return *made;
  }();
  return cuda;
}

std::atomic<void*>& last_stream() {
  static std::atomic<void*> stream;
  return stream;
}

}  // namespace

bool is_built_with_cuda() { return true; }

Result<CudaDriver*> cuda_driver() {
  static const bool kIsWatched = [] {
    fake_cuda().watch([](const FakeCuda::Issued& issued) {
      if (issued.what == FakeCuda::Issued::What::kLaunch) {
        last_stream() = issued.stream;
      }
    });
    return true;
  }();
  (void)kIsWatched;
  return &fake_cuda();
}

}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

#define FAKE_API __attribute__((visibility("default")))

// The current device of this thread, with a default stream of its own.
FAKE_API void fake_use_device(int device) {
  (void)fake_cuda().use_device(device);
  FakeCuda::set_default_stream(fake_cuda().create_stream().value());
}

// Memory of the current device, and whose memory it is; -1: the host's.
FAKE_API void* fake_allocate(std::size_t bytes) { return fake_cuda().allocate(bytes).value(); }
FAKE_API int fake_device_of(const void* pointer) {
  const Result<PointerFacts> facts = fake_cuda().facts_of(pointer);
  return facts.ok() && facts->kind == MemoryKind::kDevice ? facts->device : -1;
}

FAKE_API void* fake_stream() { return fake_cuda().create_stream().value(); }
FAKE_API void fake_synchronize(void* stream) { (void)fake_cuda().synchronize(stream); }

// Nothing in the stream goes on before fake_open(): what it gives belongs there.
FAKE_API std::uint64_t* fake_close(void* stream) {
  auto* const word = new std::uint64_t(0);
  const WordStep step{WordStep::Kind::kAwait, word, 1};
  (void)fake_cuda().walk_words({&step, 1}, stream);
  return word;
}
FAKE_API void fake_open(std::uint64_t* word) { std::atomic_ref(*word).store(1); }

// An event: the stream stores to the word when it gets here, and others wait for that.
FAKE_API std::uint64_t* fake_record(void* stream) {
  auto* const word = new std::uint64_t(0);
  const WordStep step{WordStep::Kind::kStore, word, 1};
  (void)fake_cuda().walk_words({&step, 1}, stream);
  return word;
}
FAKE_API void fake_await(std::uint64_t* word, void* stream) {
  const WordStep step{WordStep::Kind::kAwait, word, 1};
  (void)fake_cuda().walk_words({&step, 1}, stream);
}
FAKE_API int fake_has_happened(std::uint64_t* word) {
  return static_cast<int>(std::atomic_ref(*word).load());
}

FAKE_API void fake_begin_capture(void* stream) { fake_cuda().begin_capture(stream); }
FAKE_API FakeGraph* fake_end_capture(void* stream) {
  return new FakeGraph(fake_cuda().end_capture(stream).value());
}
FAKE_API void fake_launch(const FakeGraph* graph, void* stream) { graph->launch(stream); }

FAKE_API int fake_calls(const char* name) { return fake_cuda().calls(name); }
// Of the last launch of a kernel.
FAKE_API void* fake_last_stream() { return last_stream(); }
// Wrong copies, as text that stays valid until the next question.
FAKE_API const char* fake_faults() {
  static std::string faults;
  faults = fake_cuda().faults();
  return faults.c_str();
}

}  // extern "C"
