// Calls that need processes or several communicators at once: groups, splits, works, initialization
// that does not block, and all ranks in one thread.
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;

float element(int from, int to, std::size_t index) {
  return static_cast<float>(from * 1'000'000 + to * 100'000 + static_cast<int>(index % 65'536));
}

// Reports SENNIT_OK only if every condition held; the first that did not is in the message.
class Checks {
 public:
  void ok(sennit_status_t status, const char* what) {
    if (status != SENNIT_OK && report_.status == SENNIT_OK) {
      report_.status = status;
      std::snprintf(
          report_.message, sizeof(report_.message), "%s: %s", what, sennit_last_error_message());
    }
  }
  void that(bool condition, const char* what) {
    if (!condition && report_.status == SENNIT_OK) {
      report_.status = SENNIT_INTERNAL_ERROR;
      std::snprintf(report_.message, sizeof(report_.message), "not so: %s", what);
    }
  }
  [[nodiscard]] const Report& report() const { return report_; }

 private:
  Report report_{.status = SENNIT_OK};
};

void expect_all_ok(RankProcesses& ranks) {
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

// ---- Groups ----

struct Exchange {
  static constexpr std::size_t kCount = 262'144;  // 1 MB of float32

  std::vector<std::vector<float>> sent;
  std::vector<std::vector<float>> received;

  explicit Exchange(int rank) : sent(kRanks), received(kRanks) {
    for (int peer = 0; peer < kRanks; ++peer) {
      auto& out = sent[static_cast<std::size_t>(peer)];
      out.resize(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        out[i] = element(rank, peer, i);
      }
      received[static_cast<std::size_t>(peer)].assign(kCount, -1);
    }
  }

  // Even ranks post all sends in ascending order and then all recvs in descending order; odd ranks
  // the opposite of both.
  void post(int rank, sennit_comm_t comm) {
    const auto send = [&](int peer) {
      const auto& data = sent[static_cast<std::size_t>(peer)];
      if (peer != rank) {
        sennit_send(data.data(), kCount, SENNIT_FLOAT32, peer, comm, nullptr, nullptr);
      }
    };
    const auto recv = [&](int peer) {
      auto& data = received[static_cast<std::size_t>(peer)];
      if (peer != rank) {
        sennit_recv(data.data(), kCount, SENNIT_FLOAT32, peer, comm, nullptr, nullptr);
      }
    };
    for (int k = 0; k < kRanks; ++k) {
      rank % 2 == 0 ? send(k) : recv(kRanks - 1 - k);
    }
    for (int k = 0; k < kRanks; ++k) {
      rank % 2 == 0 ? recv(kRanks - 1 - k) : send(k);
    }
  }

  [[nodiscard]] bool is_right(int rank) const {
    for (int peer = 0; peer < kRanks; ++peer) {
      for (std::size_t i = 0; i < kCount && peer != rank; ++i) {
        if (received[static_cast<std::size_t>(peer)][i] != element(peer, rank, i)) {
          return false;
        }
      }
    }
    return true;
  }
};

Report exchange_in_one_group(const std::string& name, int rank) {
  Checks check;
  const sennit_comm_t first = join_ranks(name, kRanks, rank);
  sennit_comm_t second = nullptr;
  check.ok(sennit_comm_split(first, 0, rank, &second, nullptr), "split");
  constexpr std::size_t kCount = 50'000;
  std::vector<float> sum(kCount, static_cast<float>(rank + 1));
  std::vector<float> gathered(kRanks);
  const auto mine = static_cast<float>(rank);
  Exchange exchange(rank);
  const auto all_reduce = [&] {
    sennit_all_reduce(
        sum.data(), sum.data(), kCount, SENNIT_FLOAT32, SENNIT_SUM, first, nullptr, nullptr);
  };
  const auto all_gather = [&] {
    sennit_all_gather(&mine, gathered.data(), 1, SENNIT_FLOAT32, second, nullptr, nullptr);
  };
  check.ok(sennit_group_start(), "group_start");
  // The two collectives are on two communicators, so ranks may order them as they like.
  rank % 2 == 0 ? all_reduce() : all_gather();
  exchange.post(rank, second);
  rank % 2 == 0 ? all_gather() : all_reduce();
  check.ok(sennit_group_end(), "group_end");
  check.that(exchange.is_right(rank), "messages are right");
  check.that(sum.front() == 10 && sum.back() == 10, "the sum is right");
  for (int peer = 0; peer < kRanks; ++peer) {
    check.that(gathered[static_cast<std::size_t>(peer)] == static_cast<float>(peer), "gathered");
  }
  check.ok(sennit_comm_destroy(second), "destroy");
  check.ok(sennit_comm_destroy(first), "destroy");
  return check.report();
}

TEST(Processes, AGroupMixesOrdersMessagesCollectivesAndCommunicators) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) { return exchange_in_one_group(name, rank); });
  expect_all_ok(ranks);
}

