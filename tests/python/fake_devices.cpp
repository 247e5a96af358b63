// CUDA devices as PyTorch sees them, over the fake GPUs of fake_gpus.cpp: streams and events. A
// build of PyTorch without CUDA has none, so these take their place. Loaded by tests/python/gpu.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cstdint>
#include <mutex>
#include <vector>

extern "C" {
void* fake_stream();
void fake_synchronize(void* stream);
std::uint64_t* fake_record(void* stream);
void fake_await(std::uint64_t* word, void* stream);
int fake_has_happened(std::uint64_t* word);
}

namespace {

thread_local c10::DeviceIndex current_device = 0;
thread_local c10::StreamId current_stream = 0;
int remembered = 0;

// Streams by their number.
class Streams {
 public:
  c10::StreamId add() {
    const std::lock_guard lock(mutex_);
    streams_.push_back(fake_stream());
    return static_cast<c10::StreamId>(streams_.size());
  }
  void* at(c10::StreamId id) {
    const std::lock_guard lock(mutex_);
    return streams_.at(static_cast<std::size_t>(id) - 1);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> streams_;
};

Streams& streams() {
  static Streams all;
  return all;
}

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device, id);
}

struct FakeDevices final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    current_device = device.index();
    return old;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device, current_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_of(device, streams().add());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream old = getStream(stream.device());
    current_stream = stream.id();
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return streams().at(stream.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void record(void** event,
              const c10::Stream& stream,
              c10::DeviceIndex,
              c10::EventFlag) const override {
    *event = fake_record(streams().at(stream.id()));
  }
  void block(void* event, const c10::Stream& stream) const override {
    fake_await(static_cast<std::uint64_t*>(event), streams().at(stream.id()));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || fake_has_happened(static_cast<std::uint64_t*>(event)) != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    fake_synchronize(streams().at(stream.id()));
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {
    ++remembered;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, FakeDevices)

}  // namespace

extern "C" {

#define FAKE_API __attribute__((visibility("default")))

// Gives this thread a device, and a stream as its current one.
FAKE_API void* fake_devices_use(int device) {
  current_device = static_cast<c10::DeviceIndex>(device);
  current_stream = streams().add();
  return streams().at(current_stream);
}

// How often memory was remembered for a stream on which it was not allocated.
FAKE_API int fake_devices_remembered() { return remembered; }

}  // extern "C"
