#include "verify/sweep.hpp"

#include "rotation.hpp"

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

// Shapes of one row that differ in their root alone, so that they are looked at together.
struct Instance {
  const Algorithm* algorithm = nullptr;
  std::vector<Shape> shapes;
};

bool differ_in_root_alone(Shape shape, const Shape& other) {
  shape.root = other.root;
  return shape == other;
}

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
          const bool joins = !instances.empty() && instances.back().algorithm == &algorithm &&
                             differ_in_root_alone(shape, instances.back().shapes.back());
          if (!joins) {
            instances.push_back({&algorithm, {}});
          }
          instances.back().shapes.push_back(std::move(shape));
        }
      }
    }
  }
  // The largest first, so that no thread is left alone with them in the end.
  std::ranges::sort(instances, std::ranges::greater{}, [](const Instance& instance) {
    return instance.shapes.front().ranks;
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

bool holds_coded(Plan plan, Codec codec) {
  set_codec(plan.strands.front(), codec);
  return verify(plan).ok();
}

enum class Outcome : std::uint8_t { kProved, kProvedDirect, kProvedCoded, kRefused, kFailed };

bool is_proved(Outcome outcome) {
  return outcome != Outcome::kRefused && outcome != Outcome::kFailed;
}

// One shape, its schedule, and what was found of it.
struct Finding {
  Outcome outcome = Outcome::kFailed;
  std::string why{};  // it failed
  std::shared_ptr<const Schedule> schedule{};
  std::vector<std::int64_t> links{};
  std::int64_t rounds = 0;
};

// What the row claims of links and rounds against what the schedule does; empty when they agree.
// `found` may speak of a root that is `shift` ranks lower.
std::string check_closed_forms(const Algorithm& algorithm,
                               const Shape& shape,
                               const Finding& found,
                               int shift) {
  const int n = shape.ranks;
  std::size_t link = 0;  // from * n + to
  for (int from = 0; from < n; ++from) {
    for (int to = 0; to < n; ++to) {
      const std::int64_t claimed =
          algorithm.blocks_on_link(shape, (from + shift) % n, (to + shift) % n);
      const std::int64_t blocks = found.links[link++];
      if (claimed != blocks) {
        return fmt::format("rank {} sends {} blocks to rank {}, and the table claims {}",
                           (from + shift) % n,
                           blocks,
                           (to + shift) % n,
                           claimed);
      }
    }
  }
  const std::int64_t claimed = algorithm.rounds(shape);
  return claimed == found.rounds
             ? std::string()
             : fmt::format("has {} rounds, and the table claims {}", found.rounds, claimed);
}

std::string check_in_place(const Algorithm& algorithm, const Proof& proof) {
  return algorithm.in_place && !proof.in_place
             ? fmt::format("does not hold in place as the table claims: {}", proof.why_not_in_place)
             : "";
}

Finding look_at(const Algorithm& algorithm, const Shape& shape, const SweepRequest& request) {
  Finding found;
  if (!algorithm.refuses(shape).empty()) {
    found.outcome = Outcome::kRefused;
    return found;
  }
  Result<Schedule> made = make_schedule(algorithm, shape);
  if (!made.ok()) {
    found.why = made.status().message();
    return found;
  }
  found.schedule = std::make_shared<const Schedule>(std::move(*made));
  found.links = link_blocks(*found.schedule);
  found.rounds = longest_chain(*found.schedule);
  found.why = check_closed_forms(algorithm, shape, found, 0);
  if (!found.why.empty()) {
    return found;
  }
  const Plan plan = plan_of(found.schedule, request.slots);
  if (request.protocol != Protocol::kSlots && holds_directly(plan, request.protocol)) {
    found.outcome = Outcome::kProvedDirect;
    return found;
  }
  if (request.codec && holds_coded(plan, *request.codec)) {
    found.outcome = Outcome::kProvedCoded;
    return found;
  }
  const Result<Proof> proof = verify(plan);
  found.why = proof.ok() ? check_in_place(algorithm, *proof) : proof.status().message();
  found.outcome = found.why.empty() ? Outcome::kProved : Outcome::kFailed;
  return found;
}

// Roots after the first are as a rule the first one's schedule under other names, which is much
// faster to see than to prove.
Finding look_at_other_root(const Algorithm& algorithm,
                           const Shape& shape,
                           const Finding& first,
                           const SweepRequest& request) {
  if (is_proved(first.outcome)) {
    const int shift = shape.root - first.schedule->problem.root;
    const Result<Schedule> made = make_schedule(algorithm, shape);
    if (made.ok() && is_rotated(*first.schedule, *made, shift)) {
      Finding found{.outcome = first.outcome,
                    .why = check_closed_forms(algorithm, shape, first, shift)};
      found.outcome = found.why.empty() ? first.outcome : Outcome::kFailed;
      return found;
    }
  }
  return look_at(algorithm, shape, request);
}

SweepRow& row_of(const Algorithm& algorithm, SweepResult& result) {
  const auto known = std::ranges::find_if(result.rows, [&](const SweepRow& row) {
    return row.collective == algorithm.collective && row.algorithm == algorithm.name;
  });
  if (known != result.rows.end()) {
    return *known;
  }
  result.rows.push_back({.collective = algorithm.collective, .algorithm = algorithm.name});
  return result.rows.back();
}

void count(const Algorithm& algorithm,
           const Shape& shape,
           const Finding& found,
           SweepResult& result) {
  SweepRow& row = row_of(algorithm, result);
  if (found.outcome == Outcome::kRefused) {
    ++result.refused;
    ++row.refused;
    return;
  }
  ++result.instances;
  row.ranks_first = row.instances == 0 ? shape.ranks : std::min(row.ranks_first, shape.ranks);
  row.ranks_last = std::max(row.ranks_last, shape.ranks);
  ++row.instances;
  const int direct = found.outcome == Outcome::kProvedDirect ? 1 : 0;
  result.direct += direct;
  row.direct += direct;
  result.coded += found.outcome == Outcome::kProvedCoded ? 1 : 0;
  if (found.outcome == Outcome::kFailed) {
    ++result.failed;
    ++row.failed;
    result.failures.push_back({.collective = algorithm.collective,
                               .algorithm = algorithm.name,
                               .ranks = shape.ranks,
                               .root = shape.root,
                               .why = fmt::format("{}: {}", algo::in_words(shape), found.why)});
  }
}

}  // namespace

SweepResult sweep(const SweepRequest& request, const SweepProgress& progress) {
  const std::vector<Instance> instances = list_instances(request);
  SweepResult result;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      row_of(algorithm, result);
    }
  }
  std::mutex mutex;  // guards `result` and `done`
  std::int64_t done = 0;
  std::int64_t total = 0;
  for (const Instance& instance : instances) {
    total += static_cast<std::int64_t>(instance.shapes.size());
  }
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < instances.size(); i = next++) {
      const auto& [algorithm, shapes] = instances[i];
      const Finding first = look_at(*algorithm, shapes.front(), request);
      for (std::size_t s = 0; s < shapes.size(); ++s) {
        const Finding other =
            s == 0 ? Finding{} : look_at_other_root(*algorithm, shapes[s], first, request);
        const std::scoped_lock lock(mutex);
        count(*algorithm, shapes[s], s == 0 ? first : other, result);
        ++done;
        if (progress) {
          progress(done, total);
        }
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
  std::erase_if(result.rows,
                [](const SweepRow& row) { return row.instances == 0 && row.refused == 0; });
  // Smallest first: the easiest one to understand, and the same order on every run.
  std::ranges::sort(result.failures, {}, [](const SweepFailure& failure) {
    return std::tuple(failure.ranks, failure.collective, failure.algorithm, failure.root);
  });
  return result;
}

}  // namespace sennit
