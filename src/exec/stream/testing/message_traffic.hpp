// For tests: programs of sends and recvs of all ranks, cut into groups, with all that the two ends
// of each message have decided, as comm/device does it.
#pragma once

#include "exec/stream/message.hpp"
#include "exec/stream/message_operations.hpp"
#include "exec/stream/testing/queue_steps.hpp"
#include "verify/queues.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sennit::stream {

struct Sending {
  int from = 0;
  int to = 0;
  std::int64_t bytes = 0;
  // By copy engines, of which end; or all of it by kernels.
  enum class How : std::uint8_t { kFetched, kPut, kKernels };
  How how = How::kFetched;
  int host_share = 0;            // percent
  bool rest_by_kernels = false;  // what does not go through the host
  bool is_timed = false;
};

// What a rank posts at once.
struct PostedGroup {
  std::vector<Message> messages{};
  std::uint32_t partners = 0;
  std::vector<StreamStep> kernels{};  // what the kernels of the group wait for and signal

  [[nodiscard]] MessageGroup group(int rank, int ranks, const host::RingShape& ring) const;
};

class MessageTraffic {
 public:
  MessageTraffic(int ranks, const host::RingShape& ring);

  // The sendings of all ranks, in an order that each keeps among its own; `cuts[r]`: behind which
  // of its own a group of rank r ends, the last one in any case.
  void post(const std::vector<Sending>& sendings, const std::vector<std::vector<int>>& cuts);

  [[nodiscard]] const std::vector<PostedGroup>& groups(int rank) const {
    return groups_[static_cast<std::size_t>(rank)];
  }
  // Ranks are processes with a device each.
  [[nodiscard]] std::vector<IssuedSteps> issued(bool is_captured = false) const;
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  struct Pair {
    std::uint32_t offered = 0;
    std::int64_t slots = 0;
  };
  using Pairs = std::map<std::pair<int, int>, Pair>;  // by sender and receiver
  // In which group of its rank a sending is.
  struct Posting {
    std::size_t group = 0;
    GroupId id{};
  };

  const PlanProgram* program_of(const Sending& sending, bool is_send);
  GroupId next_group(int rank, const Pairs& pairs);
  // Of a rank, for each of its sendings.
  std::vector<Posting> make_groups(int rank,
                                   const std::vector<Sending>& sendings,
                                   const std::vector<int>& cuts);
  Message next_message(const Sending& sending);
  void add_end(const Sending& sending,
               bool is_send,
               Message message,
               const Posting& mine,
               const Posting& theirs);
  void add_kernels(const Sending& sending, const Posting& sender, const Posting& receiver);

  int ranks_;
  host::RingShape ring_;
  Pairs pairs_;
  std::vector<std::uint64_t> group_numbers_;
  std::map<std::array<int, 4>, std::unique_ptr<PlanProgram>> programs_;
  std::vector<std::vector<PostedGroup>> groups_;
  std::vector<std::unique_ptr<Stopwatch>> watches_;
  std::int64_t kernel_flags_ = 0;
};

// With those of kernels, which are none of RankWords.
std::string message_flag_name(std::int64_t flag);

// Some of all kinds, with 2 or more ranks.
std::vector<Sending> random_sendings(std::mt19937& random, int ranks, int count);
// From all ranks to all others.
std::vector<Sending> random_exchange(std::mt19937& random, int ranks);
// Each rank cuts where it likes; or none but at the end.
std::vector<std::vector<int>> random_cuts(std::mt19937& random, int ranks, int count);
std::vector<std::vector<int>> no_cuts(int ranks);

}  // namespace sennit::stream
