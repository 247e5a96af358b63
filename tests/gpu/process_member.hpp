// For tests: one rank that is a process, and what it must hold after calls.
#pragma once

#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <string>
#include <vector>

namespace sennit::tests {

// A communicator of this process, and what all of its ranks put in: each process makes all inputs
// anew, from what they agree on, to know what is to come out of its own.
class Member {
 public:
  Member(const GpuProcess& self, const std::string& name)
      : rank_(self.rank(), self.ranks(), self.device()), self_(self) {
    rank_.comm = self.join(name);
  }

  DeviceRank& rank() { return rank_; }
  [[nodiscard]] int next() const { return (self_.rank() + 1) % self_.ranks(); }
  [[nodiscard]] int previous() const { return (self_.rank() + self_.ranks() - 1) % self_.ranks(); }

  void prepare(const DeviceCase& c) {
    std::mt19937_64 random(static_cast<std::uint64_t>(++prepared_));
    inputs_.clear();
    for (int rank = 0; rank < self_.ranks(); ++rank) {
      const std::size_t bytes = input_size(c, rank, self_.ranks());
      inputs_.push_back(
          random_elements(c.dtype, static_cast<std::int64_t>(bytes / size_bytes(c.dtype)), random));
    }
    rank_.prepare(c, inputs_[static_cast<std::size_t>(self_.rank())]);
  }

  void check(const DeviceCase& c) {
    ASSERT_TRUE(rank_.output(c) == expected_output(c, inputs_, self_.rank())) << described(c);
  }

  void run(const DeviceCase& c) {
    prepare(c);
    ASSERT_EQ(rank_.call(c), SENNIT_OK) << described(c) << ": " << sennit_last_error_message();
    check(c);
  }

  // The ring of ranks, each sending its input to the next; of an all_gather, the block of the rank
  // before.
  void post_ring(const DeviceCase& c) {
    const auto count = static_cast<std::size_t>(c.count);
    const auto* const from = static_cast<const float*>(rank_.send());
    float* const to =
        static_cast<float*>(rank_.recv()) + static_cast<std::size_t>(previous()) * count;
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(sennit_send(from, count, SENNIT_FLOAT32, next(), rank_.comm, rank_.stream, nullptr),
              SENNIT_OK);
    EXPECT_EQ(sennit_recv(to, count, SENNIT_FLOAT32, previous(), rank_.comm, rank_.stream, nullptr),
              SENNIT_OK);
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  }
  void check_ring(const DeviceCase& c) {
    const Bytes output = rank_.output(c);
    const Bytes expected = expected_output(c, inputs_, self_.rank());
    const auto bytes = static_cast<std::ptrdiff_t>(c.count) * 4;
    const std::ptrdiff_t at = previous() * bytes;
    ASSERT_TRUE(std::equal(output.begin() + at, output.begin() + at + bytes, expected.begin() + at))
        << "ring of " << c.count << " elements";
  }

  // An all_to_all_v, of each block of an all_to_all a part that differs by pair of ranks.
  void run_varying(const DeviceCase& c) {
    prepare(c);
    std::vector<std::size_t> counts;
    std::vector<std::size_t> places;
    for (int peer = 0; peer < self_.ranks(); ++peer) {
      counts.push_back(static_cast<std::size_t>(c.count * ((self_.rank() + peer) % 3 + 1) / 3));
      places.push_back(static_cast<std::size_t>(peer * c.count));
    }
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = c.protocol;
    options.path = c.path;
    ASSERT_EQ(sennit_all_to_all_v(rank_.send(),
                                  counts.data(),
                                  places.data(),
                                  rank_.recv(),
                                  counts.data(),
                                  places.data(),
                                  SENNIT_FLOAT32,
                                  rank_.comm,
                                  rank_.stream,
                                  &options),
              SENNIT_OK)
        << described(c) << ": " << sennit_last_error_message();
    const Bytes output = rank_.output(c);
    const Bytes expected = expected_output(c, inputs_, self_.rank());
    for (std::size_t peer = 0; peer < counts.size(); ++peer) {
      const auto at = static_cast<std::ptrdiff_t>(places[peer] * 4);
      const auto end = at + static_cast<std::ptrdiff_t>(counts[peer] * 4);
      ASSERT_TRUE(std::equal(output.begin() + at, output.begin() + end, expected.begin() + at))
          << described(c) << ", v-form, block " << peer;
    }
  }

 private:
  static std::string described(const DeviceCase& c) {
    return std::string(name(c.collective)) + " of " + std::to_string(c.count) + " by " +
           (c.protocol == nullptr ? "choice" : c.protocol) + " over " +
           (c.path == nullptr ? "choice" : c.path) +
           (c.codec == nullptr ? "" : std::string(" by codec ") + c.codec) + " of " +
           std::string(name(c.dtype)) + (c.in_place ? ", in place" : "");
  }

  DeviceRank rank_;
  const GpuProcess& self_;
  int prepared_ = 0;
  std::vector<Bytes> inputs_;
};

}  // namespace sennit::tests
