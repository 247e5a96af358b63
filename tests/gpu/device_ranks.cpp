#include "device_ranks.hpp"

#include "guarded_buffer.hpp"

#include "codec/codec.hpp"
#include "select/select.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace sennit::tests {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kPoison{0xa5};

Problem problem_of(const DeviceCase& c, int ranks) {
  return {.collective = c.collective, .ranks = ranks, .root = c.root, .cut = 1};
}

std::size_t block_bytes(const DeviceCase& c) {
  return static_cast<std::size_t>(c.count) * size_bytes(c.dtype);
}

// A real number of a type, as its bits lie: sign, exponent, mantissa. Integers have no exponent.
struct Layout {
  std::size_t bytes;
  int exponent_bits;
  int mantissa_bits;
};

Layout layout_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
    case Dtype::kComplex64:
      return {.bytes = 4, .exponent_bits = 8, .mantissa_bits = 23};
    case Dtype::kFloat64:
    case Dtype::kComplex128:
      return {.bytes = 8, .exponent_bits = 11, .mantissa_bits = 52};
    case Dtype::kFloat16:
      return {.bytes = 2, .exponent_bits = 5, .mantissa_bits = 10};
    case Dtype::kBfloat16:
      return {.bytes = 2, .exponent_bits = 8, .mantissa_bits = 7};
    case Dtype::kFloat8E4m3fn:
      return {.bytes = 1, .exponent_bits = 4, .mantissa_bits = 3};
    case Dtype::kFloat8E5m2:
      return {.bytes = 1, .exponent_bits = 5, .mantissa_bits = 2};
    default:
      return {.bytes = size_bytes(dtype), .exponent_bits = 0, .mantissa_bits = 0};
  }
}

// Of a rank, for premul_sum: 3, 4, 5 ... Products by most of them round.
std::array<std::byte, kLargestElementBytes> scalar_of(Dtype dtype, int rank) {
  std::array<std::byte, kLargestElementBytes> scalar{};
  const auto set = [&](const auto& element) { std::memcpy(&scalar, &element, sizeof(element)); };
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    set(element_of<c_type>(rank + 3));                      \
    break;
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return scalar;
}

// Whether what travels is coded in blocks of ranks, and their sums again.
bool is_two_shot(const DeviceCase& c) {
  return c.codec != nullptr && c.collective == Collective::kAllReduce &&
         c.count * static_cast<std::int64_t>(size_bytes(c.dtype)) > kLossyOneShotBytes;
}

// Of a block, what is coded at once.
std::vector<ElementRange> coded_ranges(const DeviceCase& c, int ranks) {
  if (!is_two_shot(c)) {
    return {{.begin = 0, .length = c.count}};
  }
  std::vector<ElementRange> ranges;
  const Problem problem{.collective = c.collective, .ranks = ranks, .cut = ranks};
  for (int index = 0; index < ranks; ++index) {
    ranges.push_back(
        block_range(problem, c.count, static_cast<std::int64_t>(size_bytes(c.dtype)), index));
  }
  return ranges;
}

bool codes_own_part(Collective collective) {
  return is_reduction(collective) || collective == Collective::kAllGather ||
         collective == Collective::kBroadcast;
}

// Becomes decode(encode(values)).
void code(const DeviceCase& c, Bytes& values) {
  const Codec codec = parse_codec(c.codec).value();
  const std::size_t count = values.size() / size_bytes(c.dtype);
  std::vector<unsigned char> coded(most_coded_bytes(codec, c.dtype, count).value());
  (void)encode(codec, c.dtype, values.data(), count, coded.data());
  EXPECT_TRUE(decode(codec, c.dtype, coded, values.data(), count).ok());
}

struct Part {
  const std::byte* data;
  std::int64_t elements;
};