TEST(Processes, AGroupOverCommunicatorsOfTwoThreadsEnds) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    Checks check;
    const sennit_comm_t first = join_ranks(name, 2, rank);
    sennit_comm_t second = nullptr;
    std::jthread([&] { second = join_ranks(name + "/2", 2, rank); }).join();
    float a = 1;
    float b = 2;
    sennit_group_start();
    for (const int k : {rank, 1 - rank}) {  // in opposite orders
      float* value = k == 0 ? &a : &b;
      sennit_all_reduce(
          value, value, 1, SENNIT_FLOAT32, SENNIT_SUM, k == 0 ? first : second, nullptr, nullptr);
    }
    check.ok(sennit_group_end(), "group_end");
    check.that(a == 2 && b == 4, "both sums are right");
    check.ok(sennit_comm_destroy(second), "destroy");
    check.ok(sennit_comm_destroy(first), "destroy");
    return check.report();
  });
  expect_all_ok(ranks);
}

TEST(Processes, AReceiverGetsAllOfAMessageWhoseSenderHasFinalized) {
  constexpr std::size_t kCount = 4'000;  // four slots of 4 KB: the sender needs nobody
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    Checks check;
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    std::vector<float> data(kCount, rank == 0 ? 7.0F : 0.0F);
    sennit_work_t work = nullptr;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "slots";
    options.tile_bytes = 4096;
    if (rank == 0) {
      check.ok(sennit_send(data.data(), kCount, SENNIT_FLOAT32, 1, comm, nullptr, &options),
               "send");
    } else {
      sleep_s(0.2);  // until the sender has gone
      options.work = &work;
      check.ok(sennit_recv(data.data(), kCount, SENNIT_FLOAT32, 0, comm, nullptr, &options),
               "recv");
      check.ok(sennit_work_wait(work, -1), "wait");
      check.that(data.front() == 7 && data.back() == 7, "all of it came");
      sennit_work_destroy(work);
    }
    check.ok(sennit_comm_destroy(comm), "destroy");
    return check.report();
  });
  expect_all_ok(ranks);
}

// ---- Splits ----

