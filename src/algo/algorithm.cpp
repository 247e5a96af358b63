#include "algo/algorithm.hpp"

#include "algo/all_gather/all_gather.hpp"
#include "algo/all_reduce/all_reduce.hpp"
#include "algo/all_to_all/all_to_all.hpp"
#include "algo/barrier/barrier.hpp"
#include "algo/broadcast/broadcast.hpp"
#include "algo/gather/gather.hpp"
#include "algo/given_schedules.hpp"
#include "algo/groups.hpp"
#include "algo/reduce/reduce.hpp"
#include "algo/reduce_scatter/reduce_scatter.hpp"
#include "algo/scatter/scatter.hpp"
#include "algo/send_recv/send_recv.hpp"
#include "schedule/known_lengths.hpp"
#include "schedule/passes.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sennit {
namespace {

Status check_shape(const Algorithm& algorithm, const Shape& shape) {
  const auto wrong = [&](std::string_view reason) {
    return fail(Code::kInvalidArgument,
                "{} {}: {} ranks and root {} make no shape: {}",
                name(algorithm.collective),
                algorithm.name,
                shape.ranks,
                shape.root,
                reason);
  };
  if (shape.ranks < 1) {
    return wrong("there must be at least one rank");
  }
  if (shape.root < 0 || shape.root >= shape.ranks) {
    return wrong("the root must be one of the ranks");
  }
  if (const std::string defect = algo::defect_of_groups(shape); !defect.empty()) {
    return wrong(defect);
  }
  return {};
}

// The fused schedule. A row that builds none is a mistake of its author; the error says which.
Result<Schedule> build(const Algorithm& algorithm, const Shape& shape) {
  const auto wrong = [&](std::string_view reason) {
    return fail(Code::kNotProved,
                "{} {} builds no schedule for {} ranks and root {}: {}",
                name(algorithm.collective),
                algorithm.name,
                shape.ranks,
                shape.root,
                reason);
  };
  if (algorithm.given != nullptr) {
    return *algorithm.given;
  }
  try {
    Schedule schedule = algorithm.build(shape);
    if (const Status structure = check_structure(schedule); !structure.ok()) {
      return wrong(structure.message());
    }
    return fuse(std::move(schedule));
  } catch (const std::out_of_range&) {
    return wrong("it names a rank, a lane or a step that is not there");
  }
}

}  // namespace

std::span<const Algorithm> algorithms(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return algo::all_reduce::table();
    case Collective::kReduce:
      return algo::reduce::table();
    case Collective::kBroadcast:
      return algo::broadcast::table();
    case Collective::kAllGather:
      return algo::all_gather::table();
    case Collective::kReduceScatter:
      return algo::reduce_scatter::table();
    case Collective::kAllToAll:
      return algo::all_to_all::table();
    case Collective::kGather:
      return algo::gather::table();
    case Collective::kScatter:
      return algo::scatter::table();
    case Collective::kBarrier:
      return algo::barrier::table();
    case Collective::kSendRecv:
      return algo::send_recv::table();
  }
  return {};
}

Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name) {
  if (is_name_of_given(name)) {
    return find_given(collective, name);
  }
  const auto rows = algorithms(collective);
  const auto row = std::ranges::find(rows, name, &Algorithm::name);
  if (row != rows.end()) {
    return &*row;
  }
  std::string names;
  for (const Algorithm& known : rows) {
    names += names.empty() ? "" : ", ";
    names += known.name;
  }
  return fail(Code::kInvalidArgument,
              "{} has no algorithm '{}'; there are: {}",
              sennit::name(collective),
              name,
              names);
}

std::string refusal_of(const Algorithm& algorithm, const Shape& shape) {
  if (algorithm.given == nullptr) {
    return std::string(algorithm.refuses(shape));
  }
  const Problem& problem = algorithm.given->problem;
  if (shape.ranks != problem.ranks) {
    return fmt::format("this schedule is for {} ranks", problem.ranks);
  }
  if (is_rooted(problem.collective) && shape.root != problem.root) {
    return fmt::format(
        "this schedule is for root {}, and the call has root {}", problem.root, shape.root);
  }
  return problem.varying && !shape.varying ? "this schedule is for blocks that vary in length" : "";
}

Result<Schedule> make_schedule(const Algorithm& algorithm, const Shape& shape) {
  SENNIT_RETURN_IF_ERROR(check_shape(algorithm, shape));
  if (const std::string reason = refusal_of(algorithm, shape); !reason.empty()) {
    return fail(Code::kUnsupported,
                "{} {} cannot run {} ranks: {}",
                name(algorithm.collective),
                algorithm.name,
                shape.ranks,
                reason);
  }
  SENNIT_ASSIGN_OR_RETURN(Schedule schedule, build(algorithm, shape));
  if (!shape.varying) {
    return schedule;
  }
  schedule.problem.varying = true;
  if (const Status known = check_known_lengths(schedule); !known.ok()) {
    return fail(Code::kUnsupported,
                "{} {} cannot run where the lengths of blocks vary: {}",
                name(algorithm.collective),
                algorithm.name,
                known.message());
  }
  return schedule;
}

}  // namespace sennit
