// Calls with a codec, as users make them, against encode() and decode() of what each rank gave: all
// collectives, types and codecs, in place and out of place, in every element and bit.
#include "codec_calls.hpp"

#include "base/json.hpp"
#include "sennit/tools.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sennit {
namespace {

using namespace codec_calls;

void expect_coded_bits(const Subject& s, int rank, int ranks, sennit_comm_t comm) {
  const Oracle oracle(s, ranks);
  const Buffers buffers(s, oracle, rank);
  const sennit_call_options_t options = options_for(s);
  ASSERT_EQ(call(s, buffers.input, buffers.output, comm, &options), SENNIT_OK)
      << in_words(s) << ": " << sennit_last_error_message();
  EXPECT_EQ(first_difference(s, oracle, rank, buffers.output), "");
}

constexpr std::array kCoded = {Collective::kAllReduce,
                               Collective::kReduce,
                               Collective::kBroadcast,
                               Collective::kAllGather,
                               Collective::kReduceScatter,
                               Collective::kAllToAll,
                               Collective::kGather,
                               Collective::kScatter};

// Sums of a lossless codec are those without it, whose order depends on the algorithm.
bool has_one_order(const Subject& s) {
  return !is_reduction(s.collective) || !is_lossless(s.codec);
}

class CodedCalls : public testing::TestWithParam<int> {};

TEST_P(CodedCalls, GiveWhatTheCodecLeavesInEveryBit) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](int rank, sennit_comm_t comm) {
    for (const Codec codec : kCodecs) {
      for (const Dtype dtype : kDtypes) {
        for (const Collective collective : kCoded) {
          for (const std::int64_t count : {0, 1, 33, 5003}) {
            const bool in_place = count != 1;
            const Subject s{collective, codec, dtype, SENNIT_SUM, count, in_place};
            if (takes(codec, dtype) && has_one_order(s)) {
              expect_coded_bits(s, rank, ranks, comm);
            }
          }
        }
      }
    }
  });
}

TEST_P(CodedCalls, OutOfPlaceToo) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](int rank, sennit_comm_t comm) {
    for (const Codec codec : {Codec::kQ8, Codec::kZfp16, Codec::kExact}) {
      for (const Dtype dtype : {Dtype::kFloat32, Dtype::kComplex64, Dtype::kBfloat16}) {
        for (const Collective collective : kCoded) {
          const Subject s{collective, codec, dtype, SENNIT_SUM, 9001};
          if (takes(codec, dtype) && has_one_order(s)) {
            expect_coded_bits(s, rank, ranks, comm);
          }
        }
      }
    }
  });
}

TEST_P(CodedCalls, AveragesAreScaledBeforeTheyAreCoded) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](int rank, sennit_comm_t comm) {
    for (const std::int64_t count : {33, 20'003}) {
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
        expect_coded_bits(
            {collective, Codec::kQ16, Dtype::kFloat32, SENNIT_AVG, count, true}, rank, ranks, comm);
      }
    }
  });
}

// Every algorithm: right, or refused by name, on every rank.
TEST_P(CodedCalls, AnAlgorithmThatCannotHaveALossyOneIsRefusedByName) {
  const int ranks = GetParam();
  std::vector<int> carried(static_cast<std::size_t>(ranks), 0);
  std::vector<int> refused(carried);
  on_ranks(ranks, [&](int rank, sennit_comm_t comm) {
    for (const Collective collective : kCoded) {
      for (const Algorithm& algorithm : algorithms(collective)) {
        const Subject s{collective,
                        Codec::kQ8,
                        Dtype::kFloat32,
                        SENNIT_SUM,
                        3001,
                        false,
                        std::string(algorithm.name)};
        const Oracle oracle(s, ranks);
        const Buffers buffers(s, oracle, rank);
        const sennit_call_options_t options = options_for(s);
        const sennit_status_t status = call(s, buffers.input, buffers.output, comm, &options);
        if (status == SENNIT_UNSUPPORTED) {
          EXPECT_NE(std::string_view(sennit_last_error_message()).find(algorithm.name),
                    std::string_view::npos)
              << sennit_last_error_message();
          ++refused[static_cast<std::size_t>(rank)];
          continue;
        }
        ASSERT_EQ(status, SENNIT_OK) << in_words(s) << ": " << sennit_last_error_message();
        ++carried[static_cast<std::size_t>(rank)];
        // These code sums where one_shot, and direct, leave them as they are.
        if (algorithm.name != "scatter_gather" && algorithm.name != "leader") {
          EXPECT_EQ(first_difference(s, oracle, rank, buffers.output), "");
        }
      }
    }
  });
  EXPECT_GE(carried[0], 12);
  EXPECT_EQ(refused[0] > 0, ranks > 1);
  for (std::size_t rank = 1; rank < carried.size(); ++rank) {
    EXPECT_EQ(carried[rank], carried[0]);
    EXPECT_EQ(refused[rank], refused[0]);
  }
}

