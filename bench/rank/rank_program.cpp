#include "rank_program.h"

#include "contest.hpp"
#include "measure.hpp"
#include "report.hpp"

#include <sched.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>

namespace sennit::bench {
namespace {

// Ranks go to the cores that the process may use, round and round.
void pin_to_core(int rank) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  int skip = rank % std::max(1, CPU_COUNT(&allowed));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && skip-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      ::sched_setaffinity(0, sizeof(one), &one);
      return;
    }
  }
}

void check_order(const WorkOrder& order, int ranks) {
  if (order.kind == Kind::kSendRecv && ranks < 2) {
    exit_with_error(2, "send_recv needs at least two ranks");
  }
  if (order.pair && (order.kind != Kind::kSendRecv || order.pair->first == order.pair->second ||
                     std::min(order.pair->first, order.pair->second) < 0 ||
                     std::max(order.pair->first, order.pair->second) >= ranks)) {
    exit_with_error(2, "a pair is two different ranks, and only send_recv has one");
  }
  if (order.in_place && order.kind == Kind::kSendRecv) {
    exit_with_error(2, "send_recv has no in-place form");
  }
  if (order.root >= ranks) {
    exit_with_error(2,
                    "root " + std::to_string(order.root) + " is not a rank; the ranks are 0 to " +
                        std::to_string(ranks - 1));
  }
}

// The ranks of one job, and what they share.
struct Ranks {
  sennit_comm_t comm = nullptr;
  int rank = 0;
  int size = 0;
  std::optional<Rival> rival;
  std::optional<StartLine> start_line;
  bool has_row = false;
};

std::uint64_t run_order(const WorkOrder& order, const TimeLimit& limit, Ranks& ranks) {
  std::size_t largest = 64;
  for (const std::size_t bytes : order.sizes) {
    largest = std::max(largest, row_size(order, ranks.size, bytes).bytes);
  }
  Buffers buffers(order, ranks.rank, ranks.size, largest);
  std::uint64_t wrong = 0;
  const auto finish = [&](const Row& row) {
    wrong += row.wrong + row.rival_wrong;
    if (ranks.rank == 0) {
      const std::string version = ranks.rival ? ranks.rival->version() : "";
      std::cout << to_json(order, ranks.size, row, version) << '\n' << std::flush;
    }
  };
  for (int cycle = 0; cycle < order.cycles; ++cycle) {
    Measure measure(
        order, limit, ranks.comm, ranks.rival ? &*ranks.rival : nullptr, *ranks.start_line);
    Contest contest(order);
    for (const std::size_t bytes : order.sizes) {
      // One row there is in any case.
      if (ranks.has_row && measure.is_over()) {
        return wrong;
      }
      ranks.has_row = true;
      const RowSize size = row_size(order, ranks.size, bytes);
      if (order.tries.empty()) {
        finish(measure.run(buffers, size));
      } else {
        contest.run(measure, buffers, size, finish);
      }
    }
  }
  return wrong;
}

std::uint64_t run(const Job& job) {
  Ranks ranks;
  check(sennit_comm_init_env(&ranks.comm, nullptr));
  check(sennit_comm_rank(ranks.comm, &ranks.rank));
  check(sennit_comm_size(ranks.comm, &ranks.size));
  for (const WorkOrder& order : job.orders) {
    check_order(order, ranks.size);
  }
  if (!job.rival.empty()) {
    // Before this rank is pinned: the rival sets itself up as it would anywhere.
    ranks.rival.emplace(job, ranks.rank, ranks.size);
  }
  if (!job.orders.empty() && job.orders.front().pin) {
    pin_to_core(ranks.rank);
  }
  ranks.start_line.emplace(ranks.comm, ranks.rank, ranks.size);
  std::uint64_t wrong = 0;
  const TimeLimit limit{.seconds = job.max_seconds};
  for (const WorkOrder& order : job.orders) {
    wrong += run_order(order, limit, ranks);
  }
  check(sennit_barrier(ranks.comm, nullptr, nullptr));
  check(sennit_comm_destroy(ranks.comm));
  return wrong;
}

}  // namespace
}  // namespace sennit::bench

int sennit_rank_main(const char* job_file) {
  return sennit::bench::run(sennit::bench::read_job(job_file)) == 0 ? 0 : 1;
}
