// Works of GPU calls in groups, which calls may have one, and the end of their communicator.
#include "capi/testing/device_works.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

namespace sennit::tests {
namespace {

TEST_F(DeviceWorks, OfCapturedCallsAreRefused) {
  run_with_handles([this](Rank& rank, Caller& caller) {
    const auto expect_refused = [&](sennit_status_t status) {
      EXPECT_EQ(status, SENNIT_INVALID_USAGE);
      const std::string message = sennit_last_error_message();
      EXPECT_TRUE(message.starts_with("all_gather on communicator 'world': a work was requested"))
          << message;
    };
    sennit_work_t none = nullptr;
    rank.cuda->begin_capture(rank.stream);
    expect_refused(caller.all_gather(kFew, &none));
    EXPECT_EQ(none, nullptr);
    // A call of the same group in a stream that captures nothing, and before it.
    void* const other = take(rank.cuda->create_stream());
    std::array<sennit_work_t, 2> works{};
    EXPECT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, other, works.data()), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, rank.stream, &works[1]), SENNIT_OK);
    expect_refused(sennit_group_end());
    EXPECT_EQ(rank.launches(), 0);
    for (sennit_work_t work : works) {
      EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_INVALID_USAGE);
      destroy(work);
    }
    // The same call without a work is captured as ever.
    EXPECT_EQ(caller.all_gather(kFew, nullptr), SENNIT_OK);
    EXPECT_TRUE(rank.cuda->end_capture(rank.stream).ok());
    EXPECT_EQ(rank.launches(), 1);
    meet();
    EXPECT_TRUE(rank.cuda->destroy_stream(other).ok());
  });
}

TEST_F(DeviceWorks, OfAGroupEndEachInItsStream) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const OtherStream other(rank);
    const HeldStream held(rank, other.get());
    std::array<sennit_work_t, 2> works{};
    EXPECT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, rank.stream, works.data()), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, other.get(), &works[1]), SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(works[0], 0), SENNIT_INVALID_USAGE);  // nothing has begun
    EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(sennit_work_wait(works[0], kNoLimit), SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(works[1], 0.01), SENNIT_IN_PROGRESS);
    held.open();
    EXPECT_EQ(sennit_work_wait(works[1], kNoLimit), SENNIT_OK);
    destroy(works[0]);
    destroy(works[1]);
  });
}

// They run together in the stream of the first, which waits for those of the others.
TEST_F(DeviceWorks, OfMessagesInSeveralStreamsEndTogether) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const OtherStream other(rank);
    const HeldStream held(rank, other.get());
    std::array<sennit_work_t, 2> works{};
    EXPECT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(caller.send_to_itself(rank.send, rank.stream, works.data()), SENNIT_OK);
    EXPECT_EQ(caller.receive_from_itself(rank.recv, other.get(), &works[1]), SENNIT_OK);
    EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    for (sennit_work_t work : works) {
      EXPECT_EQ(sennit_work_wait(work, 0.01), SENNIT_IN_PROGRESS);
    }
    held.open();
    for (sennit_work_t work : works) {
      EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
      destroy(work);
    }
  });
}

// The receiver waits for its own streams alone; the data come by copy engines, in streams of
// theirs.
TEST_F(DeviceWorks, OfMessagesByCopyEnginesEndWhenTheDataAreThere) {
  run_with_handles([this](Rank& rank, Caller& caller) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int next = next_of(rank, kRanks);
    const int previous = previous_of(rank, kRanks);
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "copy_engines";
    const auto exchange = [&](std::array<sennit_work_t, 2>& works) {
      const auto count = static_cast<std::size_t>(kLarge);
      EXPECT_EQ(sennit_group_start(), SENNIT_OK);
      options.work = works.data();
      EXPECT_EQ(sennit_send(out, count, SENNIT_UINT8, next, caller.handle, rank.stream, &options),
                SENNIT_OK);
      options.work = &works[1];
      EXPECT_EQ(
          sennit_recv(in, count, SENNIT_UINT8, previous, caller.handle, rank.stream, &options),
          SENNIT_OK);
      EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    };
    // The first goes by a kernel, which does nothing here; by then the memory is mapped.
    for (int i = 0; i < 3; ++i) {
      std::memset(in, 0xa5, kLarge);
      const int launches = rank.launches();
      std::array<sennit_work_t, 2> works{};
      exchange(works);
      for (sennit_work_t work : works) {
        EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK) << sennit_last_error_message();
        destroy(work);
      }
      const bool is_copied = rank.launches() == launches;
      EXPECT_TRUE(is_copied || i < 2);
      EXPECT_TRUE(!is_copied || came_from(previous, in)) << "exchange " << i;
      meet();
    }
  });
}

