// The whole failure matrix: every algorithm of the tables, over both protocols, on 2 to 5 ranks,
// and on ranks of several nodes; every rank, killed and stopped, at every step and inside every
// step; a sample of the stops goes on. docs/adding/testing_failures.md has the command and a table
// of a run.
#include "leaves_nothing.hpp"
#include "node_processes.hpp"
#include "rank_processes.hpp"

#include "failure_matrix/fault_case.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::array kFaults = {Fault::kKill, Fault::kStop, Fault::kStopAndGoOn};
// Of the moments, one in so many also for "stop and go on", and for a stop on several nodes, which
// takes seconds.
constexpr int kGoOnStride = 8;
constexpr int kStopOnNodesStride = 4;
constexpr std::size_t kMostReturns = 4'000'000;

struct Options {
  std::vector<int> ranks = {2, 3, 4, 5};
  std::vector<std::string_view> nodes = {"ab", "aabb", "aaab", "abc"};
  std::string_view only;  // part of a subject's name
  int shard = 0;
  int shards = 1;
  int kill_workers = 0;  // 0: by the number of cores
  int stop_workers = 0;
};

// One victim of one subject: its moments are tried one after the other, until one lies behind the
// end of the call.
struct Walk {
  std::size_t subject = 0;
  Fault fault = Fault::kKill;
  int victim = 0;
};

// What the workers, which are processes, have seen. Only so much of it is ever touched as is used.
struct Ledger {
  struct Count {
    std::atomic<int> cases{0};
    std::atomic<int> complaints{0};
  };
  struct Return {
    std::size_t subject = 0;
    Fault fault = Fault::kNone;
    double seconds = 0;
  };

  std::atomic<std::size_t> next_walk{0};
  std::array<std::array<Count, 4>, 1024> counts;  // by subject and fault
  std::atomic<std::size_t> return_count{0};
  std::array<Return, kMostReturns> returns;

  [[nodiscard]] std::span<const Return> all_returns() const {
    return {returns.data(), std::min(return_count.load(), kMostReturns)};
  }
};

Ledger& shared_ledger() {
  // Zeroed memory is a valid ledger; to construct it would touch all of it.
  static void* const kMemory = ::mmap(nullptr,
                                      sizeof(Ledger),
                                      PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                                      -1,
                                      0);
  return *static_cast<Ledger*>(kMemory);
}

void note(Ledger& ledger, std::size_t subject, Fault fault, const CaseResult& result) {
  Ledger::Count& count = ledger.counts[subject][static_cast<std::size_t>(fault)];
  count.cases.fetch_add(1);
  count.complaints.fetch_add(result.complaints.empty() ? 0 : 1);
  for (const double seconds : result.seconds) {
    const std::size_t at = ledger.return_count.fetch_add(1);
    if (at < kMostReturns) {
      ledger.returns[at] = {.subject = subject, .fault = fault, .seconds = seconds};
    }
  }
  for (const std::string& complaint : result.complaints) {
    fmt::print("{}\n", complaint);
    std::fflush(stdout);
  }
}

void take(const Walk& walk, const std::vector<Subject>& subjects, Ledger& ledger) {
  FaultCase one{.subject = subjects[walk.subject], .fault = walk.fault, .victim = walk.victim};
  const bool is_on_nodes = !one.subject.nodes.empty();
  const int stride = walk.fault == Fault::kStopAndGoOn           ? kGoOnStride
                     : is_on_nodes && walk.fault == Fault::kStop ? kStopOnNodesStride
                                                                 : 1;
  for (one.moment = walk.victim % stride;; one.moment += stride) {
    const CaseResult result = run(one);
    note(ledger, walk.subject, walk.fault, result);
    if (!result.struck) {
      return;
    }
  }
}

