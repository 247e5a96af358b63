// All_reduces that normalise rows, of ranks that are processes: in the kernel of the call and by
// one behind it they have the same bits, which are close to what the host computes in double.
#include "call_buffer.hpp"
#include "captured_graph.hpp"

#include "types/element.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

struct RowsCase {
  std::size_t rows = 1;
  std::size_t row_elements = 4096;
  sennit_dtype_t dtype = SENNIT_BFLOAT16;
  bool in_place = false;
  bool has_residual = true;
  bool has_weight = true;
  bool quantizes = true;

  [[nodiscard]] std::size_t count() const { return rows * row_elements; }
};

std::string described(const RowsCase& c) {
  return std::to_string(c.rows) + " rows of " + std::to_string(c.row_elements) + ", dtype " +
         std::to_string(c.dtype) + (c.in_place ? ", in place" : "") +
         (c.has_residual ? ", residual" : "") + (c.has_weight ? ", weight" : "");
}

float widened(const RowsCase& c, std::uint16_t bits) {
  return c.dtype == SENNIT_BFLOAT16 ? widen(Bfloat16{bits}) : widen(Float16{bits});
}
std::uint16_t narrowed(const RowsCase& c, float value) {
  return c.dtype == SENNIT_BFLOAT16 ? narrow(value, Bfloat16{}).bits
                                    : narrow(value, Float16{}).bits;
}

using Values = std::vector<std::uint16_t>;

// About -2 to 2; the same wherever it is made.
Values values_of(const RowsCase& c, std::size_t count, std::uint64_t seed) {
  Values values(count);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::uint16_t& value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    value = narrowed(c, static_cast<float>(state >> 40) / 4194304.0F - 2.0F);
  }
  return values;
}

