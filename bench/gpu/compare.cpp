// compare: times Sennit's collectives on GPU memory against NCCL's, in the same processes, on the
// same GPUs, sample by sample in turn. Where there are more ranks than GPUs, which NCCL refuses,
// against copies through host memory (staged.hpp).
//
//   sennit-compare --ranks 4 --nccl /path/libnccl.so.2 --mode graph|stream|call   (and --help)
//
// A process a rank. A sample is a batch of calls, in a graph or on a stream, started together by a
// barrier in shared memory and timed by events; its time is the maximum over the ranks, divided by
// the calls. A row is printed as one JSON object a line; its sm_count is of the rank that takes
// most. NCCL runs twice: as it comes, on memory of cudaMalloc, and with symmetric windows on memory
// of ncclMemAlloc. NVLink multicast is off for both. Sennit works on memory of cudaMalloc, or, with
// --registered yes, as NCCL then does, on that of the windows, which both have registered. In a
// send_recv each rank sends to the next, or one rank of a pair to the other (or both), N messages
// at once. With --against engines, rows of 1 MB and more (of a send_recv: 64 KB) also time Sennit's
// ways one against the other, packets with and without flags, puts and copy engines, where these
// can run a call, and small all_reduces and all_gathers kernels that are written for that one case
// (hand.hpp); with --against shares, rows of 16 MB and more (of a send_recv: 1 MB) its copy engines
// with several shares of the message, in percent, through host memory beside NVLink, or with those
// of --share, or over one path alone; in a stream also messages whose share follows the load. With
// --sm-budget B kernels have B thread blocks for each direction, Sennit's and NCCL's, and a message
// goes over NVLink by such kernels. With a load a row has a sample's calls alone, a load
// alone (as much as takes as long as Sennit's calls), and both, started together.
#include "compare_calls.hpp"
#include "compare_options.hpp"
#include "compare_require.hpp"
#include "compare_rows.hpp"
#include "compare_shared.hpp"
#include "compare_timer.hpp"
#include "compare_variants.hpp"
#include "different_elements.hpp"
#include "hand.hpp"
#include "launched_blocks.hpp"
#include "load.hpp"
#include "nccl.hpp"
#include "staged.hpp"

#include "sennit/sennit.h"

#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using sennit_bench::Call;
using sennit_bench::Gpus;
using sennit_bench::Options;
using sennit_bench::require;
using sennit_bench::Rival;
using sennit_bench::Rivals;
using sennit_bench::Row;
using sennit_bench::Shared;
using sennit_bench::Timed;
using sennit_bench::Variant;

// Buffers repeat a pattern of random numbers; larger outputs are compared at both ends.
constexpr std::size_t kPatternBytes = std::size_t{64} << 20;
constexpr std::size_t kComparedElements = std::size_t{8} << 20;

constexpr int kUnitsOfTrial = 8;

// NCCL refuses two ranks of one GPU.
std::unique_ptr<Rival> rival_of(const Options& options, const Gpus& gpus) {
  if (gpus.are_shared_by(options.ranks)) {
    return std::make_unique<sennit_bench::Staged>();
  }
  return std::make_unique<sennit_bench::Nccl>(options.nccl);
}

struct Buffers {
  float* send = nullptr;
  float* recv = nullptr;
};

class Rank {
 public:
  Rank(const Options& options, const Gpus& gpus, Shared& shared, int rank)
      : options_(options),
        gpus_(gpus),
        shared_(shared),
        rank_(rank),
        exchange_(sennit_bench::exchange_of(options, rank)),
        rival_(rival_of(options, gpus)),
        hand_(rank, options.ranks),
        timer_(options, shared, rank, rank % gpus.count) {
    join();
    allocate();
    if (!options_.load.empty()) {
      load_ = sennit_bench::load_of(options_.load, options_.cublas, options_.load_sms);
    }
  }