// Forks `workers` processes that share the walks, and waits for them.
void take_all(const std::vector<Walk>& walks,
              const std::vector<Subject>& subjects,
              int workers,
              Ledger& ledger) {
  ledger.next_walk = 0;
  std::fflush(nullptr);
  std::vector<pid_t> pids;
  for (int worker = 0; worker < workers; ++worker) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (std::size_t k = ledger.next_walk++; k < walks.size(); k = ledger.next_walk++) {
        take(walks[k], subjects, ledger);
      }
      ::_exit(0);
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) {
      fmt::print("a worker ended with status {}\n", status);
      ++ledger.counts[0][0].complaints;
    }
  }
}

// Those of subjects on one node or on several.
std::vector<Walk> walks_of(Fault fault,
                           bool on_nodes,
                           const std::vector<Subject>& subjects,
                           const Options& options) {
  std::vector<Walk> walks;
  std::size_t number = 0;
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    for (int victim = 0; victim < subjects[s].ranks; ++victim, ++number) {
      if (number % static_cast<std::size_t>(options.shards) ==
              static_cast<std::size_t>(options.shard) &&
          subjects[s].nodes.empty() != on_nodes) {
        walks.push_back({.subject = s, .fault = fault, .victim = victim});
      }
    }
  }
  return walks;
}

std::vector<Subject> wanted_subjects(const Options& options) {
  std::vector<Subject> wanted;
  for (const int ranks : options.ranks) {
    std::ranges::copy(subjects(ranks), std::back_inserter(wanted));
  }
  if (!options.nodes.empty() && !why_no_ucx().empty()) {
    fmt::print("LEFT OUT: ranks on several nodes: {}\n", why_no_ucx());
  } else {
    for (const std::string_view nodes : options.nodes) {
      std::ranges::copy(subjects_on(nodes), std::back_inserter(wanted));
    }
  }
  std::erase_if(wanted, [&](const Subject& subject) {
    return subject.name().find(options.only) == std::string::npos;
  });
  return wanted;
}

// Those that work here undisturbed, which a run of each has shown. What is wrong without any fault
// counts as a complaint of its own.
std::vector<Subject> possible_subjects(const Options& options, Ledger& ledger) {
  std::vector<Subject> possible;
  for (const Subject& subject : wanted_subjects(options)) {
    const CaseResult result = run({.subject = subject});
    if (result.refused) {
      fmt::print("refused: {}\n", subject.name());
      continue;
    }
    possible.push_back(subject);
    note(ledger, possible.size() - 1, Fault::kNone, result);
  }
  return possible;
}

// ---- The table

struct Row {
  std::array<int, 4> cases{};  // by fault
  int complaints = 0;
  std::vector<double> kill_s;
  std::vector<double> stop_s;
};

std::string times(std::vector<double> seconds) {
  if (seconds.empty()) {
    return "      -       -";
  }
  std::ranges::sort(seconds);
  return fmt::format("{:7.3f} {:7.3f}", seconds[seconds.size() * 99 / 100], seconds.back());
}

void print_row(const std::string& name, const Row& row) {
  fmt::print("{:<44} {:>6} {} {:>6} {} {:>6} {:>10}\n",
             name,
             row.cases[1],
             times(row.kill_s),
             row.cases[2],
             times(row.stop_s),
             row.cases[3],
             row.complaints);
}

int print_table(const std::vector<Subject>& subjects, const Ledger& ledger) {
  std::map<std::string, Row> rows;
  Row total;
  const auto row_of = [&](std::size_t s) -> Row& {
    const Subject& subject = subjects[s];
    return rows[fmt::format("{} {}, {}",
                            sennit::name(subject.algorithm->collective),
                            subject.algorithm->name,
                            subject.nodes.empty() ? subject.protocol : "rails")];
  };
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    for (std::size_t fault = 0; fault < total.cases.size(); ++fault) {
      const Ledger::Count& count = ledger.counts[s][fault];
      for (Row* row : {&row_of(s), &total}) {
        row->cases[fault] += count.cases;
        row->complaints += count.complaints;
      }
    }
  }
  for (const Ledger::Return& each : ledger.all_returns()) {
    for (Row* row : {&row_of(each.subject), &total}) {
      (each.fault == Fault::kKill ? row->kill_s : row->stop_s).push_back(each.seconds);
    }
  }
  fmt::print("{:<44} {:>6} {:>7} {:>7} {:>6} {:>7} {:>7} {:>6} {:>10}\n",
             "algorithm, protocol",
             "kill",
             "p99 s",
             "max s",
             "stop",
             "p99 s",
             "max s",
             "go on",
             "complaints");
  for (const auto& [name, row] : rows) {
    print_row(name, row);
  }
  print_row("all", total);
  return total.complaints;
}