TEST_F(DeviceWorks, OfTheCallsBeforeOneThatFailsHalfWayAreWhole) {
  run_with_handles([](Rank& rank, Caller& caller) {
    void* const other = take(rank.cuda->create_stream());
    const HeldStream held(rank, rank.stream);
    std::array<sennit_work_t, 2> works{};
    EXPECT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, rank.stream, works.data()), SENNIT_OK);
    EXPECT_EQ(caller.all_gather(kFew, other, &works[1]), SENNIT_OK);
    rank.cuda->fail("wait_for");  // of the second call, for the first
    EXPECT_EQ(sennit_group_end(), SENNIT_SYSTEM_ERROR);
    EXPECT_EQ(sennit_work_wait(works[0], 0.01), SENNIT_IN_PROGRESS);
    EXPECT_EQ(sennit_work_wait(works[1], kNoLimit), SENNIT_INVALID_USAGE);
    held.open();
    EXPECT_EQ(sennit_work_wait(works[0], kNoLimit), SENNIT_OK);
    destroy(works[0]);
    destroy(works[1]);
    EXPECT_TRUE(rank.cuda->destroy_stream(other).ok());
  });
}

TEST_F(DeviceWorks, ThatCannotHaveAnEventAreRefusedBeforeTheirCall) {
  run_with_handles([](Rank& rank, Caller& caller) {
    rank.cuda->fail("create_event");
    sennit_work_t work = nullptr;
    EXPECT_EQ(caller.all_gather(kFew, &work), SENNIT_SYSTEM_ERROR);
    EXPECT_EQ(work, nullptr);
    EXPECT_EQ(rank.launches(), 0);
    work = caller.small_call();
    EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
    destroy(work);
  });
}

TEST_F(DeviceWorks, OutliveTheirCommunicator) {
  run_to_the_end([this](Rank& rank, Caller& caller) {
    sennit_work_t awaited = caller.small_call();
    sennit_work_t unawaited = caller.small_call();
    EXPECT_EQ(sennit_comm_finalize(caller.handle), SENNIT_OK);
    EXPECT_EQ(sennit_comm_destroy(caller.handle), SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(awaited, kNoLimit), SENNIT_OK) << sennit_last_error_message();
    destroy(awaited);
    destroy(unawaited);
    meet();
    expect_nothing_left(rank, {rank.send, rank.recv});
  });
}

TEST_F(DeviceWorks, SayWhatTheEndOfTheirCommunicatorAbandoned) {
  options_.finalize_s = 0.1;
  run_to_the_end([this](Rank& rank, Caller& caller) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    sennit_work_t ended = nullptr;
    options.work = &ended;
    EXPECT_EQ(sennit_broadcast(
                  nullptr, nullptr, 0, SENNIT_UINT8, 0, caller.handle, rank.stream, &options),
              SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(ended, kNoLimit), SENNIT_OK);
    sennit_work_t work = nullptr;
    if (rank.rank == 0) {
      // From a rank that sends nothing; off a multiple of 16 bytes, for that kernel.
      options.work = &work;
      EXPECT_EQ(
          sennit_recv(rank.recv + 1, kFew, SENNIT_UINT8, 1, caller.handle, rank.stream, &options),
          SENNIT_OK);
    }
    if (rank.rank == 0) {
      EXPECT_EQ(sennit_comm_destroy(caller.handle), SENNIT_INVALID_USAGE);
      EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_INVALID_USAGE)
          << sennit_last_error_message();
      meet();
    } else {
      meet();
      (void)sennit_comm_destroy(caller.handle);  // it learns that rank 0 has aborted
    }
    EXPECT_EQ(sennit_work_wait(ended, kNoLimit), SENNIT_OK);
    destroy(work);
    destroy(ended);
    meet();
  });
}

}  // namespace
}  // namespace sennit::tests