TEST(Processes, HalvesOfASplitWorkAtTheSameTime) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) {
    Checks check;
    const sennit_comm_t whole = join_ranks(name, kRanks, rank);
    const int half = rank / 2;
    sennit_comm_t part = nullptr;
    // Keys turn the order of the ranks around.
    check.ok(sennit_comm_split(whole, half, -rank, &part, nullptr), "split");
    int place = -1;
    int size = -1;
    check.ok(sennit_comm_rank(part, &place), "rank");
    check.ok(sennit_comm_size(part, &size), "size");
    check.that(size == 2 && place == 1 - rank % 2, "the part has two ranks, ordered by key");
    // The halves make different calls, and the second half many more of them.
    for (int k = 0; k < 50 * (half + 1); ++k) {
      std::vector<float> data(half == 0 ? 10'000 : 30, static_cast<float>(rank));
      check.ok(sennit_all_reduce(data.data(),
                                 data.data(),
                                 data.size(),
                                 SENNIT_FLOAT32,
                                 SENNIT_SUM,
                                 part,
                                 nullptr,
                                 nullptr),
               "all_reduce of a half");
      check.that(data.back() == static_cast<float>(half == 0 ? 1 : 5), "the half's own sum");
    }
    check.ok(sennit_barrier(whole, nullptr, nullptr), "barrier of the whole");
    sennit_comm_t none = part;
    check.ok(sennit_comm_split(whole, -1, 0, &none, nullptr), "split without color");
    check.that(none == nullptr, "no color, no communicator");
    check.ok(sennit_comm_destroy(part), "destroy");
    check.ok(sennit_comm_destroy(whole), "destroy");
    return check.report();
  });
  expect_all_ok(ranks);
}

// ---- Initialization and works ----

TEST(Processes, InitializationNeedNotBlock) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    Checks check;
    sennit_unique_id_t id;
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.non_blocking = rank == 0 ? 1 : 0;
    sennit_unique_id_from_text(&id, name.c_str());
    sleep_s(rank == 1 ? 0.2 : 0.0);
    sennit_comm_t comm = nullptr;
    const sennit_status_t status = sennit_comm_init_rank(&comm, 2, &id, rank, &config);
    check.that(status == (rank == 0 ? SENNIT_IN_PROGRESS : SENNIT_OK), "init returns at once");
    sennit_status_t state = SENNIT_OK;
    check.ok(sennit_comm_async_error(comm, &state), "async_error");
    check.that(rank == 1 || state == SENNIT_IN_PROGRESS, "it has not joined yet");
    for (const double until = now() + 20; state == SENNIT_IN_PROGRESS && now() < until;) {
      sleep_s(0.005);
      check.ok(sennit_comm_async_error(comm, &state), "async_error");
    }
    check.ok(state, "joined");
    check.ok(sennit_barrier(comm, nullptr, nullptr), "barrier");
    check.ok(sennit_comm_destroy(comm), "destroy");
    return check.report();
  });
  expect_all_ok(ranks);
}

TEST(Processes, WorksAreTestedAndWaitedForInAnyOrder) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    Checks check;
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    constexpr std::size_t kCount = 100'000;
    std::vector<std::vector<float>> data(3);
    std::vector<sennit_work_t> works(3);
    for (std::size_t k = 0; k < works.size(); ++k) {
      data[k].assign(kCount, static_cast<float>(k + 1));
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.work = &works[k];
      sleep_s(rank == 1 && k == 0 ? 0.2 : 0.0);
      check.ok(sennit_all_reduce(data[k].data(),
                                 data[k].data(),
                                 kCount,
                                 SENNIT_FLOAT32,
                                 SENNIT_SUM,
                                 comm,
                                 nullptr,
                                 &options),
               "post");
    }
    if (rank == 0) {
      check.that(sennit_work_wait(works[2], 0.01) == SENNIT_IN_PROGRESS, "rank 1 is late");
    }
    int done = 0;
    for (const double until = now() + 20; done == 0 && now() < until;) {
      check.ok(sennit_work_test(works[1], &done), "test");
    }
    check.that(done == 1, "the second work ends by testing alone");
    std::array<int, 3> all_done{};
    check.ok(sennit_works_test(works.data(), works.size(), all_done.data()), "test all");
    check.that(all_done[0] == 1 && all_done[1] == 1, "what came before the second has ended");
    check.ok(sennit_works_test(nullptr, 0, nullptr), "test none");
    check.that(sennit_works_test(works.data(), works.size(), nullptr) == SENNIT_INVALID_ARGUMENT,
               "results need a place");
    check.ok(sennit_work_wait(works[2], -1), "wait for the last");
    check.ok(sennit_work_wait(works[0], -1), "wait for the first, which has ended");
    for (std::size_t k = 0; k < works.size(); ++k) {
      check.that(data[k].back() == static_cast<float>(2 * (k + 1)), "the sum is right");
      check.ok(sennit_work_destroy(works[k]), "work_destroy");
    }
    check.ok(sennit_comm_destroy(comm), "destroy");
    return check.report();
  });
  expect_all_ok(ranks);
}