// What is summed up of a part.
Bytes contribution_of(const DeviceCase& c, const Part& part, int source, int ranks) {
  Bytes values(part.data,
               part.data + part.elements * static_cast<std::int64_t>(size_bytes(c.dtype)));
  if (c.op == ReduceOp::kPremulSum) {
    const Operand contribution{.data = part.data, .is_scaled = true};
    reduce(c.dtype,
           c.op,
           {.scalar = scalar_of(c.dtype, source), .ranks = ranks},
           {.out = values.data(), .operands = {&contribution, 1}, .elements = part.elements});
  }
  return values;
}

}  // namespace

Bytes random_elements(Dtype dtype, std::int64_t count, std::mt19937_64& random) {
  const Layout layout = layout_of(dtype);
  const std::uint64_t exponents = (std::uint64_t{1} << layout.exponent_bits) - 1;
  Bytes bytes(static_cast<std::size_t>(count) * size_bytes(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += layout.bytes) {
    std::uint64_t bits = random();
    if (exponents != 0 && at / layout.bytes % 4 != 0) {
      bits &= ~(exponents << layout.mantissa_bits);
      bits |= (exponents / 2 - random() % 4) << layout.mantissa_bits;
    }
    std::memcpy(bytes.data() + at, &bits, layout.bytes);
  }
  return bytes;
}

std::size_t input_size(const DeviceCase& c, int rank, int ranks) {
  return block_bytes(c) * static_cast<std::size_t>(problem_of(c, ranks).input_blocks(rank));
}

std::size_t output_size(const DeviceCase& c, int rank, int ranks) {
  return block_bytes(c) * static_cast<std::size_t>(problem_of(c, ranks).output_blocks(rank));
}

Bytes expected_output(const DeviceCase& c, const std::vector<Bytes>& inputs, int rank) {
  const auto ranks = static_cast<int>(inputs.size());
  const Problem problem = problem_of(c, ranks);
  const std::size_t block = block_bytes(c);
  Bytes output(output_size(c, rank, ranks));
  for (int b = 0; b < problem.output_blocks(rank) && block > 0; ++b) {
    const auto from = problem.expected(rank, b);
    for (const ElementRange& range : coded_ranges(c, ranks)) {
      const std::size_t begin = static_cast<std::size_t>(range.begin) * size_bytes(c.dtype);
      std::vector<Bytes> contributions;
      std::vector<Operand> operands;
      for (const int source : from.ranks) {
        const std::byte* const part = inputs[static_cast<std::size_t>(source)].data() +
                                      static_cast<std::size_t>(from.index) * block + begin;
        contributions.push_back(contribution_of(c, {part, range.length}, source, ranks));
        if (c.codec != nullptr && (source != rank || codes_own_part(c.collective))) {
          code(c, contributions.back());
        }
      }
      for (const Bytes& contribution : contributions) {
        operands.push_back({.data = contribution.data()});
      }
      Bytes result = contributions.front();
      if (is_reduction(c.collective)) {
        reduce(c.dtype,
               c.op == ReduceOp::kPremulSum ? ReduceOp::kSum : c.op,
               {.ranks = ranks},
               {.out = result.data(),
                .operands = operands,
                .elements = range.length,
                .is_finished = true});
      }
      if (is_two_shot(c)) {
        code(c, result);
      }
      std::ranges::copy(result,
                        output.begin() + static_cast<std::ptrdiff_t>(
                                             static_cast<std::size_t>(b) * block + begin));
    }
  }
  return output;
}

const char* path_here(const char* path) {
  constexpr std::string_view kFar = "nvlink";
  if (path == nullptr || !std::string_view(path).starts_with(kFar) || device_count() != 1) {
    return path;
  }
  static std::mutex mutex;
  static std::set<std::string> requests;  // outlive the calls that make them
  const std::scoped_lock lock(mutex);
  return requests.insert("device" + std::string(path).substr(kFar.size())).first->c_str();
}

DeviceRank::DeviceRank(int rank, int ranks, int device)
    : rank_(rank), ranks_(ranks), device_(device) {
  check_cuda(cudaSetDevice(device));
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

DeviceRank::~DeviceRank() {
  check_cuda(cudaSetDevice(device_));
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  check_cuda(cudaFree(memory_));
  check_cuda(cudaStreamDestroy(stream));
}

void DeviceRank::reserve(std::size_t bytes) {
  if (bytes > capacity_) {
    check_cuda(cudaFree(memory_));
    check_cuda(cudaMalloc(&memory_, bytes));
    capacity_ = bytes;
  }
}

void DeviceRank::prepare(const DeviceCase& c, const Bytes& input) {
  check_cuda(cudaSetDevice(device_));
  const std::size_t shift = c.offset * size_bytes(c.dtype);
  output_bytes_ = output_size(c, rank_, ranks_);
  const std::size_t half = (input.size() + 64) / 64 * 64 + kGuardBytes * 2 + 256;
  const std::size_t total = half + output_bytes_ + kGuardBytes * 2 + 256;
  reserve(total);
  check_cuda(cudaMemsetAsync(memory_, static_cast<int>(kPoison), total, stream));
  send_ = memory_ + kGuardBytes + shift;
  recv_ = memory_ + half + kGuardBytes + shift;
  if (c.in_place) {
    const Problem problem = problem_of(c, ranks_);
    for (int b = 0; b < problem.output_blocks(rank_); ++b) {
      if (const auto alias = problem.aliased_input(rank_, b)) {
        // The smaller of the two lies within the larger.
        const std::size_t block = block_bytes(c);
        const auto in = static_cast<std::size_t>(*alias) * block;
        const auto out = static_cast<std::size_t>(b) * block;
        if (input.size() > output_bytes_) {
          recv_ = send_ + in - out;
        } else {
          send_ = recv_ + out - in;
        }
        break;
      }
    }
  }
  check_cuda(cudaMemcpyAsync(send_, input.data(), input.size(), cudaMemcpyHostToDevice, stream));
  check_cuda(cudaStreamSynchronize(stream));
}

sennit_status_t DeviceRank::call(const DeviceCase& c) {
  if (c.op != ReduceOp::kPremulSum) {
    return call(c, static_cast<sennit_redop_t>(c.op));
  }
  sennit_redop_t op = SENNIT_SUM;
  if (const sennit_status_t status = sennit_redop_create_premulsum(
          &op, scalar_of(c.dtype, rank_).data(), static_cast<sennit_dtype_t>(c.dtype), comm);
      status != SENNIT_OK) {
    return status;
  }
  const sennit_status_t status = call(c, op);
  EXPECT_EQ(sennit_redop_destroy(op, comm), SENNIT_OK);
  return status;
}

sennit_status_t DeviceRank::call(const DeviceCase& c, sennit_redop_t op) {
  const auto count = static_cast<std::size_t>(c.count);
  const auto dtype = static_cast<sennit_dtype_t>(c.dtype);
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.algorithm = c.algorithm;
  options.protocol = c.protocol;
  options.path = path_here(c.path);
  options.codec = c.codec;
  switch (c.collective) {
    case Collective::kAllReduce:
      return sennit_all_reduce(send_, recv_, count, dtype, op, comm, stream, &options);
    case Collective::kReduce:
      return sennit_reduce(send_, recv_, count, dtype, op, c.root, comm, stream, &options);
    case Collective::kBroadcast:
      return sennit_broadcast(send_, recv_, count, dtype, c.root, comm, stream, &options);
    case Collective::kAllGather:
      return sennit_all_gather(send_, recv_, count, dtype, comm, stream, &options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(send_, recv_, count, dtype, op, comm, stream, &options);
    case Collective::kAllToAll:
      return sennit_all_to_all(send_, recv_, count, dtype, comm, stream, &options);
    case Collective::kGather:
      return sennit_gather(send_, recv_, count, dtype, c.root, comm, stream, &options);
    case Collective::kScatter:
      return sennit_scatter(send_, recv_, count, dtype, c.root, comm, stream, &options);
    default:
      return SENNIT_UNSUPPORTED;
  }
}

Bytes DeviceRank::output(const DeviceCase& c) {
  check_cuda(cudaSetDevice(device_));
  Bytes all(output_bytes_ + 2 * kGuardBytes);
  check_cuda(
      cudaMemcpyAsync(all.data(), recv_ - kGuardBytes, all.size(), cudaMemcpyDeviceToHost, stream));
  check_cuda(cudaStreamSynchronize(stream));
  if (!c.in_place) {
    const auto is_poison = [](std::byte b) { return b == kPoison; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, is_poison))
        << "something was written before the output";
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), is_poison))
        << "something was written behind the output";
  }
  return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
}

