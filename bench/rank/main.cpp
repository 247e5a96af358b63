// sennit-rank: one rank of a benchmark. Reads a work order from standard input, joins the other
// ranks by the environment, and times the calls it is told to; rank 0 prints a JSON object a row.
// Exit codes: 0 done, 1 wrong data, 2 bad usage, 3 a rank failed or a deadline passed.
#include "contest.hpp"

#include <nlohmann/json.hpp>

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>

namespace sennit::bench {
namespace {

using Json = nlohmann::ordered_json;

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

// The value below which `share` of the samples lie.
double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(last * share))];
}

Json to_json(const WorkOrder& order, int ranks, const Row& row) {
  const Json plan = Json::parse(row.plan);
  const double p50 = quantile(row.call_us, 0.5);
  const double messages = order.kind == Kind::kSendRecv ? order.window : 1;
  const double algbw = static_cast<double>(row.size.bytes) * messages / p50 / 1e3;
  return {{"collective", order.collective},
          {"algorithm", plan.at("algorithm")},
          {"executor", "host"},
          {"ranks", ranks},
          {"dtype", order.dtype_name},
          {"op", order.op_name},
          {"bytes", row.size.bytes},
          {"mode", "call"},
          {"in_place", order.in_place},
          {"registered", false},
          {"root", order.root < 0 ? Json("rotate") : Json(order.root)},
          {"protocol", plan.at("protocol")},
          {"paths", plan.at("paths")},
          {"tile_bytes", plan.at("tile_bytes")},
          {"sm_count", 0},
          {"samples", row.call_us.size()},
          {"calls_per_sample", row.calls_per_sample},
          {"time_us",
           {{"min", row.call_us.front()}, {"p50", p50}, {"p95", quantile(row.call_us, 0.95)}}},
          {"algbw_GBps", algbw},
          {"busbw_GBps", algbw * bus_factor(order, ranks)},
          {"wrong", row.wrong},
          {"predicted_us", nullptr},
          {"rivals", Json::array()},
          {"rival", nullptr},
          {"ratio", nullptr}};
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
    exit_with_error(2, "the root is not a rank");
  }
}

std::uint64_t run(const WorkOrder& order) {
  sennit_comm_t comm = nullptr;
  check(sennit_comm_init_env(&comm, nullptr));
  int rank = 0;
  int ranks = 0;
  check(sennit_comm_rank(comm, &rank));
  check(sennit_comm_size(comm, &ranks));
  check_order(order, ranks);
  if (order.pin) {
    pin_to_core(rank);
  }
  std::size_t largest = 64;
  for (const std::size_t bytes : order.sizes) {
    largest = std::max(largest, row_size(order, ranks, bytes).bytes);
  }
  Buffers buffers(order, rank, ranks, largest);
  Measure measure(order, comm, rank, ranks);
  std::uint64_t wrong = 0;
  const auto finish = [&](const Row& row, int number) {
    wrong += row.wrong;
    if (rank == 0) {
      Json json = to_json(order, ranks, row);
      if (number >= 0) {
        json["try"] = number;
      }
      std::cout << json.dump() << '\n' << std::flush;
    }
  };
  Contest contest(order);
  for (int cycle = 0; cycle < order.cycles; ++cycle) {
    contest.restart();
    for (const std::size_t bytes : order.sizes) {
      const RowSize size = row_size(order, ranks, bytes);
      if (order.tries.empty()) {
        finish(measure.run(buffers, size), -1);
      } else {
        contest.run(measure, buffers, size, finish);
      }
    }
  }
  check(sennit_barrier(comm, nullptr, nullptr));
  check(sennit_comm_destroy(comm));
  return wrong;
}

}  // namespace
}  // namespace sennit::bench

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  return sennit::bench::run(sennit::bench::read_work_order(text)) == 0 ? 0 : 1;
}
