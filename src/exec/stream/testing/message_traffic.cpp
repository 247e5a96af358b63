#include "exec/stream/testing/message_traffic.hpp"

#include "algo/algorithm.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

using How = Sending::How;

// Flags of kernels are none of RankWords.
constexpr std::int64_t kKernelFlags = std::int64_t{1} << 40;

Strand strand_of(PathKind path, Protocol protocol, Engine engine, int slots, int share) {
  Result<const Algorithm*> direct = find_algorithm(Collective::kSendRecv, "direct");
  Result<Schedule> schedule = make_schedule(**direct, {.ranks = 2, .root = 0});
  Strand strand = bind(
      std::make_shared<const Schedule>(std::move(schedule).value()), path, protocol, slots, engine);
  strand.share = share;
  return strand;
}

FakeCuda& any_driver() {
  static FakeCuda cuda{{}};
  return cuda;
}

}  // namespace

MessageGroup PostedGroup::group(int rank, int ranks, const host::RingShape& ring) const {
  return {.rank = rank,
          .ranks = ranks,
          .messages = messages,
          .partners = partners,
          .has_kernels = !kernels.empty(),
          .ring = ring};
}

MessageTraffic::MessageTraffic(int ranks, const host::RingShape& ring)
    : ranks_(ranks),
      ring_(ring),
      group_numbers_(static_cast<std::size_t>(ranks)),
      groups_(static_cast<std::size_t>(ranks)) {}

const PlanProgram* MessageTraffic::program_of(const Sending& sending, bool is_send) {
  const bool is_put = sending.how == How::kPut;
  std::unique_ptr<PlanProgram>& program =
      programs_[{is_put ? 1 : 0, sending.host_share, sending.rest_by_kernels ? 1 : 0, is_send}];
  if (program == nullptr) {
    Plan plan;
    if (sending.host_share < 100) {
      const Protocol protocol = sending.rest_by_kernels ? Protocol::kSlots
                                : is_put                ? Protocol::kDirectPut
                                                        : Protocol::kDirectGet;
      plan.strands.push_back(strand_of(PathKind::kNvlink,
                                       protocol,
                                       sending.rest_by_kernels ? Engine::kSm : Engine::kStream,
                                       2,
                                       100 - sending.host_share));
    }
    if (sending.host_share > 0) {
      plan.strands.push_back(strand_of(
          PathKind::kHost, Protocol::kSlots, Engine::kStream, ring_.slots, sending.host_share));
    }
    Result<PlanProgram> compiled = compile_plan(plan, is_send ? 0 : 1);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    program = std::make_unique<PlanProgram>(std::move(compiled).value());
  }
  return program.get();
}

GroupId MessageTraffic::next_group(int rank, const Pairs& pairs) {
  const auto offered = [&](int from, int to) {
    const auto known = pairs.find({from, to});
    return known == pairs.end() ? 0 : known->second.offered;
  };
  GroupId id{.number = ++group_numbers_[static_cast<std::size_t>(rank)]};
  for (int peer = 0; peer < ranks_; ++peer) {
    id.first_sent[static_cast<std::size_t>(peer)] = offered(rank, peer) + 1;
    id.first_received[static_cast<std::size_t>(peer)] = offered(peer, rank) + 1;
  }
  return id;
}

std::vector<MessageTraffic::Posting> MessageTraffic::make_groups(
    int rank, const std::vector<Sending>& sendings, const std::vector<int>& cuts) {
  std::vector<const Sending*> own;
  for (const Sending& sending : sendings) {
    if (sending.from == rank || sending.to == rank) {
      own.push_back(&sending);
    }
  }
  std::vector<PostedGroup>& groups = groups_[static_cast<std::size_t>(rank)];
  std::vector<Posting> postings;
  Pairs pairs = pairs_;
  for (std::size_t i = 0; i < own.size();) {
    GroupId id = next_group(rank, pairs);
    std::uint32_t sent_to = 0;
    std::uint32_t received_from = 0;
    const std::size_t first = i;
    for (bool has_ended = false; i < own.size() && !has_ended; ++i) {
      const Sending& sending = *own[i];
      if (sending.how != How::kKernels) {
        sent_to |= sending.from == rank ? 1U << sending.to : 0;
        received_from |= sending.to == rank ? 1U << sending.from : 0;
        ++pairs[{sending.from, sending.to}].offered;
      }
      has_ended = std::ranges::find(cuts, static_cast<int>(i)) != cuts.end();
    }
    id.partners = sent_to == received_from && sent_to != 0 ? sent_to | (1U << rank) : 0;
    groups.emplace_back().partners = id.partners;
    postings.insert(postings.end(), i - first, {.group = groups.size() - 1, .id = id});
  }
  return postings;
}

// What both ends of it know.
Message MessageTraffic::next_message(const Sending& sending) {
  Pair& known = pairs_[{sending.from, sending.to}];
  Message message{.slot = static_cast<int>(++known.offered % kMaxMessages),
                  .bytes = sending.bytes,
                  .is_put = sending.how == How::kPut,
                  .first_slot = static_cast<int>(known.slots % std::max(1, ring_.slots))};
  message.is_met = sending.is_timed && (sending.rest_by_kernels || message.is_put);
  known.slots += slots_for(*program_of(sending, true), sending.bytes, ring_);
  return message;
}

