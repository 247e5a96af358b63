#include "verify/sweep.hpp"

#include "algo/algorithm.hpp"
#include "algo/shapes.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

namespace sennit {
namespace {

struct Instance {
  const Algorithm* algorithm = nullptr;
  Shape shape;
};

std::vector<Instance> list_instances(const SweepRequest& request) {
  std::vector<Instance> instances;
  for (const Collective collective : kCollectives) {
    if (request.collective && *request.collective != collective) {
      continue;
    }
    for (const Algorithm& algorithm : algorithms(collective)) {
      if (request.algorithm && *request.algorithm != algorithm.name) {
        continue;
      }
      for (int ranks = request.ranks_first; ranks <= request.ranks_last; ++ranks) {
        for (Shape& shape : algo::shapes_to_try(algorithm, ranks)) {
          instances.push_back({&algorithm, std::move(shape)});
        }
      }
    }
  }
  // The largest first, so that no thread is left alone with them in the end.
  std::ranges::stable_sort(instances, std::ranges::greater{}, [](const Instance& instance) {
    return instance.shape.ranks;
  });
  return instances;
}

bool is_sent_from_user_memory(const Schedule& schedule, int channel) {
  const LaneId writer = schedule.channels[static_cast<std::size_t>(channel)].writer;
  const auto& steps =
      schedule.ranks[static_cast<std::size_t>(writer.rank)][static_cast<std::size_t>(writer.lane)]
          .steps;
  return std::ranges::all_of(steps, [channel](const Step& step) {
    if (std::ranges::count(step.out, channel) == 0) {
      return true;
    }
    const std::vector<Block>& blocks = step.kind == StepKind::kSend ? step.from : step.to;
    return !blocks.empty() && std::ranges::none_of(blocks, [](const Block& block) {
      return block.space == Space::kScratch;
    });
  });
}

Plan plan_of(std::shared_ptr<const Schedule> schedule, int slots) {
  Plan plan;
  plan.strands.push_back(
      bind(std::move(schedule), PathKind::kShm, Protocol::kSlots, slots, Engine::kCpu));
  return plan;
}

// Whether `plan` has channels that may be bound to `protocol`, and holds with all of them bound so.
bool holds_directly(Plan plan, Protocol protocol) {
  Strand& strand = plan.strands.front();
  bool any = false;
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    if (is_sent_from_user_memory(*strand.schedule, static_cast<int>(c))) {
      strand.channels[c].protocol = protocol;
      any = true;
    }
  }
  return any && verify(plan).ok();
}

// What the row claims of links and rounds against what the schedule does; empty when they agree.
std::string check_closed_forms(const Instance& instance, const Schedule& schedule) {
  const int ranks = instance.shape.ranks;
  const std::vector<std::int64_t> blocks = link_blocks(schedule);
  std::size_t link = 0;  // from * ranks + to
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to, ++link) {
      const std::int64_t claimed = instance.algorithm->blocks_on_link(instance.shape, from, to);
      const std::int64_t found = blocks[link];
      if (claimed != found) {
        return fmt::format("rank {} sends {} blocks to rank {}, and the table claims {}",
                           from,
                           found,
                           to,
                           claimed);
      }
    }
  }
  const std::int64_t claimed = instance.algorithm->rounds(instance.shape);
  const std::int64_t found = longest_chain(schedule);
  return claimed == found ? std::string()
                          : fmt::format("has {} rounds, and the table claims {}", found, claimed);
}

std::string check_in_place(const Instance& instance, const Proof& proof) {
  if (instance.algorithm->in_place && !proof.in_place) {
    return fmt::format("does not hold in place as the table claims: {}", proof.why_not_in_place);
  }
  return {};
}

enum class Outcome : std::uint8_t { kProved, kProvedDirect, kRefused, kFailed };

Outcome look_at(const Instance& instance, const SweepRequest& request, std::string& why) {
  if (!instance.algorithm->refuses(instance.shape).empty()) {
    return Outcome::kRefused;
  }
  const Result<Schedule> made = make_schedule(*instance.algorithm, instance.shape);
  if (!made.ok()) {
    why = made.status().message();
    return Outcome::kFailed;
  }
  const auto schedule = std::make_shared<const Schedule>(*made);
  why = check_closed_forms(instance, *schedule);
  if (!why.empty()) {
    return Outcome::kFailed;
  }
  const Plan plan = plan_of(schedule, request.slots);
  if (request.protocol != Protocol::kSlots && holds_directly(plan, request.protocol)) {
    return Outcome::kProvedDirect;
  }
  const Result<Proof> proof = verify(plan);
  why = proof.ok() ? check_in_place(instance, *proof) : proof.status().message();
  return why.empty() ? Outcome::kProved : Outcome::kFailed;
}

void count(const Instance& instance, Outcome outcome, const std::string& why, SweepResult& result) {
  if (outcome == Outcome::kRefused) {
    ++result.refused;
    return;
  }
  ++result.instances;
  result.direct += outcome == Outcome::kProvedDirect ? 1 : 0;
  if (outcome == Outcome::kFailed) {
    ++result.failed;
    result.failures.push_back({.collective = instance.algorithm->collective,
                               .algorithm = instance.algorithm->name,
                               .ranks = instance.shape.ranks,
                               .root = instance.shape.root,
                               .why = fmt::format("{}: {}", algo::in_words(instance.shape), why)});
  }
}

}  // namespace

SweepResult sweep(const SweepRequest& request, const SweepProgress& progress) {
  const std::vector<Instance> instances = list_instances(request);
  SweepResult result;
  std::mutex mutex;  // guards `result` and `done`
  std::int64_t done = 0;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < instances.size(); i = next++) {
      std::string why;
      const Outcome outcome = look_at(instances[i], request, why);
      const std::scoped_lock lock(mutex);
      count(instances[i], outcome, why, result);
      ++done;
      if (progress) {
        progress(done, static_cast<std::int64_t>(instances.size()));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  // Smallest first: the easiest one to understand, and the same order on every run.
  std::ranges::sort(result.failures, {}, [](const SweepFailure& failure) {
    return std::tuple(failure.ranks, failure.collective, failure.algorithm, failure.root);
  });
  return result;
}

}  // namespace sennit
