// What is said of tags, and of recvs from any rank, where no message comes or one that differs.
#include "leaves_nothing.hpp"
#include "tagged_calls.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

using TagErrors = LeavesNothing;

void expect_named(const std::optional<Report>& report,
                  sennit_status_t status,
                  const std::vector<std::string>& named) {
  ASSERT_TRUE(report);
  EXPECT_EQ(report->status, status) << report->message;
  for (const std::string& text : named) {
    EXPECT_NE(std::string(report->message).find(text), std::string::npos)
        << "'" << text << "' in " << report->message;
  }
}

TEST_F(TagErrors, AreNamedWhereCountsDiffer) {
  struct Case {
    int tag;    // of the send
    bool late;  // the recv is called after the message was received for it
  };
  for (const auto& [tag, late] : {Case{3, false}, Case{3, true}}) {
    const auto reports = run_ranks(2, [&](int rank, sennit_comm_t comm) {
      if (rank == 0) {
        send(message(8, 0), 1, tag, comm);
        send(message(1, 0), 1, 9, comm);
        return sennit_barrier(comm, nullptr, nullptr);
      }
      if (late) {
        Recv(1, 0, 9, comm).wait();
      }
      const sennit_status_t status = Recv(4, 0, tag, comm).wait();
      return status == SENNIT_OK ? sennit_barrier(comm, nullptr, nullptr) : status;
    });
    expect_named(reports[1],
                 SENNIT_MISMATCH,
                 {"sends 8 x int32 with tag 3 to", "expects 4 x int32 with tag 3"});
    expect_named(reports[0],
                 SENNIT_MISMATCH,
                 {"sends 8 x int32 with tag 3 to", "expects 4 x int32 with tag 3"});
  }
}

TEST_F(TagErrors, AreNamedWhereRanksWaitForEachOther) {
  const auto reports = run_ranks(2, [](int rank, sennit_comm_t comm) {
    send(message(8, 0), 1 - rank, 1 + rank, comm);
    return Recv(8, 1 - rank, 5 + rank, comm).wait();
  });
  for (const auto& report : reports) {
    expect_named(report,
                 SENNIT_MISMATCH,
                 {"waits in recv of 8 x int32 with tag 5 from rank 1",
                  "waits in recv of 8 x int32 with tag 6 from rank 0"});
    EXPECT_LT(report->ended_at - report->called_at, 5);
  }
}

TEST_F(TagErrors, AreNamedWhenADeadlineHasPassed) {
  const auto reports = run_ranks(2, [](int rank, sennit_comm_t comm) {
    if (rank == 0) {
      send(message(8, 0), 1, 3, comm);
      send(message(8, 0), 1, 4, comm);
      sleep_s(1.5);
      return SENNIT_OK;
    }
    return Recv(8, 0, 5, comm, 0.5).wait();
  });
  expect_named(reports[1],
               SENNIT_DEADLINE_EXCEEDED,
               {"tag 5", "has not made the send", "2 messages from rank 0 with tags 3, 4 wait"});
}

TEST_F(TagErrors, OfARecvFromAnyRankFailWhereNobodySends) {
  const auto reports = run_ranks(3, [](int rank, sennit_comm_t comm) {
    if (rank == 1) {
      sleep_s(0.3);  // rank 2 has finalized, which is not the end
      send(message(1, 5), 0, 0, comm);
    }
    if (rank != 0) {
      return sennit_comm_finalize(comm);
    }
    return Recv(1, SENNIT_ANY_RANK, 0, comm).brings(5) ? Recv(1, SENNIT_ANY_RANK, 2, comm).wait()
                                                       : SENNIT_INTERNAL_ERROR;
  });
  expect_named(reports[0],
               SENNIT_MISMATCH,
               {"recv from any rank, tag 2", "recv of 1 x int32 with tag 2 from any rank"});
}

TEST_F(TagErrors, OfARecvFromAnyRankFailWhereARankDies) {
  const auto reports = run_ranks(3, [](int rank, sennit_comm_t comm) {
    if (rank == 2) {
      _exit(1);
    }
    return rank == 1 ? sennit_barrier(comm, nullptr, nullptr)
                     : Recv(1, SENNIT_ANY_RANK, 0, comm).wait();
  });
  expect_named(reports[0], SENNIT_RANK_FAILED, {"rank 2", "died"});
  EXPECT_EQ(reports[0]->blamed_ranks(), std::vector<int>{2});
}

TEST_F(TagErrors, AreRefusedWhereTheyCannotBe) {
  expect_ok(run_ranks(2, [](int, sennit_comm_t comm) {
    std::int32_t one = 1;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.tag = 1;
    const bool of_a_collective =
        sennit_all_reduce(&one, &one, 1, SENNIT_INT32, SENNIT_SUM, comm, nullptr, &options) ==
        SENNIT_INVALID_ARGUMENT;
    const bool to_any = send({1}, SENNIT_ANY_RANK, 0, comm) == SENNIT_INVALID_ARGUMENT;
    const bool negative = send({1}, 0, -1, comm) == SENNIT_INVALID_ARGUMENT;
    sennit_work_t work = nullptr;
    options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = &work;
    sennit_barrier(comm, nullptr, &options);
    int peer = 0;
    const bool has_no_peer = sennit_work_peer(work, &peer) == SENNIT_INVALID_USAGE;
    sennit_work_destroy(work);
    return ok_if(of_a_collective && to_any && negative && has_no_peer);
  }));
  setenv("SENNIT_SLOTS", "31", 1);
  expect_ok(run_ranks(2, [](int rank, sennit_comm_t comm) {
    return ok_if(send({1}, 1 - rank, 1, comm) == SENNIT_UNSUPPORTED &&
                 Recv(1, SENNIT_ANY_RANK, 0, comm).wait() == SENNIT_UNSUPPORTED);
  }));
  unsetenv("SENNIT_SLOTS");
}

}  // namespace
}  // namespace sennit::tests
