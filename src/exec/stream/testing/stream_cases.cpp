#include "exec/stream/testing/stream_cases.hpp"

#include "algo/algorithm.hpp"
#include "schedule/passes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace sennit::stream {
namespace {

constexpr int kStagingSlots = 2;

// None of schedules that cannot be loosened.
std::vector<Strand> direct_strand(const Schedule& schedule) {
  const auto loosened = std::make_shared<const Schedule>(loosen(reduce_in_slots(schedule)));
  if (!check_structure(*loosened).ok()) {
    return {};
  }
  Strand strand =
      bind(loosened, PathKind::kNvlink, Protocol::kDirectPut, kStagingSlots, Engine::kStream);
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    if (!is_stored_whole(*loosened, static_cast<int>(c))) {
      strand.channels[c].protocol = Protocol::kSlots;  // its staging memory
    }
  }
  return {strand};
}

Strand host_strand(const Schedule& schedule, const host::RingShape& ring) {
  return bind(std::make_shared<const Schedule>(schedule),
              PathKind::kHost,
              Protocol::kSlots,
              ring.slots,
              Engine::kStream);
}

// What the last ranks send and get goes through the host.
std::vector<Strand> mixed_strand(const Schedule& schedule, int through_host) {
  std::vector<Strand> strands = direct_strand(schedule);
  for (Strand& strand : strands) {
    for (std::size_t c = 0; c < strand.channels.size(); ++c) {
      const Channel& channel = strand.schedule->channels[c];
      if (std::max(channel.writer.rank, channel.readers.front().rank) >=
          schedule.problem.ranks - through_host) {
        strand.channels[c].paths = {PathKind::kHost};
        strand.channels[c].protocol = Protocol::kSlots;
      }
    }
  }
  return strands;
}

// Who reduces copies out of the inputs of others what does not go through the host.
std::vector<Strand> pulled_strand(const Schedule& schedule, int through_host) {
  std::vector<Strand> strands = mixed_strand(schedule, through_host);
  for (Strand& strand : strands) {
    for (std::size_t c = 0; c < strand.channels.size(); ++c) {
      const bool is_host = strand.channels[c].paths.front() == PathKind::kHost;
      if (!is_host && !is_stored_whole(*strand.schedule, static_cast<int>(c))) {
        strand.channels[c].protocol = Protocol::kDirectGet;
      }
    }
  }
  return strands;
}

std::optional<StreamCase> case_of(std::string name, std::vector<Strand> strands) {
  StreamCase result{
      .name = std::move(name), .plan = {.strands = std::move(strands)}, .programs = {}};
  if (result.plan.strands.empty() || !check_structure(result.plan).ok()) {
    return std::nullopt;
  }
  for (int rank = 0; rank < result.ranks(); ++rank) {
    Result<PlanProgram> program = compile_plan(result.plan, rank);
    if (!program.ok()) {
      return std::nullopt;
    }
    result.programs.push_back(std::move(program).value());
  }
  return result;
}

class Cases {
 public:
  Cases(int ranks, const host::RingShape& ring) : ranks_(ranks), ring_(ring) {}

  void add(Collective collective, int root) {
    std::vector<StreamCase> direct;
    std::vector<StreamCase> through_host;
    for (const Algorithm& algorithm : algorithms(collective)) {
      const Result<Schedule> schedule = make_schedule(algorithm, {.ranks = ranks_, .root = root});
      if (!schedule.ok()) {
        continue;
      }
      const std::string title = fmt::format(
          "{}/{} of {} ranks, root {}", sennit::name(collective), algorithm.name, ranks_, root);
      if (auto made = case_of(title, direct_strand(*schedule))) {
        direct.push_back(std::move(*made));
      }
      if (is_reduction(collective)) {
        add_mixtures(*schedule, title);
      }
      if (auto made = case_of(title + ", through the host", {host_strand(*schedule, ring_)})) {
        through_host.push_back(std::move(*made));
      }
    }
    for (const StreamCase& one : direct) {
      for (const StreamCase& other : through_host) {
        if (auto both = case_of(one.name + " and " + other.name,
                                {one.plan.strands.front(), other.plan.strands.front()})) {
          cases_.push_back(std::move(*both));
          if (ranks_ <= 2) {
            break;  // nearly all algorithms are one
          }
        }
      }
    }
    std::ranges::move(direct, std::back_inserter(cases_));
    std::ranges::move(through_host, std::back_inserter(cases_));
  }

  std::vector<StreamCase> take() { return std::move(cases_); }

 private:
  // Some members through the host, the others by copies that they or the root make.
  void add_mixtures(const Schedule& schedule, const std::string& title) {
    for (int members = 1; members < ranks_; ++members) {
      if (auto made = case_of(fmt::format("{}, {} of them through the host", title, members),
                              mixed_strand(schedule, members))) {
        cases_.push_back(std::move(*made));
      }
    }
    for (int members = 0; members + 1 < ranks_; ++members) {
      if (auto made = case_of(fmt::format("{}, pulled but for {} through the host", title, members),
                              pulled_strand(schedule, members))) {
        cases_.push_back(std::move(*made));
      }
    }
  }

  int ranks_;
  host::RingShape ring_;
  std::vector<StreamCase> cases_;
};

}  // namespace

bool StreamCase::has_slots() const {
  return std::ranges::any_of(programs.front().strands, [](const StrandProgram& strand) {
    return std::holds_alternative<SlotProgram>(strand.program);
  });
}

std::vector<StreamCase> stream_cases(int ranks, const host::RingShape& ring, int most_roots) {
  Cases cases(ranks, ring);
  for (const Collective collective : kCollectives) {
    if (collective == Collective::kSendRecv && ranks != 2) {
      continue;
    }
    const int roots = is_rooted(collective) ? std::min(ranks, most_roots) : 1;
    for (int root = 0; root < roots; ++root) {
      cases.add(collective, root);
    }
  }
  return cases.take();
}

}  // namespace sennit::stream
