// Tags, and recvs from any rank: which message comes to which recv.
#include "leaves_nothing.hpp"
#include "tagged_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::size_t kLarge = 1'000'000;  // more than a channel has room for

using Tags = LeavesNothing;

TEST_F(Tags, BringAMessageToItsRecvInAnyOrder) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kLarge}) {
    for (const char* const paths : {"shm", "shm,cma"}) {
      SCOPED_TRACE(std::to_string(count) + " over " + paths);
      setenv("SENNIT_PATHS", paths, 1);
      expect_ok(run_ranks(2, [&](int rank, sennit_comm_t comm) {
        // Each send returns before the next is called, also those that fill no slot.
        constexpr int kTags = 12;
        for (int tag = 0; rank == 0 && tag < kTags; ++tag) {
          if (send(message(count, tag), 1, tag, comm) != SENNIT_OK) {
            return SENNIT_INTERNAL_ERROR;
          }
        }
        bool is_right = true;
        for (int tag = kTags; rank == 1 && tag-- > 0;) {
          is_right = Recv(count, 0, tag, comm).brings(tag) && is_right;
        }
        return ok_if(is_right);
      }));
    }
  }
  unsetenv("SENNIT_PATHS");
}

TEST_F(Tags, KeepTheOrderOfMessagesWithOneTag) {
  expect_ok(run_ranks(2, [](int rank, sennit_comm_t comm) {
    const std::vector<int> tags = {7, 0, 7, 5, 0, 7};
    for (int i = 0; rank == 0 && i < static_cast<int>(tags.size()); ++i) {
      const std::size_t count = i % 2 == 0 ? 10 : kLarge;
      if (send(message(count, i), 1, tags[static_cast<std::size_t>(i)], comm) != SENNIT_OK) {
        return SENNIT_INTERNAL_ERROR;
      }
    }
    return ok_if(rank == 0 ||
                 (Recv(kLarge, 0, 5, comm).brings(3) && Recv(10, 0, 7, comm).brings(0) &&
                  Recv(10, 0, 7, comm).brings(2) && Recv(kLarge, 0, 7, comm).brings(5) &&
                  Recv(kLarge, 0, 0, comm).brings(1) && Recv(10, 0, 0, comm).brings(4)));
  }));
}

TEST_F(Tags, HoldForMessagesOfNoElements) {
  expect_ok(run_ranks(2, [](int rank, sennit_comm_t comm) {
    if (rank == 0) {
      const bool is_sent = send({}, 1, 1, comm) == SENNIT_OK && Recv(1, 1, 0, comm).brings(3) &&
                           send({}, 1, 2, comm) == SENNIT_OK;
      return ok_if(is_sent);
    }
    Recv second(0, 0, 2, comm);
    bool is_early = false;
    for (const double until = now() + 0.1; now() < until && !is_early;) {
      is_early = second.has_ended();
    }
    send(message(1, 3), 0, 0, comm);
    return ok_if(!is_early && second.brings(0) && Recv(0, 0, 1, comm).brings(0));
  }));
}

TEST_F(Tags, BringMessagesToRecvsThatWaitAlready) {
  for (const char* const policy : {"", "round_robin"}) {
    SCOPED_TRACE(policy);
    setenv("SENNIT_PATH_POLICY", policy, 1);
    expect_ok(run_ranks(2, [](int rank, sennit_comm_t comm) {
      const int peer = 1 - rank;
      Recv first(kLarge, peer, 1, comm);
      Recv second(10, peer, 2, comm);
      Recv third(kLarge, peer, 3, comm);
      Sends sends;
      for (const int tag : {2, 3, 1}) {
        sends.add(message(tag == 2 ? 10 : kLarge, 100 * rank + tag), peer, tag, comm);
      }
      const bool is_right = third.brings(100 * peer + 3) && first.brings(100 * peer + 1) &&
                            second.brings(100 * peer + 2);
      return ok_if(is_right);
    }));
  }
  unsetenv("SENNIT_PATH_POLICY");
}

