// DeviceWorks, for tests: works of GPU calls in the C ABI, on fake GPUs.
#pragma once

#include "capi/testing/fake_handles.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>

namespace sennit::tests {

inline constexpr double kNoLimit = -1;
// Kernels of a fake do nothing, so a call of this size ends when its stream comes to it.
inline constexpr std::size_t kFew = 1000;

// A stream other than the rank's.
class OtherStream {
 public:
  explicit OtherStream(const Rank& rank)
      : cuda_(*rank.cuda), stream_(take(cuda_.create_stream())) {}
  ~OtherStream() { EXPECT_TRUE(cuda_.destroy_stream(stream_).ok()); }
  OtherStream(const OtherStream&) = delete;
  OtherStream& operator=(const OtherStream&) = delete;

  [[nodiscard]] void* get() const { return stream_; }

 private:
  FakeCuda& cuda_;
  void* stream_;
};

// A stream in which nothing goes on before open(), or the end of the scope.
class HeldStream {
 public:
  HeldStream(const Rank& rank, void* stream) : cuda_(*rank.cuda), stream_(stream), gate_(rank) {
    gate_.close(stream);
  }
  ~HeldStream() {
    open();
    EXPECT_TRUE(cuda_.synchronize(stream_).ok());
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void open() const { gate_.open(); }

 private:
  FakeCuda& cuda_;
  void* stream_;
  Gate gate_;
};

// A rank with its handle; each call here has a work.
class Caller {
 public:
  explicit Caller(Rank& rank) : rank_(rank) {}

  sennit_status_t all_gather(std::size_t count, void* stream, sennit_work_t* work) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = work;
    return sennit_all_gather(
        rank_.send, rank_.recv, count, SENNIT_UINT8, handle, stream, work ? &options : nullptr);
  }
  sennit_status_t all_gather(std::size_t count, sennit_work_t* work) {
    return all_gather(count, rank_.stream, work);
  }
  // The work of a call that ends when its stream comes to it.
  sennit_work_t small_call() {
    sennit_work_t work = nullptr;
    EXPECT_EQ(all_gather(kFew, &work), SENNIT_OK) << sennit_last_error_message();
    return work;
  }
  sennit_status_t send_to_itself(std::byte* memory, void* stream, sennit_work_t* work) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = work;
    return sennit_send(memory, kFew, SENNIT_UINT8, rank_.rank, handle, stream, &options);
  }
  sennit_status_t receive_from_itself(std::byte* memory, void* stream, sennit_work_t* work) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = work;
    return sennit_recv(memory, kFew, SENNIT_UINT8, rank_.rank, handle, stream, &options);
  }

  sennit_comm_t handle = nullptr;

 private:
  Rank& rank_;
};

inline bool is_done(sennit_work_t work) {
  int done = -1;
  EXPECT_EQ(sennit_work_test(work, &done), SENNIT_OK) << sennit_last_error_message();
  return done == 1;
}

inline void destroy(sennit_work_t work) {
  EXPECT_EQ(sennit_work_destroy(work), SENNIT_OK) << sennit_last_error_message();
}

class DeviceWorks : public FakeHandles {
 protected:
  // `body` runs on each rank's thread; the communicator is there before and after it.
  void run_with_handles(const std::function<void(Rank&, Caller&)>& body) {
    run([&](Rank& rank) {
      fill(rank);
      sennit_comm handle;
      give(rank, handle);
      Caller caller(rank);
      caller.handle = &handle;
      body(rank, caller);
      take_back(rank, handle);
    });
  }
  // `body` gets a handle that it has to destroy.
  void run_to_the_end(const std::function<void(Rank&, Caller&)>& body) {
    run([&](Rank& rank) {
      fill(rank);
      auto* const handle = new sennit_comm;
      give(rank, *handle);
      Caller caller(rank);
      caller.handle = handle;
      body(rank, caller);
    });
  }
};

}  // namespace sennit::tests