// ---- The command line

bool read_pair(std::string_view text, char between, int& first, int& second) {
  const char* end = text.data() + text.size();
  const auto [middle, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc() || middle == end || *middle != between) {
    return false;
  }
  const auto [rest, second_error] = std::from_chars(middle + 1, end, second);
  return second_error == std::errc() && rest == end;
}

// "aabb,abc"; "none": nothing.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty() && text != "none") {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

bool read_options(std::span<char* const> arguments, Options& options) {
  for (std::size_t k = 1; k + 1 < arguments.size(); k += 2) {
    const std::string_view name = arguments[k];
    const std::string_view value = arguments[k + 1];
    int first = 0;
    int second = 0;
    if (name == "--only") {
      options.only = value;
    } else if (name == "--nodes") {
      options.nodes = parts_of(value);
    } else if (name == "--ranks" && value == "none") {
      options.ranks.clear();
    } else if (name == "--ranks" && read_pair(value, ':', first, second) && first >= 2 &&
               second <= 8) {
      options.ranks.clear();
      for (int ranks = first; ranks <= second; ++ranks) {
        options.ranks.push_back(ranks);
      }
    } else if (name == "--shard" && read_pair(value, '/', first, second) && first >= 0 &&
               first < second) {
      options.shard = first;
      options.shards = second;
    } else if (name == "--workers" && read_pair(value, ',', first, second) && first > 0 &&
               second > 0) {
      options.kill_workers = first;
      options.stop_workers = second;
    } else {
      return false;
    }
  }
  return arguments.size() % 2 == 1;
}

int print_left_over(const std::set<std::string>& before) {
  const std::set<std::string> left = left_since(before);
  for (const std::string& name : left) {
    fmt::print("left behind: {}\n", name);
  }
  return static_cast<int>(left.size());
}

int run_matrix(Options options) {
  const std::set<std::string> before = all_names();
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // A kill is work for the cores; a stop is waiting for the deadline. Who waits for a rank of
  // another node sleeps for a few milliseconds only.
  options.kill_workers = options.kill_workers > 0 ? options.kill_workers : cores;
  options.stop_workers = options.stop_workers > 0 ? options.stop_workers : 12 * cores;
  const int stop_workers_on_nodes = std::min(options.stop_workers, 4 * cores);
  Ledger& ledger = shared_ledger();
  const std::vector<Subject> subjects = possible_subjects(options, ledger);
  for (const Fault fault : kFaults) {
    const double begin = now();
    for (const bool on_nodes : {false, true}) {
      const int workers = fault == Fault::kKill ? options.kill_workers
                          : on_nodes            ? stop_workers_on_nodes
                                                : options.stop_workers;
      take_all(walks_of(fault, on_nodes, subjects, options), subjects, workers, ledger);
    }
    fmt::print("{}: {:.0f} s\n",
               fault == Fault::kKill   ? "kills"
               : fault == Fault::kStop ? "stops"
                                       : "stops that go on",
               now() - begin);
  }
  const int complaints = print_table(subjects, ledger);
  return print_left_over(before) + complaints == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sennit::tests

int main(int argc, char** argv) {
  sennit::tests::Options options;
  if (!sennit::tests::read_options({argv, static_cast<std::size_t>(argc)}, options)) {
    fmt::print(
        "usage: sennit_failure_matrix [--ranks 2:5] [--nodes ab,aabb,aaab,abc] [--only TEXT] "
        "[--shard 0/4] [--workers KILL,STOP]; --ranks none, --nodes none\n");
    return 2;
  }
  return sennit::tests::run_matrix(std::move(options));
}