  void run(const Row& row) {
    timer_.now_does(row.collective + " of " + std::to_string(row.bytes) + " bytes");
    const Call ours = [&] {
      return sennit_call(
          row, mine(), {.name = "sennit", .path = options_.path, .protocol = options_.protocol});
    };
    const Call plain = [&] { return rival_->call(row.collective, args(row, plain_)); };
    const Call windows = [&] { return rival_->call(row.collective, args(row, registered_)); };
    const bool has_window = row.collective == "send_recv";
    const int calls =
        calls_per_sample(row.bytes * (has_window ? static_cast<std::size_t>(exchange_.window) : 1));
    std::vector<Timed> contestants;
    contestants.push_back(timer_.prepare("sennit", ours, calls));
    shared_.wrong[rank_] = 0;  // all have come here, so that of the row before has been read
    const bool has_graphs = rival_->has_graphs();
    if (options_.rivals != Rivals::kWindows) {
      contestants.push_back(timer_.prepare(rival_->name(), plain, calls, has_graphs));
    }
    if (options_.rivals != Rivals::kPlain) {
      const std::string name = std::string(rival_->name()) + " windows";
      contestants.push_back(timer_.prepare(name, windows, calls, has_graphs));
    }
    // On the buffers that ours leaves free.
    const Call& reference = is_registered() ? plain : windows;
    check(row, contestants.front(), reference);
    count_blocks(ours);
    for (const Variant& variant : sennit_bench::variants_of(options_, row.collective, row.bytes)) {
      const Call engine = [this, &row, variant] { return sennit_call(row, mine(), variant); };
      contestants.push_back(timer_.prepare(variant.name, engine, calls));
      check(row, contestants.back(), reference);
    }
    if (has_hand_ && sennit_bench::Hand::can_run(row.collective, row.count)) {
      const Call hand = [&] {
        return hand_.call(row.collective, mine().send, mine().recv, row.count, timer_.stream()) ==
               cudaSuccess;
      };
      contestants.push_back(timer_.prepare("hand", hand, calls));
      check(row, contestants.back(), reference);
    }
    for (int sample = -options_.warmup; sample < options_.samples; ++sample) {
      for (Timed& contestant : contestants) {
        timer_.now_does(row.collective + " of " + std::to_string(row.bytes) + " bytes, " +
                        contestant.name);
        if (options_.mode == "call") {
          timer_.time_calls(contestant, calls, sample < 0);
          continue;
        }
        const double us = timer_.time(contestant, calls);
        if (sample >= 0) {
          contestant.us.push_back(us);
        }
      }
    }
    if (rank_ == 0) {
      print(row, contestants, calls);
    }
    timer_.destroy(contestants);
  }

  void run_overlapped(const Row& row) {
    timer_.now_does(row.collective + " of " + std::to_string(row.bytes) + " bytes with a load");
    const Call ours = [&] {
      return sennit_call(
          row, mine(), {.name = "sennit", .path = options_.path, .protocol = options_.protocol});
    };
    const Call plain = [&] { return rival_->call(row.collective, args(row, plain_)); };
    const Call windows = [&] { return rival_->call(row.collective, args(row, registered_)); };
    const int calls = calls_overlapped(row.bytes);
    std::vector<Timed> timed{timer_.prepare("sennit", ours, calls)};
    shared_.wrong[rank_] = 0;
    timed.push_back(timer_.prepare(rival_->name(), plain, calls, rival_->has_graphs()));
    check(row, timed.front(), windows);
    count_blocks(ours);
    const Call unit = [this] { return load_->run(timer_.stream()); };
    const Call overlapped_unit = [this] { return load_->run(timer_.load_stream()); };
    const double unit_us =
        timer_.time(timer_.prepare("a load", unit, kUnitsOfTrial), kUnitsOfTrial);
    const double calls_us = timer_.time(timed.front(), calls) * calls;
    const int units = std::max(1, static_cast<int>(calls_us / unit_us + 0.5));
    timed.push_back(timer_.prepare("the load", unit, units));
    sennit_bench::OverlapOutcome outcome{
        .contestants = {{.name = timed[0].name}, {.name = timed[1].name}},
        .load_us = {},
        .calls = calls,
        .units = units,
        .sms = *std::max_element(shared_.sms, shared_.sms + options_.ranks)};
    for (int sample = -options_.warmup; sample < options_.samples; ++sample) {
      timer_.now_does(row.collective + " of " + std::to_string(row.bytes) + " bytes with a load");
      const double load_us = timer_.time(timed[2], units) * units;
      for (std::size_t i = 0; i < outcome.contestants.size(); ++i) {
        const double alone_us = timer_.time(timed[i], calls) * calls;
        const double both_us = timer_.time_both(timed[i], calls, timed[2], overlapped_unit, units);
        if (sample >= 0) {
          outcome.contestants[i].alone_us.push_back(alone_us);
          outcome.contestants[i].both_us.push_back(both_us);
        }
      }
      if (sample >= 0) {
        outcome.load_us.push_back(load_us);
      }
    }
    outcome.wrong = wrong_of_all();
    if (rank_ == 0) {
      std::cout << sennit_bench::line_of(options_, row, outcome) << '\n' << std::flush;
    }
    timer_.destroy(timed);
  }

  // Whether every output was right, as far as this rank knows: rank 0 knows of all.
  [[nodiscard]] bool leave() {
    shared_.barrier(options_.ranks);
    require(sennit_comm_destroy(comm_), "destroy");
    return !has_wrong_;
  }

