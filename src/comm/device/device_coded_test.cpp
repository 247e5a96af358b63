// Calls with a codec, of ranks with fake GPUs: their results are those of host ranks, to the bit.
// Copy engines move the bytes; what the kernels do runs on the host.
#include "codec/codec.hpp"
#include "comm/device/testing/offering_gpus.hpp"
#include "comm/progress_engine.hpp"
#include "exec/coded/testing/fake_codec_kernels.hpp"
#include "exec/stream/reduction.hpp"
#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

namespace sennit::tests {
namespace {

// Two codecs whose blocks differ in length, one with streams of its own for complex numbers.
struct Form {
  const char* codec;
  Dtype dtype;
};

class CodedCallsOfGpus : public OfferingGpus, public ::testing::WithParamInterface<Form> {
 protected:
  static constexpr std::int64_t kMost = 9'001;  // elements of a part

  // Runs what the kernel of a coded call with these operators does.
  std::function<void()> run_kernel(const void* kernel, const void* parameters) const {
    if (std::function<void()> coded = coded::fake_codec_kernel(kernel, parameters)) {
      return coded;
    }
    if (op_ == std::nullopt) {
      return fake_pairs_kernel(kernel, parameters);
    }
    // One operand alone is a contribution that is scaled; others have been.
    return [this, call = *static_cast<const stream::ReductionCall*>(parameters)] {
      const bool is_scaling = call.operand_count == 1;
      std::vector<Operand> operands;
      for (int i = 0; i < call.operand_count; ++i) {
        operands.push_back({call.operands[static_cast<std::size_t>(i)].data, is_scaling});
      }
      Scaling scaling{.ranks = call.ranks};
      std::copy_n(call.operands[0].scalar.begin(), scaling.scalar.size(), scaling.scalar.begin());
      const auto bytes = static_cast<std::int64_t>(size_bytes(GetParam().dtype));
      reduce(GetParam().dtype,
             *op_,
             scaling,
             {.out = call.outputs[0],
              .operands = operands,
              .elements = call.bytes / bytes,
              .is_finished = !is_scaling});
    };
  }

  // On memory of the host, as fake memory of devices is.
  static Status call_on_host(const Rank& rank, Operation operation) {
    operation.request.protocol.clear();
    const std::shared_ptr<ProgressEngine> engine = ProgressEngine::of_this_thread();
    engine->attach(rank.joined);
    const auto post = [&]() -> Result<std::shared_ptr<Work>> {
      const auto guard = engine->lock();
      SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<Work> work, rank.joined->prepare(operation));
      engine->post(*rank.joined, work);
      return work;
    };
    const auto work = post();
    if (work.ok()) {
      engine->run_until(*rank.joined, **work, Clock::duration::max());
    }
    engine->detach(*rank.joined);
    return work.ok() ? (*work)->status : work.status();
  }

