// The end of communicators of GPU ranks in the C ABI, on fake GPUs.
#include "capi/testing/fake_handles.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace sennit {
namespace {

class EndsOfHandles : public tests::FakeHandles {
 protected:
  static void receive(const tests::Rank& rank,
                      sennit_comm& handle,
                      int sender,
                      double deadline_s = 0) {
    sennit_call_options_t call = SENNIT_CALL_OPTIONS_INITIALIZER;
    call.deadline_s = deadline_s;
    // Off a multiple of 16 bytes, so that it has not the kernel of small ones.
    std::byte* const in = tests::incoming(rank) + 1;
    EXPECT_EQ(sennit_recv(in, tests::kSmall, SENNIT_UINT8, sender, &handle, rank.stream, &call),
              SENNIT_OK);
  }

  // For long, since machines may be busy.
  static sennit_status_t failure_of(sennit_comm& handle) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    sennit_status_t state = SENNIT_OK;
    while (sennit_comm_async_error(&handle, &state) == SENNIT_OK && state == SENNIT_OK &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return state;
  }

  // Rank 0 finalizes while it waits for one that sends nothing, and rank 2 waits for it, for long:
  // what each of the two gets.
  void end_in_vain(sennit_status_t answer, sennit_status_t reported) {
    run([&](tests::Rank& rank) {
      rank.cuda->run_kernels(tests::fake_pairs_kernel);
      sennit_comm handle;
      give(rank, handle);
      if (rank.rank == 0) {
        receive(rank, handle, 1);
        EXPECT_EQ(sennit_comm_finalize(&handle), answer);
      }
      if (rank.rank == 2) {
        receive(rank, handle, 0, 60);
        EXPECT_EQ(failure_of(handle), reported) << sennit_last_error_message();
        rank.finish();
      }
      meet();
      take_back(rank, handle);
    });
  }
};

// The same failure as on the rank itself, though its line is written once more when it ends.
TEST_F(EndsOfHandles, TellTheOthersWhyTheirLastCallsFailed) {
  options_.deadline_s = 2;
  options_.finalize_s = 60;
  end_in_vain(SENNIT_DEADLINE_EXCEEDED, SENNIT_DEADLINE_EXCEEDED);
}

// Who waits for what was abandoned would take a rank that has ended in order for one that forgot
// it.
TEST_F(EndsOfHandles, TellTheOthersThatTheirEndAbandonedWhatWasInStreams) {
  options_.finalize_s = 0.1;
  end_in_vain(SENNIT_INVALID_USAGE, SENNIT_ABORTED);
}

}  // namespace
}  // namespace sennit
