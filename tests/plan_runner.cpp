#include "plan_runner.hpp"

#include "exec/cpu/job.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

using Random = std::mt19937;

constexpr int kPorts = 64;
constexpr std::size_t kSlotBytes = 4096;

// Zeroed address space, of which a run touches little.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    SENNIT_CHECK(data_ != MAP_FAILED, "the test needs memory");
  }
  ~Memory() { ::munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

// Sums of few such integers name their terms. Sums of such floats, of up to some thousands, name
// the order of addition in their last bits.
template <typename T>
T element(int rank, int block, std::int64_t index) {
  const std::uint64_t bits =
      mixed(static_cast<std::uint64_t>(rank) << 48 | static_cast<std::uint64_t>(block) << 32 |
            static_cast<std::uint64_t>(index));
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<double>(bits % 1'000'003) * 1e-3);
  } else {
    return static_cast<T>(bits >> 16);
  }
}

template <typename T>
class PlanRun {
 public:
  PlanRun(const Plan& plan, Proof proof, const RunOptions& options)
      : plan_(std::make_shared<const Plan>(plan)),
        proof_(std::move(proof)),
        options_(options),
        problem_(plan_->problem()),
        random_(options.seed),
        slots_(slots_of(plan)),
        geometry_{
            .ranks = problem_.ranks, .ports = kPorts, .slots = slots_, .slot_bytes = kSlotBytes},
        memory_(shm::RingPool::bytes(geometry_)),
        bells_(static_cast<std::size_t>(problem_.ranks)),
        lengths_(bells_.size() * bells_.size()) {
    // A tile is 64 bytes; about three tiles, the last one short.
    const std::int64_t tile = plan.strands.front().tile_bytes / std::int64_t{sizeof(T)};
    count_ = (is_cut(problem_.collective) ? problem_.cut : 1) * (2 * tile + 3);
    for (std::int64_t& length : lengths_) {
      length = std::uniform_int_distribution<std::int64_t>(0, 3 * tile)(random_);
    }
    ranks_.resize(static_cast<std::size_t>(problem_.ranks));
  }

