// Programs of sends and recvs, at random: who cuts them into groups as he likes comes through, and
// has every byte.
#include "base/testing/trials.hpp"
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

// What a message requests. Equal at both ends. The last two are of kernels.
struct Way {
  const char* path;
  const char* protocol;
};
constexpr Way kWays[] = {{"", "copy_engines"},
                         {"", "copy_engines"},
                         {"", "direct_get"},
                         {"nvlink+host:40", "copy_engines"},
                         {"nvlink+host:dynamic", "copy_engines"},
                         {"host", ""},
                         {"", "direct_put"},
                         {"", ""}};

struct Planned {
  int from = 0;
  int to = 0;
  Way way{};
  bool ends_group = true;  // a group may end with it
};

// The messages of all ranks, in an order that every rank keeps among its own. So whatever they are
// cut into, the first message that has not arrived can: all before it have.
class Program {
 public:
  static constexpr std::int64_t kCount = 20'001;

  // `is_free`: no message has a request.
  Program(unsigned seed, int ranks, bool is_free) : random_(seed), is_free_(is_free) {
    if (seed % 2 == 0) {
      mix(ranks);
    } else {
      meet_in_pairs();
    }
  }

  // Puts this rank's part into its stream, in groups cut at random.
  void run(const Rank& rank, std::byte* out, std::byte* in) {
    constexpr std::size_t kLargestGroup = 24;
    std::mt19937 random(static_cast<unsigned>(random_()) + static_cast<unsigned>(rank.rank));
    const auto one_in = 2 + random() % 6;  // messages is the last of its group
    Calls calls;
    const auto put = [&] {
      ASSERT_TRUE(post(rank, std::exchange(calls, {})).ok()) << rank.comm->failure().message();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    };
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Planned& message = messages_[i];
      const std::int64_t at = static_cast<std::int64_t>(i) * kCount;
      Calls one;
      if (message.from == rank.rank) {
        one = {send(rank, message.to, out + at, kCount)};
      } else if (message.to == rank.rank) {
        one = {recv(rank, message.from, in + at, kCount)};
      } else {
        continue;
      }
      calls.push_back(over(one, message.way.path, message.way.protocol).front());
      if (message.ends_group && (random() % one_in == 0 || calls.size() >= kLargestGroup)) {
        put();
      }
    }
    put();
  }

  void check(const Rank& rank, const std::byte* in) const {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) * kCount;
      ASSERT_TRUE(messages_[i].to != rank.rank ||
                  holds(in + at, contents(messages_[i].from, kCount, at)))
          << "message " << i << " from " << messages_[i].from << " to " << rank.rank;
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(messages_.size()); }

 private:
  Way any_way() { return is_free_ ? Way{"", ""} : kWays[random_() % std::size(kWays)]; }

  // Of some ranks a few messages, or all that they can send each other.
  void mix(int ranks) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::ranges::generate(all, [rank = 0]() mutable { return rank++; });
    for (int i = 0; i < 20; ++i) {
      std::ranges::shuffle(all, random_);
      const auto chosen = std::span(all).first(2 + random_() % static_cast<unsigned>(ranks - 1));
      const bool is_exchange = random_() % 2 == 0;
      const Way way = any_way();
      std::vector<Planned> some;
      for (const int from : chosen) {
        for (const int to : chosen) {
          if (from != to && (is_exchange || random_() % 4 == 0)) {
            some.push_back({from, to, random_() % 8 == 0 ? any_way() : way});
          }
        }
      }
      std::ranges::shuffle(some, random_);
      messages_.insert(messages_.end(), some.begin(), some.end());
    }
  }

  // Groups of three ranks that look as if all three exchanged messages in them, but have not met.
  void meet_in_pairs() {
    const Way way = is_free_ ? any_way() : kWays[random_() % (std::size(kWays) - 2)];
    for (int i = 0; i < 30; ++i) {
      const int left_out = static_cast<int>(random_() % 3);
      const int one = (left_out + 1) % 3;
      const int other = (left_out + 2) % 3;
      messages_.push_back({one, other, way, false});
      messages_.push_back({other, one, way, true});
    }
  }

  std::mt19937 random_;
  bool is_free_;
  std::vector<Planned> messages_;
};

class MessagePrograms : public FakeMessagesWithRings,
                        public ::testing::WithParamInterface<unsigned> {
 protected:
  MessagePrograms() {
    prepare_ = [](Rank& rank) { rank.cuda->run_kernels(fake_pairs_kernel); };
  }

  void run_program(bool is_free) {
    run([&](Rank& rank) {
      Program program(GetParam(), kRanks, is_free);
      std::byte* const out = outgoing(rank, program.size(), Program::kCount);
      std::byte* const in = incoming(rank, program.size(), Program::kCount);
      const int before = rank.cuda->calls("copy_async");
      for (int round = 0; round < 6; ++round) {  // each cuts in other places
        std::memset(in, 0, static_cast<std::size_t>(program.size() * Program::kCount));
        program.run(rank, out, in);
        rank.finish();
        program.check(rank, in);
        EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
      }
      copies_ += rank.cuda->calls("copy_async") - before;
    });
  }

  std::atomic<int> copies_ = 0;
};

TEST_P(MessagePrograms, ComeThroughHoweverTheyAreCutIntoGroups) {
  run_program(false);
  EXPECT_GT(copies_, 0);
}

// Where a device has one queue for all streams, what waits would hold up what it waits for: these
// are none of copy engines.
TEST_P(MessagePrograms, ComeThroughOneQueueWhereTheyAreLeftOpen) {
  cuda_options_.one_queue = true;
  options_.profile->message_copies_from_bytes = Program::kCount;
  run_program(true);
  EXPECT_EQ(copies_, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MessagePrograms, ::testing::Range(0U, trials(24U, 8U)));

}  // namespace
}  // namespace sennit::tests
