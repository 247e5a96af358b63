// For tests: calls with a codec, and what each rank must get, by encode() and decode() of what the
// ranks gave.
#pragma once

#include "algo/algorithm.hpp"
#include "codec/codec.hpp"
#include "sennit/sennit.h"
#include "types/element.hpp"
#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sennit::codec_calls {

using Bytes = std::vector<std::byte>;

// Several tiles in a block of float32, and a rest.
inline constexpr std::int64_t kSlotBytes = 8 * 1024;

struct Subject {
  Collective collective;
  Codec codec;
  Dtype dtype;
  sennit_redop_t op = SENNIT_SUM;
  std::int64_t count = 0;
  bool in_place = false;
  std::string algorithm{};  // empty: the library's choice
};

inline std::string in_words(const Subject& s) {
  return fmt::format("{} {} of {} x {} by {}{}",
                     name(s.collective),
                     s.algorithm,
                     s.count,
                     name(s.dtype),
                     name(s.codec),
                     s.in_place ? ", in place" : "");
}

// ---- What ranks give ----

inline void store(float value, Dtype dtype, std::byte* to) {
  const auto put = [to](auto element) { std::memcpy(to, &element, sizeof(element)); };
  switch (dtype) {
    case Dtype::kFloat64:
      return put(static_cast<double>(value) * (1 + 0x1p-40));
    case Dtype::kFloat16:
      return put(narrow(value, Float16{}));
    case Dtype::kBfloat16:
      return put(narrow(value, Bfloat16{}));
    default:
      return put(value);
  }
}

inline Bytes input_of(Dtype dtype, int rank, std::int64_t elements) {
  const bool is_complex = kind_of(dtype) == Kind::kComplex;
  const Dtype part = dtype == Dtype::kComplex64    ? Dtype::kFloat32
                     : dtype == Dtype::kComplex128 ? Dtype::kFloat64
                                                   : dtype;
  Bytes bytes(static_cast<std::size_t>(elements) * size_bytes(dtype));
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  for (std::size_t at = 0; at < bytes.size(); at += size_bytes(dtype) / (is_complex ? 2 : 1)) {
    store(normal(random), part, bytes.data() + at);
  }
  return bytes;
}

// ---- What they must get ----

inline Bytes passed_through(Codec codec, Dtype dtype, const Bytes& values) {
  const std::size_t count = values.size() / size_bytes(dtype);
  std::vector<unsigned char> coded(*most_coded_bytes(codec, dtype, count));
  coded.resize(encode(codec, dtype, values.data(), count, coded.data()));
  Bytes decoded(values.size());
  EXPECT_TRUE(decode(codec, dtype, coded, decoded.data(), count).ok());
  return decoded;
}

class Oracle {
 public:
  Oracle(const Subject& subject, int ranks) : subject_(subject) {
    const std::string_view algorithm =
        subject.algorithm.empty() ? chosen(subject) : subject.algorithm;
    problem_ =
        make_schedule(**find_algorithm(subject.collective, algorithm), {.ranks = ranks})->problem;
    // For two ranks these three are the same two steps.
    const bool in_two_steps =
        algorithm == "two_shot" ||
        (ranks == 2 && (algorithm == "ring" || algorithm == "halving_doubling"));
    sums_travel_ = subject.collective == Collective::kAllReduce && in_two_steps && ranks > 1;
  }

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::int64_t elements(int blocks) const {
    return is_cut(problem_.collective) ? (blocks > 0 ? subject_.count : 0)
                                       : blocks * subject_.count;
  }
  [[nodiscard]] ElementRange range(int block) const {
    return block_range(
        problem_, subject_.count, static_cast<std::int64_t>(size_bytes(subject_.dtype)), block);
  }

  [[nodiscard]] Bytes block(int rank, int index) const {
    const Problem::Contributions wanted = problem_.expected(rank, index);
    std::vector<Bytes> given;
    for (const int source : wanted.ranks) {
      const bool stays = source == rank && has_one_receiver() && problem_.ranks > 0;
      const Bytes plain = part_of(source, wanted.index);
      given.push_back(stays ? plain : passed_through(subject_.codec, subject_.dtype, plain));
    }
    if (!is_reduction(problem_.collective)) {
      return given.front();
    }
    const Bytes sum = reduced(given);
    return sums_travel_ ? passed_through(subject_.codec, subject_.dtype, sum) : sum;
  }

 private:
  // As the library's rules have it.
  static std::string_view chosen(const Subject& s) {
    const std::int64_t bytes = s.count * static_cast<std::int64_t>(size_bytes(s.dtype));
    if (s.collective != Collective::kAllReduce) {
      return "direct";
    }
    const bool lossless = is_lossless(s.codec);
    return bytes > 16 * 1024 ? "two_shot" : lossless ? "recursive_doubling" : "one_shot";
  }

  [[nodiscard]] bool has_one_receiver() const {
    return problem_.collective == Collective::kAllToAll ||
           problem_.collective == Collective::kGather ||
           problem_.collective == Collective::kScatter;
  }