// Also those that add on the way.
TEST_P(CodedCalls, ALosslessOneChangesNothing) {
  const int ranks = GetParam();
  on_ranks(
      ranks,
      [&](int rank, sennit_comm_t comm) {
        for (const Collective collective : kCoded) {
          for (const Algorithm& algorithm : algorithms(collective)) {
            const Subject s{collective,
                            Codec::kExact,
                            Dtype::kBfloat16,
                            SENNIT_SUM,
                            7001,
                            false,
                            std::string(algorithm.name)};
            const Oracle oracle(s, ranks);
            const Buffers plain(s, oracle, rank);
            const Buffers coded(s, oracle, rank);
            sennit_call_options_t options = options_for(s);
            const sennit_status_t status = call(s, coded.input, coded.output, comm, &options);
            options.codec = nullptr;
            ASSERT_EQ(call(s, plain.input, plain.output, comm, &options), status) << in_words(s);
            EXPECT_EQ(coded.recv, plain.recv) << in_words(s);
          }
        }
      },
      nullptr,
      64 * 1024);  // some send many blocks in a message
}

INSTANTIATE_TEST_SUITE_P(Ranks, CodedCalls, testing::Values(1, 2, 3, 5));

// ---- Messages, lengths that vary ----

TEST(CodedMessages, SendAndRecvGiveWhatTheCodecLeaves) {
  on_ranks(2, [](int rank, sennit_comm_t comm) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{10'001}}) {
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.codec = "zfp:8";
      Bytes values = input_of(Dtype::kFloat32, 7, static_cast<std::int64_t>(count));
      if (rank == 0) {
        EXPECT_EQ(sennit_send(values.data(), count, SENNIT_FLOAT32, 1, comm, nullptr, &options),
                  SENNIT_OK);
        continue;
      }
      Bytes got(values.size());
      EXPECT_EQ(sennit_recv(got.data(), count, SENNIT_FLOAT32, 0, comm, nullptr, &options),
                SENNIT_OK);
      EXPECT_EQ(got, passed_through(Codec::kZfp8, Dtype::kFloat32, values));
    }
  });
}

TEST(CodedMessages, AllToAllOfLengthsThatVary) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [](int rank, sennit_comm_t comm) {
    // From s to r go so many elements; some none, some more than a slot holds.
    const auto length = [](int s, int r) {
      return static_cast<std::size_t>(s == r ? 5 : (s + 2 * r) % 4 * 1500);
    };
    std::array<std::size_t, kRanks> sent{};
    std::array<std::size_t, kRanks> expected{};
    std::array<std::size_t, kRanks> send_at{};
    std::array<std::size_t, kRanks> recv_at{};
    std::size_t send_total = 0;
    std::size_t recv_total = 0;
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      sent[p] = length(rank, peer);
      expected[p] = length(peer, rank);
      send_at[p] = send_total;
      recv_at[p] = recv_total;
      send_total += sent[p];
      recv_total += expected[p];
    }
    const auto input = [&](int from, int to) {
      return input_of(Dtype::kFloat32, 10 * from + to, static_cast<std::int64_t>(length(from, to)));
    };
    Bytes send;
    for (int peer = 0; peer < kRanks; ++peer) {
      const Bytes part = input(rank, peer);
      send.insert(send.end(), part.begin(), part.end());
    }
    Bytes recv(recv_total * sizeof(float));
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.codec = "q8";
    ASSERT_EQ(sennit_all_to_all_v(send.data(),
                                  sent.data(),
                                  send_at.data(),
                                  recv.data(),
                                  expected.data(),
                                  recv_at.data(),
                                  SENNIT_FLOAT32,
                                  comm,
                                  nullptr,
                                  &options),
              SENNIT_OK)
        << sennit_last_error_message();
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      const Bytes plain = input(peer, rank);
      const Bytes wanted =
          peer == rank ? plain : passed_through(Codec::kQ8, Dtype::kFloat32, plain);
      const auto begin = recv.begin() + static_cast<std::ptrdiff_t>(recv_at[p] * sizeof(float));
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), begin)) << "from rank " << peer;
    }
  });
}

// ---- Rules, and what is refused ----

std::string codec_of_last_call(sennit_comm_t comm) {
  char* answer = nullptr;
  EXPECT_EQ(sennit_tool_last_plan(comm, &answer), SENNIT_OK);
  const Result<Json> plan = parse_json(answer, "answer");
  sennit_tool_free(answer);
  const Json& codec = plan->at("codec");
  return codec.is_null() ? "none" : codec.get<std::string>();
}