// A rank cannot know how the message is sent, so that waits for its recv, and all behind it do.
TEST_F(Tags, GoWithOptionsThatARankUsesForOneMessage) {
  expect_ok(run_ranks(2, [](int rank, sennit_comm_t comm) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "direct";
    Data data = message(5, 1);
    if (rank == 0) {
      sennit_work_t work = nullptr;
      options.work = &work;
      sennit_send(data.data(), 5, SENNIT_INT32, 1, comm, nullptr, &options);
      const sennit_status_t status = send(message(7, 2), 1, 2, comm);
      sennit_work_destroy(work);
      return status;
    }
    Recv behind(7, 0, 2, comm);
    sleep_s(0.1);
    Data received(5, -1);
    const sennit_status_t status =
        sennit_recv(received.data(), 5, SENNIT_INT32, 0, comm, nullptr, &options);
    return ok_if(status == SENNIT_OK && received == data && behind.brings(2));
  }));
}

TEST_F(Tags, HoldForMessagesOfARankToItself) {
  expect_ok(run_ranks(1, [](int, sennit_comm_t comm) {
    const Data one = message(3, 1);
    const Data two = message(3, 2);
    sennit_group_start();
    send(one, 0, 1, comm);
    send(two, 0, 2, comm);
    Recv second(3, 0, 2, comm);
    Recv first(3, 0, 1, comm);
    const sennit_status_t status = sennit_group_end();
    return ok_if(status == SENNIT_OK && first.brings(1) && second.brings(2) && first.peer() == 0);
  }));
}

TEST_F(Tags, OfARecvFromAnyRankAreKept) {
  constexpr int kRanks = 4;
  constexpr int kMessages = 50;
  expect_ok(run_ranks(kRanks, [](int rank, sennit_comm_t comm) {
    const auto count_of = [](int index) { return index % 10 == 9 ? kLarge / 10 : std::size_t{4}; };
    for (int index = 0; rank != 0 && index < kMessages; ++index) {
      const Data data = message(count_of(index), 1000 * rank + index);
      if (send(data, 0, index % 10, comm) != SENNIT_OK) {
        return SENNIT_INTERNAL_ERROR;
      }
    }
    bool is_right = true;
    std::vector<int> next(kRanks * 10);  // by sender and tag
    for (int i = 0; rank == 0 && i < (kRanks - 1) * kMessages; ++i) {
      const int tag = 9 - i % 10;
      Recv recv(count_of(tag), SENNIT_ANY_RANK, tag, comm);
      is_right = recv.wait() == SENNIT_OK && recv.peer() > 0 && is_right;
      if (!is_right) {
        return SENNIT_INTERNAL_ERROR;
      }
      int& index =
          next.at(10 * static_cast<std::size_t>(recv.peer()) + static_cast<std::size_t>(tag));
      is_right = recv.brings(1000 * recv.peer() + 10 * index++ + tag) && is_right;
    }
    return ok_if(is_right);
  }));
}

// Both ranks always have a message there.
TEST_F(Tags, OfARecvFromAnyRankAreTakenFromAllInTurn) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 4;  // as many as have room
  expect_ok(run_ranks(kRanks, [](int rank, sennit_comm_t comm) {
    for (int index = 0; rank != 0 && index < kMessages; ++index) {
      send(message(1, index), 0, 0, comm);
    }
    sennit_barrier(comm, nullptr, nullptr);
    int before = -1;
    bool is_right = true;
    for (int i = 0; rank == 0 && i < (kRanks - 1) * kMessages; ++i) {
      Recv recv(1, SENNIT_ANY_RANK, 0, comm);
      is_right = recv.wait() == SENNIT_OK && recv.peer() != before && is_right;
      before = recv.peer();
    }
    return ok_if(is_right);
  }));
}

// Many times: a message may come at any moment of a recv.
TEST_F(Tags, OfTwoRecvsComeToTheOlder) {
  constexpr int kRounds = 3000;
  for (const int older : {SENNIT_ANY_RANK, 1}) {
    expect_ok(run_ranks(2, [&](int rank, sennit_comm_t comm) {
      for (int first = 0; rank == 1 && first < 2 * kRounds; ++first) {
        if (send(message(4, first), 0, 3, comm) != SENNIT_OK) {
          return SENNIT_INTERNAL_ERROR;
        }
      }
      bool is_right = true;
      for (int first = 0; rank == 0 && is_right && first < 2 * kRounds; first += 2) {
        Recv one(4, older, 3, comm);
        Recv two(4, older == 1 ? SENNIT_ANY_RANK : 1, 3, comm);
        is_right = two.brings(first + 1) && one.brings(first) && one.peer() == 1 && two.peer() == 1;
      }
      return ok_if(is_right);
    }));
  }
}

