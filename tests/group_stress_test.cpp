// Groups that could deadlock anything less: every rank posts its sends, receives and collectives of
// two communicators in a random order of its own, messages are up to 8 MB, and a ring has one slot.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;
constexpr int kComms = 2;
constexpr double kDeadline = 25.0;
constexpr std::size_t kLongest = 8 * 1024 * 1024 / sizeof(std::int32_t);
constexpr std::size_t kGathered = 20'000;

// The same on all ranks: drawn from one seed.
struct Message {
  int comm;
  int from;
  int to;
  std::size_t count;
  std::int32_t first;  // element i is first + i
};

std::vector<Message> draw_messages(std::mt19937& random) {
  std::vector<Message> messages;
  const std::array<std::size_t, 4> counts = {kLongest, kLongest / 3, 1000, 0};
  for (int comm = 0; comm < kComms; ++comm) {
    for (int from = 0; from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) {
        // At least one of 8 MB each way in the first communicator.
        std::size_t count = comm == 0 ? kLongest : counts[random() % counts.size()];
        for (unsigned k = 0; from != to && k <= random() % 2; ++k) {
          messages.push_back(
              {comm, from, to, count, static_cast<std::int32_t>(random() % 1'000'000)});
          count = counts[random() % counts.size()];
        }
      }
    }
  }
  return messages;
}

using Comms = std::array<sennit_comm_t, kComms>;
using Post = std::function<sennit_status_t()>;
// Calls that must keep their order: collectives of a communicator, messages of a pair.
using StreamKey = std::tuple<int, int, bool>;  // communicator, peer (-1: all), whether sent

// What one rank posts in one group, and what must come of it.
class GroupOfRank {
 public:
  GroupOfRank(int rank, const Comms& comms) : rank_(rank), comms_(comms) {}

  void add(const Message& message) {
    const sennit_comm_t comm = comms_[static_cast<std::size_t>(message.comm)];
    if (message.from == rank_) {
      sent_.emplace_back(message.count);
      std::iota(sent_.back().begin(), sent_.back().end(), message.first);
      const std::int32_t* data = sent_.back().data();
      streams_[{message.comm, message.to, true}].emplace_back([=] {
        return sennit_send(data, message.count, SENNIT_INT32, message.to, comm, nullptr, nullptr);
      });
    } else if (message.to == rank_) {
      received_.emplace_back(message.count, -1);
      firsts_.push_back(message.first);
      std::int32_t* data = received_.back().data();
      streams_[{message.comm, message.from, false}].emplace_back([=] {
        return sennit_recv(data, message.count, SENNIT_INT32, message.from, comm, nullptr, nullptr);
      });
    }
  }

  void add_all_reduce(int index, std::size_t count) {
    sums_.emplace_back(count, rank_ + 1);
    std::int32_t* data = sums_.back().data();
    const sennit_comm_t comm = comms_[static_cast<std::size_t>(index)];
    streams_[{index, -1, false}].emplace_back([=] {
      return sennit_all_reduce(data, data, count, SENNIT_INT32, SENNIT_SUM, comm, nullptr, nullptr);
    });
  }

  void add_all_to_all(int index) {
    sent_.emplace_back(kGathered * kRanks, rank_);
    gathered_.emplace_back(kGathered * kRanks, -1);
    const std::int32_t* in = sent_.back().data();
    std::int32_t* out = gathered_.back().data();
    const sennit_comm_t comm = comms_[static_cast<std::size_t>(index)];
    streams_[{index, -1, false}].emplace_back([=] {
      return sennit_all_to_all(in, out, kGathered, SENNIT_INT32, comm, nullptr, nullptr);
    });
  }

  // One group of all calls, the streams mixed at random.
  sennit_status_t run(std::mt19937& random) {
    sennit_group_start();
    while (!streams_.empty()) {
      auto stream = streams_.begin();
      std::advance(stream, static_cast<int>(random() % streams_.size()));
      static_cast<void>(stream->second.front()());  // the group's end tells a failure
      stream->second.pop_front();
      if (stream->second.empty()) {
        streams_.erase(stream);
      }
    }
    return sennit_group_end();
  }