// Memory of the device with these values.
template <typename T>
class Device {
 public:
  explicit Device(std::size_t count) : count_(count) {
    check_cuda(cudaMalloc(&memory_, count * sizeof(T)));
  }
  ~Device() { check_cuda(cudaFree(memory_)); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] T* get() const { return memory_; }
  void put(const std::vector<T>& values) const {
    check_cuda(
        cudaMemcpy(memory_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(count_);
    check_cuda(cudaMemcpy(values.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* memory_ = nullptr;
  std::size_t count_;
};

constexpr float kEpsilon = 1e-5F;
constexpr float kScale = 0.01F;

class RowsRank {
 public:
  RowsRank(const GpuProcess& self, const RowsCase& c)
      : self_(self),
        c_(c),
        send_(c.count()),
        recv_(c.count()),
        residual_(c.count()),
        weight_(c.row_elements),
        quantized_(c.count()),
        scale_(1) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    weight_.put(weights());
    scale_.put({kScale});
    refill();
  }
  ~RowsRank() {
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaStreamDestroy(stream_));
  }
  RowsRank(const RowsRank&) = delete;
  RowsRank& operator=(const RowsRank&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  void refill() const {
    send_.put(contribution(self_.rank()));
    recv_.put(c_.in_place ? contribution(self_.rank()) : Values(c_.count(), 0x1234));
    residual_.put(residuals());
    quantized_.put(std::vector<std::uint8_t>(c_.count(), 0x55));
  }

  void call(sennit_comm_t comm, const char* protocol) const {
    sennit_rms_norm_t norm = SENNIT_RMS_NORM_INITIALIZER;
    norm.row_elements = c_.row_elements;
    norm.epsilon = kEpsilon;
    norm.residual = c_.has_residual ? residual_.get() : nullptr;
    norm.weight = c_.has_weight ? weight_.get() : nullptr;
    norm.quantized = c_.quantizes ? quantized_.get() : nullptr;
    norm.scale = c_.quantizes ? scale_.get() : nullptr;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = protocol;
    options.algorithm = protocol == nullptr ? nullptr : "one_shot";
    options.rms_norm = &norm;
    ASSERT_EQ(sennit_all_reduce(c_.in_place ? recv_.get() : send_.get(),
                                recv_.get(),
                                c_.count(),
                                c_.dtype,
                                SENNIT_SUM,
                                comm,
                                stream_,
                                &options),
              SENNIT_OK)
        << described(c_) << ": " << sennit_last_error_message();
  }

  struct Result {
    Values output;
    Values residual;
    std::vector<std::uint8_t> quantized;
    bool operator==(const Result&) const = default;
  };
  [[nodiscard]] Result result() const {
    check_cuda(cudaStreamSynchronize(stream_));
    return {recv_.values(), residual_.values(), quantized_.values()};
  }

  // Sums are made in the order of ranks, so what is normalised has the host's bits. The result may
  // differ by a unit of its last place, since the host's factor is rounded differently.
  void check(const Result& result) const {
    std::size_t wrong = 0;
    for (std::size_t row = 0; row < c_.rows; ++row) {
      const std::vector<float> normalised = normalised_row(row, result, wrong);
      double squares = 0;
      for (const float value : normalised) {
        squares += static_cast<double>(value) * value;
      }
      const double factor =
          1 / std::sqrt(squares / static_cast<double>(c_.row_elements) + kEpsilon);
      for (std::size_t i = 0; i < c_.row_elements; ++i) {
        const double weight = c_.has_weight ? widened(c_, weights()[i]) : 1;
        const double expected = normalised[i] * factor * weight;
        const std::size_t at = row * c_.row_elements + i;
        const float found = widened(c_, result.output[at]);
        const double unit = c_.dtype == SENNIT_BFLOAT16 ? 1.0 / 128 : 1.0 / 1024;
        wrong += std::abs(found - expected) <= std::abs(expected) * unit + 1e-7 ? 0U : 1U;
        const float limited = std::clamp(found / kScale, -448.0F, 448.0F);
        wrong +=
            !c_.quantizes || result.quantized[at] == narrow(limited, Float8E4m3fn{}).bits ? 0U : 1U;
      }
    }
    ASSERT_EQ(wrong, 0U) << described(c_);
  }

 private:
  [[nodiscard]] Values contribution(int rank) const {
    return values_of(c_, c_.count(), static_cast<std::uint64_t>(rank) + 1);
  }
  [[nodiscard]] Values residuals() const { return values_of(c_, c_.count(), 100); }
  [[nodiscard]] const Values& weights() const {
    static Values made;
    if (made.size() != c_.row_elements || made_of_ != c_.dtype) {
      made = values_of(c_, c_.row_elements, 101);
      made_of_ = c_.dtype;
    }
    return made;
  }

  // What the host normalises; counts what the device has otherwise.
  [[nodiscard]] std::vector<float> normalised_row(std::size_t row,
                                                  const Result& result,
                                                  std::size_t& wrong) const {
    static std::vector<Values> all;
    static std::string of;
    if (of != described(c_)) {
      all.clear();
      for (int rank = 0; rank < self_.ranks(); ++rank) {
        all.push_back(contribution(rank));
      }
      all.push_back(residuals());
      of = described(c_);
    }
    std::vector<float> values;
    for (std::size_t i = row * c_.row_elements; i < (row + 1) * c_.row_elements; ++i) {
      float sum = widened(c_, all[0][i]);
      for (int rank = 1; rank < self_.ranks(); ++rank) {
        sum += widened(c_, all[static_cast<std::size_t>(rank)][i]);
      }
      std::uint16_t value = narrowed(c_, sum);
      if (c_.has_residual) {
        value = narrowed(c_, widened(c_, value) + widened(c_, all.back()[i]));
      }
      wrong += c_.has_residual && result.residual[i] != value ? 1U : 0U;
      values.push_back(widened(c_, value));
    }
    return values;
  }

  const GpuProcess& self_;
  RowsCase c_;
  cudaStream_t stream_ = nullptr;
  Device<std::uint16_t> send_;
  Device<std::uint16_t> recv_;
  Device<std::uint16_t> residual_;
  Device<std::uint16_t> weight_;
  Device<std::uint8_t> quantized_;
  Device<float> scale_;
  inline static sennit_dtype_t made_of_ = SENNIT_FLOAT32;
};

void run_case(const GpuProcess& self, sennit_comm_t comm, const RowsCase& c) {
  const RowsRank rows(self, c);
  rows.call(comm, "ll");
  const RowsRank::Result fused = rows.result();
  rows.check(fused);
  for (const char* const protocol : {"ll128", "slots", static_cast<const char*>(nullptr)}) {
    rows.refill();
    rows.call(comm, protocol);
    EXPECT_TRUE(rows.result() == fused)
        << described(c) << ", protocol " << (protocol == nullptr ? "of choice" : protocol);
  }
}

class NormalisedRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

TEST_F(NormalisedRows, HaveTheSameBitsInEveryKernel) {
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    sennit_comm_t comm = self.join("all");
    for (const sennit_dtype_t dtype : {SENNIT_BFLOAT16, SENNIT_FLOAT16}) {
      for (const std::size_t row : {8, 256, 4096, 5120, 8192, 20'000}) {
        for (const std::size_t rows : {1, 3, 40}) {
          for (const bool in_place : {false, true}) {
            if (!::testing::Test::HasFailure()) {
              run_case(self,
                       comm,
                       {.rows = rows, .row_elements = row, .dtype = dtype, .in_place = in_place});
            }
          }
        }
      }
      run_case(self, comm, {.rows = 5, .dtype = dtype, .has_residual = false});
      run_case(self,
               comm,
               {.rows = 2,
                .row_elements = 12'288,
                .dtype = dtype,
                .has_residual = false,
                .quantizes = false});
      run_case(self, comm, {.rows = 5, .dtype = dtype, .has_weight = false, .quantizes = false});
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

TEST_F(NormalisedRows, AreCapturedAmongOtherCalls) {
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    sennit_comm_t comm = self.join("all");
    const RowsRank one(self, {.rows = 1, .quantizes = false});
    const RowsRank many(self, {.rows = 64, .row_elements = 8192, .quantizes = false});
    const Buffer plain(kSmall);
    plain.fill(1.0F + static_cast<float>(self.rank()));
    const auto calls = [&] {
      one.call(comm, nullptr);
      EXPECT_EQ(all_reduce(comm, plain), SENNIT_OK);
    };
    calls();
    many.call(comm, nullptr);
    check_cuda(cudaDeviceSynchronize());
    const CapturedGraph replay(one.stream(), [&] { one.call(comm, nullptr); });
    const CapturedGraph replay_many(many.stream(), [&] { many.call(comm, nullptr); });
    for (int i = 0; i < 20; ++i) {
      one.refill();
      many.refill();
      check_cuda(cudaDeviceSynchronize());
      replay.launch(1);
      one.check(one.result());
      EXPECT_EQ(all_reduce(comm, plain), SENNIT_OK);
      check_cuda(cudaDeviceSynchronize());
      replay_many.launch(1);
      many.check(many.result());
    }
    plain.expect(sum_of_ranks(self));
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

}  // namespace
}  // namespace sennit::tests