  std::string run() {
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      if (const std::string defect = prepare(rank); !defect.empty()) {
        return defect;
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      start(ranks_[rank]);
    }
    if (!advance_all()) {
      return "hangs";
    }
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      for (int block = 0; block < problem_.output_blocks(rank); ++block) {
        if (const std::string defect = compare(rank, block); !defect.empty()) {
          return defect;
        }
      }
    }
    return {};
  }

 private:
  struct Rank {
    std::vector<ElementRange> inputs;
    std::vector<ElementRange> outputs;
    std::vector<T> memory;
    std::int64_t send = 0;  // where the buffers begin in `memory`
    std::int64_t recv = 0;
    std::unique_ptr<HostRank> host;
    std::unique_ptr<const BoundProgram> bound;
    std::unique_ptr<Job> job;
  };

  static std::uint32_t slots_of(const Plan& plan) {
    const auto& channels = plan.strands.front().channels;
    return channels.empty() ? 2U : static_cast<std::uint32_t>(channels.front().slots);
  }

  // The length of what rank `source` contributes as its block `index`.
  [[nodiscard]] std::int64_t length_of(int source, int index) const {
    return lengths_[static_cast<std::size_t>(source) * ranks_.size() +
                    static_cast<std::size_t>(index)];
  }

  static ElementRange next_range(std::int64_t& end, std::int64_t length) {
    const ElementRange range{.begin = end, .length = length};
    end += length;
    return range;
  }

  void lay_out(int rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    std::int64_t end = 0;
    for (int i = 0; i < problem_.input_blocks(rank); ++i) {
      r.inputs.push_back(problem_.varying ? next_range(end, length_of(rank, i))
                                          : block_range(problem_, count_, sizeof(T), i));
    }
    end = 0;
    for (int i = 0; i < problem_.output_blocks(rank); ++i) {
      const Problem::Contributions from = problem_.expected(rank, i);
      r.outputs.push_back(problem_.varying
                              ? next_range(end, length_of(from.ranks.front(), from.index))
                              : block_range(problem_, count_, sizeof(T), i));
    }
  }

  static std::int64_t end_of(const std::vector<ElementRange>& ranges) {
    std::int64_t end = 0;
    for (const ElementRange& range : ranges) {
      end = std::max(end, range.begin + range.length);
    }
    return end;
  }

  std::string prepare(int rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    lay_out(rank);
    r.recv = end_of(r.inputs);
    for (int i = 0; i < problem_.output_blocks(rank) && options_.in_place; ++i) {
      if (const auto input = problem_.aliased_input(rank, i)) {
        const std::int64_t offset = r.inputs[static_cast<std::size_t>(*input)].begin -
                                    r.outputs[static_cast<std::size_t>(i)].begin;
        r.send = std::max<std::int64_t>(0, -offset);
        r.recv = std::max<std::int64_t>(0, offset);
        break;
      }
    }
    const std::int64_t size = std::max(r.send + end_of(r.inputs), r.recv + end_of(r.outputs));
    r.memory.assign(static_cast<std::size_t>(size), T{77});
    for (std::size_t i = 0; i < r.inputs.size(); ++i) {
      for (std::int64_t e = 0; e < r.inputs[i].length; ++e) {
        r.memory[static_cast<std::size_t>(r.send + r.inputs[i].begin + e)] =
            element<T>(rank, static_cast<int>(i), e);
      }
    }
    r.host =
        std::make_unique<HostRank>(rank, shm::RingPool(memory_.data(), geometry_), bells_.data());
    for (cma::PeerMemory& peer : r.host->peers) {
      peer = cma::PeerMemory(::getpid(), /*same_process=*/true);
    }
    auto program =
        compile(plan_, proof_, rank, {.ports = kPorts, .slots = slots_, .slot_bytes = kSlotBytes});
    if (!program.ok()) {
      return program.status().message();
    }
    r.bound = std::make_unique<const BoundProgram>(
        std::move(program).value(), *r.host, std::span<const int>());
    return {};
  }

  void start(Rank& r) {
    r.job = std::make_unique<Job>(
        *r.bound,
        Call{.input = r.memory.data() + r.send,
             .output = r.memory.data() + r.recv,
             .count = count_,
             .dtype = std::is_floating_point_v<T> ? Dtype::kFloat32 : Dtype::kInt64,
             .fingerprint = 7,
             .path_policy = {.rule = PathRule::kRandom, .seed = options_.seed},
             .inputs = r.inputs,
             .outputs = r.outputs});
  }

  // A rank that asks for a path, or makes ready to be asked, has not moved, but another may then:
  // so many rounds bring a message on its way, or nothing does.
  static constexpr int kIdleRounds = 8;

  [[nodiscard]] bool can_move() const {
    for (int round = 0; round < kIdleRounds; ++round) {
      for (const Rank& rank : ranks_) {
        if (rank.job->advance()) {
          return true;
        }
      }
    }
    return false;
  }

  // Ranks come in any order and some hardly ever; false when all have tried and none could move.
  bool advance_all() {
    std::vector<std::size_t> order(ranks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> eagerness;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      eagerness.push_back(std::uniform_real_distribution(0.1, 1.0)(random_));
    }
    const auto has_ended = [&](std::size_t rank) { return ranks_[rank].job->finished(); };
    while (!std::ranges::all_of(order, has_ended)) {
      std::ranges::shuffle(order, random_);
      bool moved = false;
      for (const std::size_t rank : order) {
        if (std::bernoulli_distribution(eagerness[rank])(random_)) {
          moved = ranks_[rank].job->advance() || moved;
        }
      }
      if (!moved && !can_move()) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] T output(int rank, int block, std::int64_t index) const {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    return r.memory[static_cast<std::size_t>(
        r.recv + r.outputs[static_cast<std::size_t>(block)].begin + index)];
  }

  std::string compare(int rank, int block) const {
    const Problem::Contributions from = problem_.expected(rank, block);
    const std::int64_t length =
        ranks_[static_cast<std::size_t>(rank)].outputs[static_cast<std::size_t>(block)].length;
    for (std::int64_t e = 0; e < length; ++e) {
      T sum = element<T>(from.ranks.front(), from.index, e);
      for (std::size_t k = 1; k < from.ranks.size(); ++k) {
        sum = static_cast<T>(sum + element<T>(from.ranks[k], from.index, e));
      }
      const T found = output(rank, block, e);
      // Another order of addition moves the last bits of a float.
      const bool exact = std::is_integral_v<T> || from.ranks.size() < 2 || proof_.reproducible;
      const bool is_close = std::abs(static_cast<double>(found) - static_cast<double>(sum)) < 0.1;
      if (found != sum && (exact || !is_close)) {
        return fmt::format(
            "element {} of block {} of rank {} is {}, not {}", e, block, rank, found, sum);
      }
      if (problem_.collective == Collective::kAllReduce && found != output(0, block, e)) {
        return fmt::format("element {} of block {} has other bits on rank {}", e, block, rank);
      }
    }
    return {};
  }

  std::shared_ptr<const Plan> plan_;
  Proof proof_;
  RunOptions options_;
  const Problem& problem_;
  Random random_;
  std::uint32_t slots_;
  shm::RingGeometry geometry_;
  Memory memory_;
  std::vector<Doorbell> bells_;
  std::vector<std::int64_t> lengths_;  // where they vary, [source][input block]
  std::int64_t count_ = 0;
  std::vector<Rank> ranks_;
};

}  // namespace

std::string run_plan(const Plan& plan, const Proof& proof, const RunOptions& options) {
  return options.dtype == Dtype::kFloat32 ? PlanRun<float>(plan, proof, options).run()
                                          : PlanRun<std::int64_t>(plan, proof, options).run();
}

}  // namespace sennit::tests
