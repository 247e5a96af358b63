// FakeCuda: the GPUs of one process, made of host memory and threads, for tests without a GPU.
//
//   FakeCuda cuda({.devices = 4});
//   cuda.fail("copy_async", 2);        // the second copy from now on, once
//   ... give &cuda to whoever wants a CudaDriver ...
//   EXPECT_EQ(cuda.faults(), "");      // copies that a GPU would have faulted on
//
// Device memory is a file in memory, so other fakes, of this process or of another one, import it
// at an address of their own: whoever mixes the address of one process with that of another is
// found out. A stream is a queue with a thread. Word steps and copies do in their turn what a GPU
// would do, kernels what run_kernels() says. A stream that captures keeps its work instead, for
// FakeGraph::launch.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {

class FakeQueue;
class FakeStream;
struct FakeEvent;

// When words were written, by the clocks of the streams that did. Fakes see them at addresses of
// their own, so a word goes by its place in what was mapped: words lie in one such piece of memory.
class FakeWordTimes {
 public:
  void write(std::size_t place, double at_us) {
    const std::scoped_lock lock(mutex_);
    at_us_[place] = at_us;
  }
  double read(std::size_t place) {
    const std::scoped_lock lock(mutex_);
    return at_us_[place];
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, double> at_us_;
};

// What was captured. Its work goes into the streams that it was captured from, but what was put
// into the captured stream itself goes into the one that it is launched in.
class FakeGraph {
 public:
  struct Entry {
    FakeStream* stream = nullptr;
    std::function<void(FakeStream&)> submit;
  };

  void launch(void* stream) const;

 private:
  friend class FakeCuda;
  FakeStream* origin_ = nullptr;
  std::vector<Entry> entries_;
};

class FakeCuda final : public CudaDriver, public CudaSharing, public CudaEvents {
 public:
  struct Options {
    int devices = 1;
    std::uint64_t process = 0;  // 0: one of its own, as if each fake were a process
    bool has_word_steps = true;
    bool has_peers = true;
    // Pairs of devices that no wires join, in either direction, although others are.
    std::vector<std::pair<int, int>> unjoined{};
    // Pairs of devices: what the first writes into memory of the second arrives with other bits.
    std::vector<std::pair<int, int>> corrupting{};
    // All streams of a device share one queue, as with CUDA_DEVICE_MAX_CONNECTIONS=1.
    bool one_queue = false;
    // What it exports by descriptors others may not take, as in a container that forbids it.
    bool hides_descriptors = false;
    bool has_mps = false;
  };
  // Asked at the launch, when `parameters` can be read: what the kernel does in its turn.
  using Kernel = std::function<std::function<void()>(const void* kernel, const void* parameters)>;

  explicit FakeCuda(Options options);
  ~FakeCuda() override;

  // The `nth` call of this name from now on fails once, with `code`.
  void fail(const std::string& call, int nth = 1, Code code = Code::kSystemError);
  // Calls of this name since the beginning.
  [[nodiscard]] int calls(const std::string& call);
  // What copies did wrong; empty when nothing.
  [[nodiscard]] std::string faults();
  // Allocations, imports, streams, events and mapped pages that were not given back.
  [[nodiscard]] int left_over();

  // Of the last launch.
  [[nodiscard]] LaunchShape last_shape();

  void run_kernels(Kernel kernel) { kernel_ = std::move(kernel); }

  // Called with what is put into streams, in the order of the calls: also while they capture.
  struct Issued {
    enum class What : std::uint8_t { kLaunch, kCopy, kRecord, kWaitFor, kWalk };
    What what = What::kLaunch;
    void* stream = nullptr;
    void* event = nullptr;             // of the records and waits
    const void* kernel = nullptr;      // of a launch
    const void* parameters = nullptr;  // as long as the call lasts
    void* to = nullptr;                // of a copy, as are the next two
    const void* from = nullptr;
    std::size_t bytes = 0;
    std::span<const WordStep> steps{};  // as long as the call lasts
  };
  void watch(std::function<void(const Issued&)> watcher) { watcher_ = std::move(watcher); }

  // What timed events see: each stream has a clock that goes on by what its work is said to take,
  // and to that of an event that it waits for; copies out of host memory also wait for each
  // other. Words move clocks of fakes that have the same `words`. Nothing takes time unless it is
  // said here, before the first work.
  struct Costs {
    std::function<double(bool is_from_host, std::size_t bytes)> copy_us{};
    std::function<double(const void* kernel, const void* parameters)> kernel_us{};
    double words_us = 0;  // of steps on words that are taken at once
    std::shared_ptr<FakeWordTimes> words{};
  };
  void set_costs(Costs costs) { costs_ = std::move(costs); }
  // A device allocation that cannot be exported, like those of memory pools.
  Result<void*> allocate_private(std::size_t bytes);
  // One that the program has mapped (cuMemMap), open to the current device alone and exported by a
  // descriptor. When it has been released and nobody holds it, the next one gets its id.
  Result<void*> allocate_virtual(std::size_t bytes);
  // Two of these in a row.
  Result<std::array<void*, 2>> allocate_virtual_pair(std::size_t bytes_each);