TEST(OneThread, DrivesAllRanksInAGroup) {
  std::vector<sennit_comm_t> comms(kRanks);
  ASSERT_EQ(sennit_comm_init_all(comms.data(), kRanks, nullptr, nullptr), SENNIT_OK)
      << sennit_last_error_message();
  for (const std::size_t count : {std::size_t{3}, std::size_t{200'000}}) {
    std::vector<std::vector<float>> data(kRanks);
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      data[rank].assign(count, static_cast<float>(rank + 1));
      float* buffer = data[rank].data();
      EXPECT_EQ(
          sennit_all_reduce(
              buffer, buffer, count, SENNIT_FLOAT32, SENNIT_SUM, comms[rank], nullptr, nullptr),
          SENNIT_OK);
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    for (const auto& buffer : data) {
      EXPECT_EQ(buffer, std::vector<float>(count, 10.0F));
    }
  }
  for (const sennit_comm_t comm : comms) {
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  }
}

// The second call of the group works on what the first one leaves, also where it needs a copy of
// its input (all_to_all in place).
TEST(OneThread, CallsOfAGroupSeeWhatTheCallsBeforeThemWrote) {
  std::vector<sennit_comm_t> comms(kRanks);
  ASSERT_EQ(sennit_comm_init_all(comms.data(), kRanks, nullptr, nullptr), SENNIT_OK)
      << sennit_last_error_message();
  std::vector<std::vector<float>> data(kRanks);
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t block = 0; block < kRanks; ++block) {
      data[rank].push_back(static_cast<float>(10 * block + rank));
    }
    float* buffer = data[rank].data();
    EXPECT_EQ(
        sennit_all_reduce(
            buffer, buffer, kRanks, SENNIT_FLOAT32, SENNIT_SUM, comms[rank], nullptr, nullptr),
        SENNIT_OK);
    EXPECT_EQ(sennit_all_to_all(buffer, buffer, 1, SENNIT_FLOAT32, comms[rank], nullptr, nullptr),
              SENNIT_OK);
  }
  ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const auto sum = static_cast<float>(10 * rank * kRanks + 6);  // 6 = 0 + 1 + 2 + 3
    EXPECT_EQ(data[rank], std::vector<float>(kRanks, sum)) << "rank " << rank;
  }
  for (const sennit_comm_t comm : comms) {
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  }
}

TEST(OneThread, EndsNothingThatItsOpenGroupWillUse) {
  sennit_comm_t comm = nullptr;
  ASSERT_EQ(sennit_comm_init_all(&comm, 1, nullptr, nullptr), SENNIT_OK);
  float x = 3;
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(sennit_all_reduce(&x, &x, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr),
            SENNIT_OK);
  EXPECT_EQ(sennit_comm_finalize(comm), SENNIT_INVALID_USAGE);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_INVALID_USAGE);
  EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  EXPECT_EQ(x, 3);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

TEST(Config, APathThatHostRanksLackIsRefusedByName) {
  for (const auto& [paths, status] : {std::pair{"shm,teleport", SENNIT_INVALID_ARGUMENT},
                                      std::pair{"nvlink", SENNIT_UNSUPPORTED},
                                      std::pair{"shm,", SENNIT_INVALID_ARGUMENT}}) {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.paths = paths;
    sennit_comm_t comm = nullptr;
    EXPECT_EQ(sennit_comm_init_all(&comm, 1, nullptr, &config), status) << paths;
    EXPECT_EQ(comm, nullptr);
  }
}

}  // namespace
}  // namespace sennit::tests