 private:
  void join() {
    setenv("SENNIT_RANK", std::to_string(rank_).c_str(), 1);
    setenv("SENNIT_SIZE", std::to_string(options_.ranks).c_str(), 1);
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.device = "cuda";
    config.deadline_s = 10;
    require(sennit_comm_init_env(&comm_, &config), "joining");
    timer_.watch(comm_);
    if (rank_ == 0) {
      rival_->make_id(&shared_.id);
    }
    has_hand_ = options_.against == "engines" && !gpus_.are_shared_by(options_.ranks) &&
                hand_.is_for_these_ranks();
    if (has_hand_) {
      require(hand_.allocate(&shared_.hand[rank_]), "memory of the kernels by hand");
    }
    shared_.barrier(options_.ranks);
    rival_->join(options_.ranks, rank_, shared_.id, timer_.stream());
    if (has_hand_) {
      require(hand_.open(shared_.hand), "memory of the kernels by hand");
    }
  }

  void allocate() {
    const std::size_t bytes = sennit_bench::buffer_bytes(options_);
    std::vector<float> random(std::min(bytes, kPatternBytes) / sizeof(float));
    std::mt19937 engine(static_cast<unsigned>(rank_ + 1));
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    std::ranges::generate(random, [&] { return values(engine); });
    for (float** buffer : {&plain_.send, &plain_.recv}) {
      require(cudaMalloc(buffer, bytes), "cudaMalloc");
    }
    for (float** buffer : {&registered_.send, &registered_.recv}) {
      *buffer = static_cast<float*>(rival_->allocate(bytes));
      void* handle = nullptr;
      require(!is_registered() ||
                  sennit_comm_register_symmetric(comm_, *buffer, bytes, &handle) == SENNIT_OK,
              "registering");
    }
    for (float* buffer : {plain_.send, registered_.send}) {
      for (std::size_t at = 0; at < bytes; at += kPatternBytes) {
        require(cudaMemcpy(reinterpret_cast<char*>(buffer) + at,
                           random.data(),
                           std::min(kPatternBytes, bytes - at),
                           cudaMemcpyDefault),
                "cudaMemcpy");
      }
    }
  }

  sennit_bench::CallArgs args(const Row& row, const Buffers& buffers) const {
    return {.send = buffers.send, .recv = buffers.recv, .count = row.count, .exchange = &exchange_};
  }

  // Whether Sennit, too, works on what is registered.
  bool is_registered() const { return options_.rivals == Rivals::kWindows; }
  const Buffers& mine() const { return is_registered() ? registered_ : plain_; }

  bool sennit_call(const Row& row, const Buffers& b, const Variant& variant) {
    sennit_call_options_t call = SENNIT_CALL_OPTIONS_INITIALIZER;
    call.path = variant.path.empty() ? nullptr : variant.path.c_str();
    call.protocol = variant.protocol.empty() ? nullptr : variant.protocol.c_str();
    call.codec = options_.codec.empty() ? nullptr : options_.codec.c_str();
    call.algorithm = options_.algorithm.empty() ? nullptr : options_.algorithm.c_str();
    return sennit_bench::call_sennit(row.collective, args(row, b), call, comm_, timer_.stream());
  }

  // So many that what a program's calls pay once, when it has nothing under way, counts for little.
  static int calls_per_sample(std::size_t bytes) {
    return bytes <= (1U << 20) ? 20 : bytes <= (64U << 20) ? 8 : bytes <= (1U << 30) ? 4 : 1;
  }

  // What takes a millisecond or more, where a product takes a fifth of one.
  static int calls_overlapped(std::size_t bytes) {
    return static_cast<int>(
        std::clamp((std::size_t{512} << 20) / bytes, std::size_t{2}, std::size_t{64}));
  }

  // Of one of our calls, as CUDA is given it. It is run as well: what one rank captures, all do.
  void count_blocks(const Call& ours) {
    cudaGraph_t const graph = timer_.captured("sennit", ours, 1);
    cudaGraphExec_t call = nullptr;
    require(cudaGraphInstantiate(&call, graph, 0), "instantiate");
    require(cudaGraphLaunch(call, timer_.stream()), "graph launch");
    require(cudaStreamSynchronize(timer_.stream()), "graph launch");
    shared_.sms[rank_] = sennit_bench::sms_of(graph, rank_ % gpus_.count);
    require(cudaGraphExecDestroy(call), "graph");
    require(cudaGraphDestroy(graph), "graph");
    shared_.barrier(options_.ranks);
  }