  [[nodiscard]] bool is_right() const {
    constexpr int kSum = kRanks * (kRanks + 1) / 2;
    for (std::size_t m = 0; m < received_.size(); ++m) {
      std::int32_t expected = firsts_[m];
      for (const std::int32_t element : received_[m]) {
        if (element != expected++) {
          return false;
        }
      }
    }
    const auto all_are = [](auto begin, auto end, std::int32_t value) {
      return std::all_of(begin, end, [=](std::int32_t element) { return element == value; });
    };
    return std::ranges::all_of(
               sums_, [&](const auto& sum) { return all_are(sum.begin(), sum.end(), kSum); }) &&
           std::ranges::all_of(gathered_, [&](const auto& blocks) {
             bool right = true;
             for (int rank = 0; rank < kRanks; ++rank) {
               const auto block = blocks.begin() + rank * static_cast<std::ptrdiff_t>(kGathered);
               right = right && all_are(block, block + kGathered, rank);
             }
             return right;
           });
  }

 private:
  using Buffers = std::deque<std::vector<std::int32_t>>;  // what is in it never moves

  int rank_;
  Comms comms_;
  Buffers sent_;
  Buffers received_;
  std::vector<std::int32_t> firsts_;
  Buffers sums_;
  Buffers gathered_;
  std::map<StreamKey, std::deque<Post>> streams_;
};

Report exchange(const std::string& name, int rank, unsigned seed, int slots) {
  sennit_unique_id_t id;
  sennit_unique_id_from_text(&id, name.c_str());
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.slots = slots;
  config.deadline_s = kDeadline;
  Comms comms{};
  Report report = report_of([&] {
    const sennit_status_t status = sennit_comm_init_rank(comms.data(), kRanks, &id, rank, &config);
    return status != SENNIT_OK ? status : sennit_comm_split(comms[0], 0, rank, &comms[1], nullptr);
  });
  std::mt19937 common(seed);
  std::mt19937 own(seed + 1 + static_cast<unsigned>(rank));
  GroupOfRank group(rank, comms);
  for (const Message& message : draw_messages(common)) {
    group.add(message);
  }
  for (int comm = 0; comm < kComms; ++comm) {
    group.add_all_reduce(comm, 1 + common() % 200'000);
    group.add_all_to_all(comm);
    group.add_all_reduce(comm, 3);
  }
  if (report.status == SENNIT_OK) {
    report = report_of([&] { return group.run(own); });
    report.value = group.is_right() ? 1 : 0;
  }
  for (const sennit_comm_t comm : comms) {
    sennit_comm_destroy(comm);
  }
  return report;
}

class Groups : public LeavesNothing {};

TEST_F(Groups, OfLargeMessagesInAnyOrderEndWithOneSlot) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed));
  std::printf("SENNIT_TEST_SEED=%u\n", seed);
  for (const auto& [paths, rounds] : {std::pair{"shm", 4}, std::pair{"shm,cma", 4}}) {
    for (int round = 0; round < rounds; ++round) {
      SCOPED_TRACE(std::string(paths) + ", round " + std::to_string(round));
      const std::string name = fresh_name();
      const unsigned round_seed = seed + 1000 * static_cast<unsigned>(round);
      RankProcesses ranks(kRanks, [&](int rank) {
        ::setenv("SENNIT_PATHS", paths, 1);
        return exchange(name, rank, round_seed, /*slots=*/1);
      });
      for (const auto& report : ranks.reports()) {
        ASSERT_TRUE(report);
        EXPECT_EQ(report->status, SENNIT_OK) << report->message;
        EXPECT_EQ(report->value, 1) << "wrong elements";
      }
    }
  }
}

}  // namespace
}  // namespace sennit::tests
