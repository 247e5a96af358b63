#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace sennit {
namespace {

constexpr std::size_t kBytes = 4096;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

// One device with a stream, two buffers of memory and a page of words that host and device share.
class OneDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    stream_ = take(cuda_.create_stream());
    from_ = take(cuda_.allocate(kBytes));
    to_ = take(cuda_.allocate(kBytes));
    words_ = take(cuda_.allocate_mapped(kBytes));
    std::memset(from_, 7, kBytes);
  }

  std::uint64_t* word(int index) { return static_cast<std::uint64_t*>(words_.host) + index; }
  void await(std::uint64_t* word, std::uint64_t value) {
    const WordStep step{WordStep::Kind::kAwait, word, value};
    expect_ok(cuda_.walk_words({&step, 1}, stream_));
  }
  [[nodiscard]] bool copied() const { return std::memcmp(from_, to_, kBytes) == 0; }

  FakeCuda cuda_{{.devices = 2}};
  void* stream_ = nullptr;
  void* from_ = nullptr;
  void* to_ = nullptr;
  MappedMemory words_;
};

TEST_F(OneDevice, DoesTheWorkOfAStreamInItsOrderAndLater) {
  await(word(0), 5);
  expect_ok(cuda_.copy_async(to_, from_, kBytes, stream_));
  const std::array steps = {WordStep{WordStep::Kind::kStore, word(1), 9}};
  expect_ok(cuda_.walk_words(steps, stream_));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(copied());
  std::atomic_ref(*word(0)).store(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(copied());
  std::atomic_ref(*word(0)).store(5);
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_TRUE(copied());
  EXPECT_EQ(*word(1), 9U);
  EXPECT_EQ(cuda_.faults(), "");
}

TEST_F(OneDevice, OrdersStreamsByEvents) {
  void* const other = take(cuda_.create_stream());
  void* const event = take(cuda_.create_event());
  await(word(0), 1);
  expect_ok(cuda_.record(event, stream_));
  expect_ok(cuda_.wait_for(event, other));
  expect_ok(cuda_.copy_async(to_, from_, kBytes, other));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(copied());
  std::atomic_ref(*word(0)).store(1);
  expect_ok(cuda_.synchronize(other));
  EXPECT_TRUE(copied());
}

TEST_F(OneDevice, TellsTheTimeBetweenEventsThatWereReached) {
  cuda_.set_costs({.copy_us = [](bool is_from_host, std::size_t bytes) {
    return static_cast<double>(bytes) * (is_from_host ? 3 : 1);
  }});
  void* const other = take(cuda_.create_stream());
  void* const begin = take(cuda_.create_timed_event());
  void* const end = take(cuda_.create_timed_event());
  EXPECT_FALSE(cuda_.elapsed_us(begin, end).ok()) << "not recorded";
  expect_ok(cuda_.copy_async(to_, from_, 1, stream_));
  expect_ok(cuda_.record(begin, stream_));
  expect_ok(cuda_.wait_for(begin, other));
  expect_ok(cuda_.copy_async(to_, from_, kBytes, other));
  expect_ok(cuda_.copy_async(to_, word(2), 8, other));
  const WordStep wait{WordStep::Kind::kAwait, word(0), 1};
  expect_ok(cuda_.walk_words({&wait, 1}, other));
  expect_ok(cuda_.record(end, other));
  EXPECT_FALSE(take(cuda_.elapsed_us(begin, end)));
  std::atomic_ref(*word(0)).store(1);
  expect_ok(cuda_.synchronize(other));
  EXPECT_EQ(take(cuda_.elapsed_us(begin, end)), kBytes + 24);
  void* const untimed = take(cuda_.create_event());
  expect_ok(cuda_.record(untimed, stream_));
  EXPECT_FALSE(cuda_.elapsed_us(begin, untimed).ok());
}

TEST_F(OneDevice, ReplaysWhatWasCaptured) {
  void* const other = take(cuda_.create_stream());
  void* const fork = take(cuda_.create_event());
  void* const join = take(cuda_.create_event());
  cuda_.begin_capture(stream_);
  EXPECT_TRUE(take(cuda_.is_capturing(stream_)));
  expect_ok(cuda_.record(fork, stream_));
  expect_ok(cuda_.wait_for(fork, other));
  expect_ok(cuda_.copy_async(to_, from_, kBytes, other));
  expect_ok(cuda_.record(join, other));
  expect_ok(cuda_.wait_for(join, stream_));
  const FakeGraph graph = take(cuda_.end_capture(stream_));
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_FALSE(copied());
  for (const int value : {3, 4}) {
    std::memset(from_, value, kBytes);
    graph.launch(stream_);
    expect_ok(cuda_.synchronize(stream_));
    EXPECT_TRUE(copied());
  }
}

TEST_F(OneDevice, RefusesACaptureWithWorkThatWasNotJoined) {
  void* const other = take(cuda_.create_stream());
  void* const fork = take(cuda_.create_event());
  cuda_.begin_capture(stream_);
  expect_ok(cuda_.record(fork, stream_));
  expect_ok(cuda_.wait_for(fork, other));
  expect_ok(cuda_.copy_async(to_, from_, kBytes, other));
  EXPECT_EQ(cuda_.end_capture(stream_).status().code(), Code::kInvalidUsage);
}

TEST_F(OneDevice, FailsOnDemandAndOnce) {
  cuda_.fail("copy_async", 2, Code::kSystemError);
  expect_ok(cuda_.copy_async(to_, from_, kBytes, stream_));
  EXPECT_EQ(cuda_.copy_async(to_, from_, kBytes, stream_).code(), Code::kSystemError);
  expect_ok(cuda_.copy_async(to_, from_, kBytes, stream_));
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_EQ(cuda_.calls("copy_async"), 3);
}

TEST_F(OneDevice, TellsOfCopiesThatAGpuWouldFaultOn) {
  // Within whole pages, so that the copy itself does no harm here.
  void* const small = take(cuda_.allocate(100));
  expect_ok(cuda_.copy_async(to_, small, 101, stream_));
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_NE(cuda_.faults().find("outside"), std::string::npos);
}

TEST_F(OneDevice, AsksForLeaveToReachAnotherDevice) {
  expect_ok(cuda_.use_device(1));
  void* const far = take(cuda_.allocate(kBytes));
  expect_ok(cuda_.use_device(0));
  expect_ok(cuda_.copy_async(to_, far, kBytes, stream_));
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_NE(cuda_.faults().find("without leave"), std::string::npos);
}

TEST_F(OneDevice, TellsAllocationsApartThoughTheyHaveOneAddress) {
  const Allocation first = take(cuda_.allocation_of(static_cast<std::byte*>(from_) + 100));
  EXPECT_EQ(first.base, from_);
  EXPECT_EQ(first.bytes, kBytes);
  expect_ok(cuda_.release(from_));
  // Freed address space is taken again first.
  void* const again = take(cuda_.allocate(kBytes));
  EXPECT_NE(take(cuda_.allocation_of(again)).id, first.id);
}

TEST(FakeProcesses, ShareMemoryAtAddressesOfTheirOwn) {
  FakeCuda owner({});
  FakeCuda guest({});
  EXPECT_NE(owner.process(), guest.process());
  void* const memory = take(owner.allocate(kBytes));
  const MemoryHandle handle = take(owner.export_memory(memory)).handle;
  void* const imported = take(guest.import_memory(handle));
  EXPECT_NE(memory, imported);
  std::memset(memory, 42, kBytes);
  EXPECT_EQ(std::memcmp(memory, imported, kBytes), 0);
  expect_ok(owner.release(memory));
  EXPECT_EQ(static_cast<unsigned char*>(imported)[kBytes - 1], 42);  // still there for the guest
  expect_ok(guest.close_imported(imported));
  EXPECT_EQ(owner.left_over() + guest.left_over(), 0);
  EXPECT_FALSE(guest.import_memory(handle).ok());
}

TEST(FakeProcesses, ShareVirtualMemoryByADescriptor) {
  FakeCuda owner({});
  FakeCuda guest({});
  void* const memory = take(owner.allocate_virtual(kBytes));
  ExportedMemory exported = take(owner.export_memory(memory));
  ASSERT_EQ(exported.handle.kind, MemoryHandle::Kind::kDescriptor);
  void* const imported = take(guest.import_memory(exported.handle));
  EXPECT_NE(memory, imported);
  exported.descriptor.reset();
  EXPECT_FALSE(guest.import_memory(exported.handle).ok());
  expect_ok(owner.release(memory));
  static_cast<char*>(imported)[kBytes - 1] = 42;  // still there for the guest
  expect_ok(guest.close_imported(imported));
  EXPECT_EQ(owner.left_over() + guest.left_over(), 0);
}

TEST(FakeProcesses, GiveAnIdOfVirtualMemoryAgainWhenNobodyHoldsIt) {
  FakeCuda owner({});
  void* memory = take(owner.allocate_virtual(kBytes));
  ExportedMemory exported = take(owner.export_memory(memory));
  const std::uint64_t first = take(owner.allocation_of(memory)).id;
  const auto renew = [&] {
    expect_ok(owner.release(memory));
    memory = take(owner.allocate_virtual(kBytes));
    return take(owner.allocation_of(memory)).id;
  };
  EXPECT_NE(renew(), first);
  exported.hold.reset();
  EXPECT_EQ(renew(), first);
}

TEST_F(OneDevice, OpensVirtualMemoryToItsOwnDeviceAlone) {
  expect_ok(cuda_.use_device(1));
  void* const far = take(cuda_.allocate_virtual(kBytes));
  expect_ok(cuda_.use_device(0));
  expect_ok(cuda_.enable_peer(1));
  expect_ok(cuda_.copy_async(to_, far, kBytes, stream_));
  expect_ok(cuda_.synchronize(stream_));
  EXPECT_NE(cuda_.faults().find("without leave"), std::string::npos);
}

TEST(FakeProcesses, ShareMemoryThoughTheyAreForked) {
  FakeCuda owner({});
  void* const memory = take(owner.allocate(kBytes));
  const MemoryHandle handle = take(owner.export_memory(memory)).handle;
  const pid_t child = ::fork();
  if (child == 0) {
    FakeCuda guest({});
    const auto imported = guest.import_memory(handle);
    if (imported.ok()) {
      std::memset(imported.value(), 13, kBytes);
    }
    ::_exit(imported.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(static_cast<unsigned char*>(memory)[kBytes - 1], 13);
}

TEST(DeviceScope, ChoosesADeviceAndTheOneBeforeOnlyIfTheyDiffer) {
  FakeCuda cuda({.devices = 2});
  expect_ok(cuda.use_device(1));
  const int before = cuda.calls("use_device");
  {
    const DeviceScope same(cuda, 1);
    expect_ok(same.status());
  }
  EXPECT_EQ(cuda.calls("use_device"), before);
  {
    const DeviceScope other(cuda, 0);
    expect_ok(other.status());
    EXPECT_EQ(take(cuda.current_device()), 0);
  }
  EXPECT_EQ(take(cuda.current_device()), 1);
}

}  // namespace
}  // namespace sennit