  [[nodiscard]] Bytes part_of(int rank, int index) const {
    const Bytes input = input_of(subject_.dtype, rank, elements(problem_.input_blocks(rank)));
    const ElementRange part = range(index);
    const auto size = static_cast<std::ptrdiff_t>(size_bytes(subject_.dtype));
    const auto begin = input.begin() + part.begin * size;
    return {begin, begin + part.length * size};
  }

  [[nodiscard]] Bytes reduced(const std::vector<Bytes>& given) const {
    const auto op = static_cast<ReduceOp>(subject_.op);
    std::vector<Operand> operands;
    for (const Bytes& one : given) {
      operands.push_back({.data = one.data()});
    }
    Bytes out(given.front().size());
    reduce(subject_.dtype,
           op,
           {.scalar = {}, .ranks = problem_.ranks},
           {.out = out.data(),
            .operands = operands,
            .elements = static_cast<std::int64_t>(out.size() / size_bytes(subject_.dtype)),
            .is_finished = finishes_sum(op)});
    return out;
  }

  Subject subject_;
  Problem problem_;
  bool sums_travel_ = false;
};

// ---- Calls ----

inline sennit_status_t call(const Subject& s,
                            const void* send,
                            void* recv,
                            sennit_comm_t comm,
                            const sennit_call_options_t* options) {
  const auto count = static_cast<std::size_t>(s.count);
  const auto type = static_cast<sennit_dtype_t>(s.dtype);
  switch (s.collective) {
    case Collective::kAllReduce:
      return sennit_all_reduce(send, recv, count, type, s.op, comm, nullptr, options);
    case Collective::kReduce:
      return sennit_reduce(send, recv, count, type, s.op, 0, comm, nullptr, options);
    case Collective::kBroadcast:
      return sennit_broadcast(send, recv, count, type, 0, comm, nullptr, options);
    case Collective::kAllGather:
      return sennit_all_gather(send, recv, count, type, comm, nullptr, options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(send, recv, count, type, s.op, comm, nullptr, options);
    case Collective::kAllToAll:
      return sennit_all_to_all(send, recv, count, type, comm, nullptr, options);
    case Collective::kGather:
      return sennit_gather(send, recv, count, type, 0, comm, nullptr, options);
    case Collective::kScatter:
      return sennit_scatter(send, recv, count, type, 0, comm, nullptr, options);
    case Collective::kSendRecv:
    case Collective::kBarrier:
      break;
  }
  return SENNIT_INVALID_ARGUMENT;
}

inline void on_ranks(int ranks,
                     const std::function<void(int, sennit_comm_t)>& work,
                     const char* rules = nullptr,
                     std::int64_t slot_bytes = kSlotBytes) {
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.slot_bytes = slot_bytes;
  config.codec = rules;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      sennit_comm_t comm = nullptr;
      ASSERT_EQ(sennit_comm_init_rank(&comm, ranks, &id, rank, &config), SENNIT_OK)
          << sennit_last_error_message();
      work(rank, comm);
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

inline sennit_call_options_t options_for(const Subject& s) {
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.codec = name(s.codec).data();
  options.algorithm = s.algorithm.empty() ? nullptr : s.algorithm.c_str();
  return options;
}

// Buffers of a rank; in place, the input stands in its place of the output.
struct Buffers {
  Bytes send;
  Bytes recv;
  std::byte* input = nullptr;
  std::byte* output = nullptr;

  Buffers(const Subject& s, const Oracle& oracle, int rank) {
    const Problem& problem = oracle.problem();
    const std::size_t size = size_bytes(s.dtype);
    send = input_of(s.dtype, rank, oracle.elements(problem.input_blocks(rank)));
    recv.assign(static_cast<std::size_t>(oracle.elements(problem.output_blocks(rank))) * size,
                std::byte{0x5a});
    input = send.data();
    output = recv.data();
    for (int block = 0; s.in_place && block < problem.output_blocks(rank); ++block) {
      const auto alias = problem.aliased_input(rank, block);
      if (!alias) {
        continue;
      }
      const std::ptrdiff_t offset = (oracle.range(block).begin - oracle.range(*alias).begin) *
                                    static_cast<std::ptrdiff_t>(size);
      if (send.size() > recv.size()) {
        output = send.data() - offset;
      } else {
        std::ranges::copy(send, recv.begin() + offset);
        input = recv.data() + offset;
      }
      return;
    }
  }
};

inline std::string first_difference(const Subject& s,
                                    const Oracle& oracle,
                                    int rank,
                                    const std::byte* got) {
  const std::size_t size = size_bytes(s.dtype);
  for (int block = 0; block < oracle.problem().output_blocks(rank); ++block) {
    const ElementRange range = oracle.range(block);
    if (range.length == 0) {
      continue;
    }
    const Bytes wanted = oracle.block(rank, block);
    const std::byte* const at = got + static_cast<std::size_t>(range.begin) * size;
    for (std::size_t i = 0; i < wanted.size(); i += size) {
      if (std::memcmp(at + i, wanted.data() + i, size) != 0) {
        return fmt::format(
            "{}, rank {} block {}: element {} differs", in_words(s), rank, block, i / size);
      }
    }
  }
  return "";
}

}  // namespace sennit::codec_calls