void MessageTraffic::add_end(const Sending& sending,
                             bool is_send,
                             Message message,
                             const Posting& mine,
                             const Posting& theirs) {
  const int rank = is_send ? sending.from : sending.to;
  message.peer = is_send ? sending.to : sending.from;
  message.program = program_of(sending, is_send);
  if (!is_send || message.is_put) {  // a sender knows of the other group if it has a post
    message.group = theirs.id;
    message.before = messages_before(mine.id, rank, theirs.id, message.peer);
  }
  if (!is_send && sending.is_timed) {
    message.watch = watches_.emplace_back(std::make_unique<Stopwatch>(any_driver())).get();
  }
  groups_[static_cast<std::size_t>(rank)][mine.group].messages.push_back(message);
}

// Both ends begin before either ends.
void MessageTraffic::add_kernels(const Sending& sending,
                                 const Posting& sender,
                                 const Posting& receiver) {
  const std::int64_t flags[] = {kKernelFlags + kernel_flags_, kKernelFlags + kernel_flags_ + 1};
  kernel_flags_ += 2;
  const auto add = [&](int rank, std::size_t group, std::int64_t signalled, std::int64_t awaited) {
    std::vector<StreamStep>& steps = groups_[static_cast<std::size_t>(rank)][group].kernels;
    steps.insert(steps.begin(), {.kind = StreamStep::Kind::kSignal, .flag = signalled});
    steps.push_back({.kind = StreamStep::Kind::kAwait, .flag = awaited});
    steps.push_back({.kind = StreamStep::Kind::kReset, .flag = awaited});
  };
  add(sending.from, sender.group, flags[0], flags[1]);
  add(sending.to, receiver.group, flags[1], flags[0]);
}

void MessageTraffic::post(const std::vector<Sending>& sendings,
                          const std::vector<std::vector<int>>& cuts) {
  std::vector<std::vector<Posting>> postings;  // by rank, and then by its sendings
  for (int rank = 0; rank < ranks_; ++rank) {
    postings.push_back(make_groups(rank, sendings, cuts[static_cast<std::size_t>(rank)]));
  }
  std::vector<std::size_t> next(static_cast<std::size_t>(ranks_));
  const auto take_next = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return postings[r][next[r]++];
  };
  for (const Sending& sending : sendings) {
    const Posting sender = take_next(sending.from);
    const Posting receiver = take_next(sending.to);
    if (sending.how != How::kKernels) {
      const Message message = next_message(sending);
      add_end(sending, /*is_send=*/true, message, sender, receiver);
      add_end(sending, /*is_send=*/false, message, receiver, sender);
    }
    if (sending.how == How::kKernels || sending.rest_by_kernels) {
      add_kernels(sending, sender, receiver);
    }
  }
}

std::vector<IssuedSteps> MessageTraffic::issued(bool is_captured) const {
  std::vector<IssuedSteps> all;
  for (int rank = 0; rank < ranks_; ++rank) {
    IssuedSteps& mine = all.emplace_back();
    mine.device = rank;
    mine.process = rank;
    for (const PostedGroup& posted : groups(rank)) {
      OperationList list;
      MessageGroup group = posted.group(rank, ranks_, ring_);
      group.is_captured = is_captured;
      append_group(group, list);
      append_steps(list, mine, [&] { return posted.kernels; });
    }
  }
  return all;
}

namespace {

int pick(std::mt19937& random, int choices) {
  return static_cast<int>(random() % static_cast<unsigned>(choices));
}

Sending random_sending(std::mt19937& random, int from, int to) {
  Sending sending{.from = from, .to = to};
  sending.how = pick(random, 5) == 0   ? How::kKernels
                : pick(random, 2) == 0 ? How::kPut
                                       : How::kFetched;
  sending.bytes = std::array{1, 5'000, 70'000}[static_cast<std::size_t>(pick(random, 3))];
  if (sending.how != How::kKernels) {
    sending.host_share = std::array{0, 0, 40, 100}[static_cast<std::size_t>(pick(random, 4))];
    sending.rest_by_kernels = sending.host_share == 40 && pick(random, 3) == 0;
    const bool is_fetched = sending.rest_by_kernels || sending.host_share == 100;
    sending.how = is_fetched ? How::kFetched : sending.how;
    sending.is_timed = pick(random, 3) == 0;
  }
  return sending;
}

}  // namespace

std::string message_flag_name(std::int64_t flag) {
  return flag >= kKernelFlags ? fmt::format("kernel flag {}", flag - kKernelFlags)
                              : flag_name(flag);
}

std::vector<Sending> random_sendings(std::mt19937& random, int ranks, int count) {
  std::vector<Sending> sendings;
  for (int i = 0; i < count; ++i) {
    const int from = pick(random, ranks);
    sendings.push_back(random_sending(random, from, (from + 1 + pick(random, ranks - 1)) % ranks));
  }
  return sendings;
}

std::vector<Sending> random_exchange(std::mt19937& random, int ranks) {
  std::vector<Sending> sendings;
  const bool are_all_alike = pick(random, 2) == 0;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) {
        continue;
      }
      sendings.push_back(random_sending(random, from, to));
      if (are_all_alike) {
        const Sending& first = sendings.front();
        sendings.back() = first;
        sendings.back().from = from;
        sendings.back().to = to;
      }
    }
  }
  std::ranges::shuffle(sendings, random);
  return sendings;
}

std::vector<std::vector<int>> random_cuts(std::mt19937& random, int ranks, int count) {
  std::vector<std::vector<int>> cuts = no_cuts(ranks);
  for (std::vector<int>& mine : cuts) {
    for (int i = 0; i < count; ++i) {
      if (pick(random, 4) == 0) {
        mine.push_back(i);
      }
    }
  }
  return cuts;
}

std::vector<std::vector<int>> no_cuts(int ranks) {
  return std::vector<std::vector<int>>(static_cast<std::size_t>(ranks));
}

}  // namespace sennit::stream