  static void fill_values(const Rank& rank, std::byte* memory, std::int64_t bytes) {
    // Floats of any width that are neither tiny nor infinite.
    for (std::int64_t at = 0; at < bytes; at += 8) {
      const double wave = std::sin(static_cast<double>(at + std::int64_t{977} * rank.rank) / 50.0) *
                          (1 + rank.rank);
      std::array<std::byte, 8> values{};
      if (GetParam().dtype == Dtype::kFloat64 || GetParam().dtype == Dtype::kComplex128) {
        std::memcpy(values.data(), &wave, 8);
      } else if (GetParam().dtype == Dtype::kFloat32 || GetParam().dtype == Dtype::kComplex64) {
        const std::array two = {static_cast<float>(wave), static_cast<float>(wave) / 3};
        std::memcpy(values.data(), two.data(), 8);
      } else {
        for (std::size_t i = 0; i < 4; ++i) {
          const auto bits = static_cast<std::uint16_t>(
              0x3f00 + (at * 7 + std::int64_t{31} * rank.rank + static_cast<int>(i)) % 99);
          std::memcpy(&values[2 * i], &bits, 2);
        }
      }
      std::memcpy(memory + at,
                  values.data(),
                  static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - at)));
    }
  }

  [[nodiscard]] static std::int64_t room() {
    return kMost * kRanks * static_cast<std::int64_t>(size_bytes(GetParam().dtype)) + 64;
  }

  // The call by GPU ranks and by host ranks, from the same input; all of the output buffer is
  // compared.
  void compare(Rank& rank, Operation operation, bool in_place) {
    operation.dtype = GetParam().dtype;
    operation.request.codec = GetParam().codec;
    operation.request.protocol = operation.varying ? "" : "copy_engines";
    std::array<std::byte*, 2> sent{};
    std::array<std::byte*, 2> received{};
    for (std::size_t i = 0; i < 2; ++i) {
      sent[i] = rank.allocate(room());
      received[i] = in_place ? sent[i] : rank.allocate(room());
      fill_values(rank, sent[i], room() / 8 * 8);
    }
    const auto part = operation.count * static_cast<std::int64_t>(size_bytes(operation.dtype));
    const auto place = [&](std::size_t i) {
      Operation placed = operation;
      placed.send = sent[i];
      placed.recv = received[i];
      if (in_place && (operation.collective == Collective::kAllGather ||
                       operation.collective == Collective::kGather)) {
        placed.send = sent[i] + rank.rank * part;
      }
      if (in_place && (operation.collective == Collective::kReduceScatter ||
                       operation.collective == Collective::kScatter)) {
        placed.recv = received[i] + rank.rank * part;
      }
      return placed;
    };
    const Status on_gpus = rank.call(place(0));
    ASSERT_TRUE(on_gpus.ok()) << on_gpus.message();
    rank.finish();
    const Status on_host = call_on_host(rank, place(1));
    ASSERT_TRUE(on_host.ok()) << on_host.message();
    EXPECT_EQ(std::memcmp(received[0], received[1], static_cast<std::size_t>(room())), 0)
        << name_of(operation) << " of " << operation.count << ", in place " << in_place
        << ", operator " << name(operation.op) << ", rank " << rank.rank;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(rank.cuda->release(sent[i]).ok());
      EXPECT_TRUE(in_place || rank.cuda->release(received[i]).ok());
    }
  }

  static void add_block(std::vector<ElementRange>& blocks, int from, int to) {
    const std::int64_t begin = blocks.empty() ? 3 : blocks.back().begin + blocks.back().length + 3;
    blocks.push_back({.begin = begin, .length = std::int64_t{501} * ((from * 3 + to * 5) % 4)});
  }
  // A v-form, buffers left out.
  static Operation varying(Collective collective, int rank) {
    Operation op;
    op.collective = collective;
    op.varying = true;
    op.root = 2;
    op.count = kMost;
    const bool is_root = rank == op.root;
    const bool scatters = collective == Collective::kScatter;
    const bool is_all_to_all = collective == Collective::kAllToAll;
    const bool is_gather = collective == Collective::kGather;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (is_all_to_all || (scatters && is_root)) {
        add_block(op.inputs, rank, peer);
      }
      if (is_all_to_all) {
        add_block(op.outputs, peer, rank);
      } else if (!scatters && (!is_gather || is_root)) {
        add_block(op.outputs, peer, 1);
      }
    }
    if (scatters) {
      add_block(op.outputs, op.root, rank);
    } else if (!is_all_to_all) {
      add_block(op.inputs, rank, 1);
    }
    return op;
  }

  std::optional<ReduceOp> op_{};  // of the reductions, where there are any
};

constexpr std::array kCounts = {1, 127, 2'001, 9'001};

TEST_P(CodedCallsOfGpus, MovePartsAsHostRanksDo) {
  run([&](Rank& rank) {
    rank.cuda->run_kernels([this](auto... given) { return run_kernel(given...); });
    for (const Collective collective : {Collective::kAllGather,
                                        Collective::kAllToAll,
                                        Collective::kBroadcast,
                                        Collective::kGather,
                                        Collective::kScatter}) {
      for (const int count : kCounts) {
        for (const bool in_place : {false, true}) {
          Operation op;
          op.collective = collective;
          op.count = count;
          op.root = count % kRanks;
          compare(rank, op, in_place);
        }
      }
    }
  });
}

TEST_P(CodedCallsOfGpus, ReduceAsHostRanksDo) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum}) {
    op_ = op;
    run([&](Rank& rank) {
      rank.cuda->run_kernels([this](auto... given) { return run_kernel(given...); });
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
        for (const int count : kCounts) {
          for (const bool in_place : {false, true}) {
            Operation reduction;
            reduction.collective = collective;
            reduction.count = count;
            reduction.root = count % kRanks;
            reduction.op = op;
            reduction.scaling.ranks = kRanks;
            // Some element, the same whatever its type: bytes of a small number.
            fill_values(rank, reduction.scaling.scalar.data(), 16);
            compare(rank, reduction, in_place);
          }
        }
      }
    });
  }
}

// Blocks of lengths that differ, some of them empty, with gaps between them.
TEST_P(CodedCallsOfGpus, MoveBlocksOfAnyLengthsAsHostRanksDo) {
  run([&](Rank& rank) {
    rank.cuda->run_kernels([this](auto... given) { return run_kernel(given...); });
    for (const Collective collective : {Collective::kAllGather,
                                        Collective::kAllToAll,
                                        Collective::kGather,
                                        Collective::kScatter}) {
      for (int i = 0; i < 3; ++i) {
        compare(rank, varying(collective, rank.rank), /*in_place=*/false);
        meet();
      }
    }
  });
}