TEST(CodecRulesOfComms, AreForTheCallsThatCanHaveThem) {
  on_ranks(
      3,
      [](int /*rank*/, sennit_comm_t comm) {
        const auto codec_of = [&](const Subject& s,
                                  const sennit_call_options_t* options = nullptr) {
          std::vector<std::byte> room(1 << 16);
          EXPECT_EQ(call(s, room.data(), room.data() + room.size() / 2, comm, options), SENNIT_OK)
              << sennit_last_error_message();
          return codec_of_last_call(comm);
        };
        const Subject gather{Collective::kAllGather, Codec::kQ8, Dtype::kFloat32, SENNIT_SUM, 256};
        EXPECT_EQ(codec_of(gather), "q8");
        Subject small = gather;
        small.count = 255;
        EXPECT_EQ(codec_of(small), "none");
        Subject integers = gather;
        integers.dtype = Dtype::kInt32;
        EXPECT_EQ(codec_of(integers), "none");
        Subject broadcast = gather;
        broadcast.collective = Collective::kBroadcast;
        EXPECT_EQ(codec_of(broadcast), "none") << "a rule without a collective";
        sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
        options.codec = "none";
        EXPECT_EQ(codec_of(gather, &options), "none");
        options.codec = "mx8";
        EXPECT_EQ(codec_of(gather, &options), "mx8");
        options.codec = nullptr;
        options.algorithm = "ring";
        Subject sum = gather;
        sum.collective = Collective::kAllReduce;
        sum.count = 4096;
        EXPECT_EQ(codec_of(sum), "q8");
        EXPECT_EQ(codec_of(sum, &options), "none") << "the algorithm cannot have it";
        options.algorithm = nullptr;
        options.reproducible = 1;
        EXPECT_EQ(codec_of(sum, &options), "none");
      },
      ">=1K=q8");
}

TEST(CodecsOfCalls, AreRefusedByNameWhereTheyCannotBe) {
  on_ranks(3, [](int /*rank*/, sennit_comm_t comm) {
    std::array<float, 64> x{};
    const auto refused = [&](const sennit_call_options_t& options,
                             sennit_dtype_t dtype,
                             sennit_status_t status,
                             std::string_view why) {
      EXPECT_EQ(
          sennit_all_reduce(x.data(), x.data(), 16, dtype, SENNIT_SUM, comm, nullptr, &options),
          status);
      EXPECT_NE(std::string_view(sennit_last_error_message()).find(why), std::string_view::npos)
          << sennit_last_error_message();
    };
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.codec = "q8";
    refused(options, SENNIT_INT32, SENNIT_UNSUPPORTED, "codec q8 does not take int32; it takes ");
    options.reproducible = 1;
    refused(options, SENNIT_FLOAT32, SENNIT_UNSUPPORTED, "cannot be reproducible with it");
    options.reproducible = 0;
    options.path = "cma";
    refused(options, SENNIT_FLOAT32, SENNIT_UNSUPPORTED, "codec q8 needs slots over path shm");
    options.path = nullptr;
    options.codec = "q9";
    refused(options, SENNIT_FLOAT32, SENNIT_INVALID_ARGUMENT, "there is no codec 'q9'");
    options.codec = "q8";
    options.algorithm = "recursive_doubling";
    refused(options, SENNIT_FLOAT32, SENNIT_UNSUPPORTED, "recursive_doubling cannot have codec q8");
    options.algorithm = nullptr;
    options.tile_bytes = 1000;
    refused(options, SENNIT_FLOAT32, SENNIT_INVALID_ARGUMENT, "the least is 2048");
  });
}

TEST(CodecsOfCalls, WrongRulesAreRefusedWhenRanksJoin) {
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.codec = "all_reduce=q9";
  sennit_comm_t comm = nullptr;
  EXPECT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, &config), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(sennit_last_error_message()).find("rule 'all_reduce=q9' for codecs"),
            std::string_view::npos)
      << sennit_last_error_message();
}

TEST(CodecsOfCalls, RanksThatDifferAreNamed) {
  on_ranks(3, [](int rank, sennit_comm_t comm) {
    std::array<float, 64> x{};
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.codec = rank == 1 ? "mx8" : "q8";
    EXPECT_EQ(
        sennit_all_reduce(
            x.data(), x.data(), x.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options),
        SENNIT_MISMATCH);
    const std::string message = sennit_last_error_message();
    EXPECT_NE(message.find("codec mx8"), std::string::npos) << message;
    EXPECT_NE(message.find("codec q8"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace sennit