DeviceRanks::DeviceRanks(int ranks) {
  std::vector<int> devices;
  std::vector<sennit_comm_t> comms(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(rank % device_count());
  }
  EXPECT_EQ(sennit_comm_init_all(comms.data(), ranks, devices.data(), nullptr), SENNIT_OK)
      << sennit_last_error_message();
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(
        std::make_unique<DeviceRank>(rank, ranks, devices[static_cast<std::size_t>(rank)]));
    ranks_.back()->comm = comms[static_cast<std::size_t>(rank)];
  }
}

DeviceRanks::~DeviceRanks() {
  for (auto& rank : ranks_) {
    check_cuda(cudaStreamSynchronize(rank->stream));
  }
}

std::vector<Bytes> DeviceRanks::prepare(const DeviceCase& c) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < size(); ++rank) {
    const std::size_t bytes = input_size(c, rank, size());
    inputs.push_back(
        random_elements(c.dtype, static_cast<std::int64_t>(bytes / size_bytes(c.dtype)), random_));
    (*this)[rank].prepare(c, inputs.back());
  }
  return inputs;
}

std::vector<Bytes> DeviceRanks::start(const DeviceCase& c) {
  std::vector<Bytes> inputs = prepare(c);
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_EQ((*this)[rank].call(c), SENNIT_OK) << sennit_last_error_message();
  }
  return inputs;
}