// In a ring, in one group with a message without codec.
TEST_P(CodedCallsOfGpus, MessagesHoldWhatTheCodecLeaves) {
  run([&](Rank& rank) {
    rank.cuda->run_kernels([this](auto... given) { return run_kernel(given...); });
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(GetParam().dtype));
    const std::int64_t bytes = kMost * element_bytes;
    std::byte* const out = rank.allocate(bytes);
    std::byte* const in = rank.allocate(bytes);
    std::byte* const plain = rank.allocate(bytes);
    fill_values(rank, out, bytes);
    const auto end = [&](bool is_send, std::byte* memory, const char* codec) {
      Operation op;
      op.collective = Collective::kSendRecv;
      op.is_send = is_send;
      op.peer = (rank.rank + (is_send ? 1 : kRanks - 1)) % kRanks;
      op.send = is_send ? memory : nullptr;
      op.recv = is_send ? nullptr : memory;
      op.count = kMost;
      op.dtype = GetParam().dtype;
      op.request.codec = codec;
      op.request.protocol = "copy_engines";
      return DeviceComm::Call{op, rank.stream};
    };
    const char* const codec = GetParam().codec;
    for (int round = 0; round < 3; ++round) {  // kernels carry the first out of an allocation
      const std::array calls = {
          end(true, out, ""), end(true, out, codec), end(false, plain, ""), end(false, in, codec)};
      const Status status = rank.comm->enqueue(calls);
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
    }
    std::vector<std::byte> sent(static_cast<std::size_t>(bytes));
    Rank previous;
    previous.rank = (rank.rank + kRanks - 1) % kRanks;
    fill_values(previous, sent.data(), bytes);
    EXPECT_TRUE(holds(plain, sent));
    const Codec taken = take(parse_codec(codec));
    std::vector<unsigned char> coded(take(most_coded_bytes(taken, GetParam().dtype, kMost)));
    (void)encode(taken, GetParam().dtype, sent.data(), kMost, coded.data());
    EXPECT_TRUE(decode(taken, GetParam().dtype, coded, sent.data(), kMost).ok());
    EXPECT_TRUE(holds(in, sent));
  });
}

INSTANTIATE_TEST_SUITE_P(Forms,
                         CodedCallsOfGpus,
                         ::testing::Values(Form{"q8", Dtype::kBfloat16},
                                           Form{"q8", Dtype::kComplex64},
                                           Form{"zfp:8", Dtype::kFloat32},
                                           Form{"zfp:16", Dtype::kComplex128},
                                           Form{"mx8", Dtype::kFloat16}));

class RefusedCodecs : public FakeGpus {
 protected:
  static Operation gather(const Rank& rank, const char* codec, Dtype dtype = Dtype::kFloat32) {
    Operation op = all_gather(rank, 1000);
    op.dtype = dtype;
    op.request.codec = codec;
    return op;
  }
  static void expect_refusal(const Status& status, Code code, const char* words) {
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
};

TEST_F(RefusedCodecs, SayWhatCanBeDone) {
  run([](Rank& rank) {
    fill(rank);
    expect_refusal(
        rank.call(gather(rank, "exact", Dtype::kBfloat16)), Code::kUnsupported, "host ranks");
    expect_refusal(rank.call(gather(rank, "q9")), Code::kInvalidArgument, "there are: zfp:4");
    expect_refusal(rank.call(gather(rank, "q8", Dtype::kInt32)), Code::kUnsupported, "it takes");
    Operation named = gather(rank, "q8");
    named.request.algorithm = "ring";
    expect_refusal(rank.call(named), Code::kUnsupported, "leave the algorithm out");
    Operation endless = gather(rank, "q8");
    endless.collective = Collective::kBroadcast;
    endless.send = endless.recv;
    endless.count = INT64_MAX / 4 / kRanks;
    expect_refusal(rank.call(endless), Code::kInvalidArgument, "more than memory can hold");
    rank.cuda->begin_capture(rank.stream);
    expect_refusal(rank.call(gather(rank, "q8")), Code::kInvalidUsage, "before the capture");
    EXPECT_TRUE(rank.cuda->end_capture(rank.stream).ok());
  });
}

TEST_F(RefusedCodecs, OfARuleAreLeftOut) {
  options_.codec_rules = take(CodecRules::parse("all_gather=exact,q8"));
  options_.profile->copies_from_bytes = 1;
  run([this](Rank& rank) {
    fill(rank);
    const Status status = rank.call(gather(rank, "", Dtype::kUint8));
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    EXPECT_EQ(rank.launches(), 0);
    meet();
  });
}

TEST_F(RefusedCodecs, OfThreadsOfOneProcess) {
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  run([](Rank& rank) {
    fill(rank);
    expect_refusal(rank.call(gather(rank, "q8")), Code::kUnsupported, "use a process for each");
  });
}

TEST_F(RefusedCodecs, ThatDifferAreNamed) {
  run([](Rank& rank) {
    fill(rank);
    (void)rank.call(gather(rank, rank.rank == 2 ? "zfp:8" : "q8"));
    const Status failure = failure_of(rank);
    expect_refusal(failure, Code::kMismatch, "all_gather of 1000 x float32, codec zfp:8");
    EXPECT_EQ(failure.detail().blamed_ranks, std::vector{2});
  });
}

}  // namespace
}  // namespace sennit::tests