TEST_F(Tags, OfARecvFromAnyRankHoldBesideCollectives) {
  constexpr int kRanks = 3;
  expect_ok(run_ranks(kRanks, [](int rank, sennit_comm_t comm) {
    bool is_right = true;
    for (int round = 0; round < 20 && is_right; ++round) {
      const int sender = 1 + round % 2;
      std::int32_t sum = 1;
      const auto add = [&] {
        return sennit_all_reduce(&sum, &sum, 1, SENNIT_INT32, SENNIT_SUM, comm, nullptr, nullptr);
      };
      if (rank == 0) {
        Recv recv(8, SENNIT_ANY_RANK, round, comm);
        is_right =
            add() == SENNIT_OK && sum == kRanks && recv.brings(round) && recv.peer() == sender;
      } else {
        is_right = (rank != sender || send(message(8, round), 0, round, comm) == SENNIT_OK) &&
                   add() == SENNIT_OK && sum == kRanks;
      }
    }
    return ok_if(is_right);
  }));
}

// Each rank sends every other one messages with random tags in a random order, and posts its recvs
// in another order; a part of them is from any rank.
TEST_F(Tags, HoldInRandomOrders) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 60;  // a pair
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_ok(run_ranks(kRanks, [&](int rank, sennit_comm_t comm) {
    // By tag alone: recvs of any rank must not take what a named one waits for.
    const auto length_of = [](int tag) {
      return tag % 5 == 0 ? std::size_t{40'000} : static_cast<std::size_t>(tag);
    };
    const auto tags_of = [&](int from, int to) {
      std::mt19937 random(seed + static_cast<unsigned>(from * kRanks + to));
      std::vector<int> tags(kMessages);
      std::ranges::generate(tags, [&] { return static_cast<int>(random() % 12); });
      return tags;
    };
    std::mt19937 random(seed + 100 + static_cast<unsigned>(rank));
    Sends sends;
    struct Wanted {
      int peer;
      int tag;
    };
    std::vector<Wanted> wanted;
    for (int peer = 0; peer < kRanks; ++peer) {
      std::vector<int> sent_of_tag(12);
      for (int i = 0; peer != rank && i < kMessages; ++i) {
        const int tag = tags_of(rank, peer)[static_cast<std::size_t>(i)];
        const int index = sent_of_tag[static_cast<std::size_t>(tag)]++;
        sends.add(message(length_of(tag), 10'000 * rank + 100 * tag + index), peer, tag, comm);
        // Tags from 8 on are received from any rank.
        const int in_tag = tags_of(peer, rank)[static_cast<std::size_t>(i)];
        wanted.push_back({in_tag < 8 ? peer : SENNIT_ANY_RANK, in_tag});
      }
    }
    std::ranges::shuffle(wanted, random);
    std::vector<std::unique_ptr<Recv>> recvs;
    for (const Wanted& recv : wanted) {
      recvs.push_back(std::make_unique<Recv>(length_of(recv.tag), recv.peer, recv.tag, comm));
    }
    std::vector<std::size_t> order(recvs.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    bool is_right = true;
    for (const std::size_t i : order) {
      is_right = recvs[i]->wait() == SENNIT_OK && is_right;
    }
    std::vector<int> next(kRanks * 12);
    for (std::size_t i = 0; i < recvs.size() && is_right; ++i) {
      const int peer = recvs[i]->peer();
      const int tag = wanted[i].tag;
      int& index = next.at(12 * static_cast<std::size_t>(peer) + static_cast<std::size_t>(tag));
      is_right = (wanted[i].peer < 0 || peer == wanted[i].peer) &&
                 recvs[i]->brings(10'000 * peer + 100 * tag + index++);
    }
    return ok_if(is_right);
  }));
}

}  // namespace
}  // namespace sennit::tests