void DeviceRanks::finish(const DeviceCase& c, const std::vector<Bytes>& inputs) {
  for (int rank = 0; rank < size(); ++rank) {
    const Bytes output = (*this)[rank].output(c);
    const Bytes expected = expected_output(c, inputs, rank);
    const auto [at, wanted] = std::ranges::mismatch(output, expected);
    ASSERT_TRUE(at == output.end())
        << name(c.collective) << " " << (c.algorithm ? c.algorithm : "") << " "
        << (c.protocol ? c.protocol : "") << " " << (c.path ? c.path : "") << " of " << c.count
        << " x " << name(c.dtype) << ", " << name(c.op) << ", root " << c.root
        << (c.in_place ? ", in place" : "") << ", offset " << c.offset << ": rank " << rank
        << " of " << size() << ": byte " << at - output.begin() << " is " << static_cast<int>(*at)
        << ", not " << static_cast<int>(*wanted);
  }
}

std::vector<CapturedGraph> DeviceRanks::capture(const DeviceCase& c, int calls) {
  std::vector<CapturedGraph> graphs;
  for (int rank = 0; rank < size(); ++rank) {
    check_cuda(cudaSetDevice(rank % device_count()));
    graphs.emplace_back((*this)[rank].stream, [&] {
      for (int i = 0; i < calls; ++i) {
        EXPECT_EQ((*this)[rank].call(c), SENNIT_OK) << sennit_last_error_message();
      }
    });
  }
  return graphs;
}

void DeviceRanks::launch(const std::vector<CapturedGraph>& graphs, int times) {
  for (int i = 0; i < times; ++i) {
    for (const CapturedGraph& graph : graphs) {
      graph.launch();
    }
  }
}

void DeviceRanks::replay(const DeviceCase& c, int times) {
  const std::vector<Bytes> inputs = prepare(c);
  const std::vector<CapturedGraph> graphs = capture(c, 1);
  ASSERT_FALSE(::testing::Test::HasFailure());
  launch(graphs, times);
  finish(c, inputs);
}

void DeviceRanks::run(const DeviceCase& c) { finish(c, start(c)); }

}  // namespace sennit::tests