  // As cudaStreamPerThread: a handle that means another stream in each thread, the one that it has
  // set.
  static void* per_thread_stream();
  static void set_thread_stream(void* stream);
  // What NULL means in this thread: the default stream of the device that it works on.
  static void set_default_stream(void* stream);

  void begin_capture(void* stream);
  // kInvalidUsage where work in another stream was not joined.
  Result<FakeGraph> end_capture(void* stream);

  std::uint64_t process() override { return options_.process; }
  int queues() override { return options_.one_queue ? 1 : 32; }
  Result<int> device_count() override;
  Result<CudaDevice> describe(int device) override;
  Result<int> current_device() override;
  Status use_device(int device) override;
  Result<bool> reaches_peer(int peer) override;
  Status enable_peer(int peer) override;
  Result<void*> allocate(std::size_t bytes) override;
  Status release(void* memory) override;
  Result<MappedMemory> allocate_mapped(std::size_t bytes) override;
  Status release_mapped(const MappedMemory& memory) override;
  Result<void*> map_host(void* memory, std::size_t bytes) override;
  Status unmap_host(void* memory) override;
  Result<PointerFacts> facts_of(const void* pointer) override;
  Result<Allocation> allocation_of(const void* pointer) override;
  CudaSharing& sharing() override { return *this; }
  Result<ExportedMemory> export_memory(void* memory) override;
  Result<void*> import_memory(const MemoryHandle& handle) override;
  Status close_imported(void* memory) override;
  Status preload(const void* kernel) override;
  Status launch(const void* kernel,
                const LaunchShape& shape,
                const void* parameters,
                void* stream) override;
  Status copy_async(void* to, const void* from, std::size_t bytes, void* stream) override;
  Result<void*> create_stream() override;
  Status destroy_stream(void* stream) override;
  Result<std::uint64_t> stream_id(void* stream) override;
  CudaEvents& events() override { return *this; }
  Result<void*> create_event() override;
  Result<void*> create_timed_event() override;
  Status destroy_event(void* event) override;
  Status record(void* event, void* stream) override;
  Status wait_for(void* event, void* stream) override;
  Result<bool> has_passed(void* event) override;
  Result<bool> is_idle(void* stream) override;
  Result<std::optional<double>> elapsed_us(void* begin, void* end) override;
  Status walk_words(std::span<const WordStep> steps, void* stream) override;
  Status call_host(void (*act)(void*), void* argument, void* stream) override;
  Result<bool> is_capturing(void* stream) override;
  Status synchronize(void* stream) override;

 private:
  // Bytes that a device can reach, by address.
  struct Region {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    int device = -1;  // -1: host memory
    std::uint64_t id = 0;
    int file = -1;  // memory that was allocated here
    bool is_imported = false;
    bool is_pinned = false;  // host memory that was allocated here
    bool can_be_exported = true;
    bool is_virtual = false;
    std::shared_ptr<void> hold{};  // of virtual memory
  };
  // Ids of virtual memory that is there or held.
  struct HeldIds {
    std::mutex mutex;
    std::set<std::uint64_t> ids;
  };

  int& device_of_thread() const;
  Status enter(std::string_view call);
  // At `address`, where there is one, in place of what is there.
  Result<void*> allocate_region(std::size_t bytes, const Region& kind, void* address = nullptr);
  void hold_id(Region& region);
  Status drop(void* memory, std::string_view what, bool is_imported);
  const Region* region_of(const void* pointer) const;
  [[nodiscard]] bool are_joined(int device, int peer) const;
  [[nodiscard]] bool corrupts(const void* to, int device);
  void check_range(const void* pointer, std::size_t bytes, int device, std::string_view what);
  void report(const Issued& issued) const;
  void put(FakeStream& stream, std::function<void(FakeStream&)> submit);
  void pass_copy(const void* from, std::size_t bytes, double& now_us);
  // Where the word of a step lies in the mapped memory.
  std::size_t place_of(const WordStep& step);
  Result<void*> make_event(bool is_timed);

  Options options_;
  std::uint64_t number_ = 0;  // of this fake, in its process
  Kernel kernel_;
  std::function<void(const Issued&)> watcher_;
  Costs costs_;
  double from_host_us_ = 0;  // until when its copy engine is busy
  LaunchShape last_shape_;
  std::mutex mutex_;
  std::map<const std::byte*, Region> regions_;
  std::vector<std::pair<int, int>> peers_;  // device, and whose memory it may reach
  std::map<std::string, std::pair<int, Code>, std::less<>> failures_;
  std::map<std::string, int, std::less<>> calls_;
  std::map<void*, std::unique_ptr<FakeStream>> streams_;
  std::uint64_t streams_made_ = 0;
  std::vector<std::shared_ptr<FakeQueue>> left_queues_;  // of streams that ended before their work
  std::map<void*, std::shared_ptr<FakeEvent>> events_;
  std::vector<std::shared_ptr<FakeGraph>> captures_;
  std::string faults_;
  std::uint64_t next_id_ = 1;
  std::shared_ptr<HeldIds> held_ids_ = std::make_shared<HeldIds>();
};

}  // namespace sennit