  // Both libraries' outputs on the same input, of what is timed and of one call.
  void check(const Row& row, const Timed& ours, const Call& theirs) {
    if (!options_.check) {
      return;
    }
    const bool each = row.collective == "all_gather" || row.collective == "all_to_all";
    const std::size_t n = row.count * (each ? static_cast<std::size_t>(options_.ranks) : 1);
    for (float* recv : {registered_.recv, plain_.recv}) {
      require(cudaMemset(recv, 0xff, n * sizeof(float)), "poison");
    }
    require(cudaDeviceSynchronize(), "poison");
    shared_.barrier(options_.ranks);
    timer_.start(ours, 1);
    require(theirs(), "the checked calls failed");
    require(cudaStreamSynchronize(timer_.stream()), "the checked calls");
    const std::size_t part = std::min(n, kComparedElements);
    // Sums of numbers below one, in different orders; what is only moved must be equal.
    const bool sums = row.collective == "all_reduce" || row.collective == "reduce_scatter" ||
                      row.collective == "reduce";
    const bool has_output = row.collective != "reduce" || rank_ == 0;
    std::uint64_t wrong = 0;
    if (!options_.codec.empty()) {
      error_ = has_output ? sennit_bench::relative_error(registered_.recv, plain_.recv, part) : 0;
      shared_.barrier(options_.ranks);
      return;
    }
    for (const std::size_t begin : {std::size_t{0}, n - part}) {
      wrong += has_output ? sennit_bench::count_different(
                                registered_.recv + begin, plain_.recv + begin, part, sums)
                          : 0;
    }
    if (wrong != 0) {
      std::cerr << "compare: " << wrong << " wrong elements of " << ours.name << " in a "
                << row.collective << " of " << row.bytes << " bytes at rank " << rank_ << '\n';
    }
    shared_.wrong[rank_] += wrong;
    shared_.barrier(options_.ranks);
  }

  std::uint64_t wrong_of_all() {
    const std::uint64_t wrong =
        std::accumulate(shared_.wrong, shared_.wrong + options_.ranks, std::uint64_t{0});
    has_wrong_ = has_wrong_ || wrong != 0;
    return wrong;
  }

  void print(const Row& row, const std::vector<Timed>& contestants, int calls) {
    const std::uint64_t wrong = wrong_of_all();
    const sennit_bench::Outcome outcome{
        .contestants = {contestants.begin(), contestants.end()},
        .calls = calls,
        .sms = *std::max_element(shared_.sms, shared_.sms + options_.ranks),
        .wrong = wrong,
        .error = error_};
    std::cout << sennit_bench::line_of(options_, gpus_, row, outcome) << '\n' << std::flush;
  }

  const Options& options_;
  Gpus gpus_;
  Shared& shared_;
  int rank_;
  sennit_bench::Exchange exchange_;
  std::unique_ptr<Rival> rival_;
  sennit_bench::Hand hand_;
  bool has_hand_ = false;
  sennit_bench::SampleTimer timer_;
  sennit_comm_t comm_ = nullptr;
  std::unique_ptr<sennit_bench::Load> load_;  // where one is wanted
  Buffers plain_;
  Buffers registered_;
  bool has_wrong_ = false;
  double error_ = 0;  // of the last row, by a codec
};

bool run_rank(Options options, Shared& shared, int rank) {
  const Gpus gpus = sennit_bench::find_gpus();
  if (gpus.are_shared_by(options.ranks)) {
    require(options.rivals != Rivals::kWindows,
            "--registered yes is memory of NCCL, which refuses more ranks than GPUs");
    options.rivals = Rivals::kPlain;
  }
  if (gpus.count == 1) {
    options.direct = "device";
  }
  Rank self(options, gpus, shared, rank);
  for (const Row& row : sennit_bench::rows_of(options)) {
    options.load.empty() ? self.run(row) : self.run_overlapped(row);
  }
  return self.leave();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = sennit_bench::parse_options(argc, argv);
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  auto* const shared = new (memory) Shared;
  if (options.sm_budget > 0) {
    // A send and a recv have half of a call's blocks each.
    setenv("SENNIT_DEVICE_BLOCKS", std::to_string(2 * options.sm_budget).c_str(), 1);
    setenv("NCCL_MAX_CTAS", std::to_string(options.sm_budget).c_str(), 1);
  }
  setenv("NCCL_NVLS_ENABLE", "0", 1);  // multicast, which ours does not use
  setenv("SENNIT_KEY", ("compare-" + std::to_string(getpid())).c_str(), 1);
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
      require(run_rank(options, *shared, rank), "outputs differ from the rival's, as said above");
      std::_Exit(0);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (std::size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    wait(&status);
    if (status != 0 && worst == 0) {
      worst = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
      for (const pid_t child : children) {
        kill(child, SIGKILL);  // they would wait for the one that failed; it has said why
      }
    }
  }
  return worst;
}
