// For tests: memory and a stream of a GPU rank that is a process, and calls on them whose values
// are closed formulas.
#pragma once

#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <cstddef>
#include <vector>

namespace sennit::tests {

inline constexpr std::size_t kSmall = 1000;
inline constexpr std::size_t kLarge = std::size_t{40} << 20;  // elements; copy engines move those

// Memory, and a stream in which a rank calls.
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check_cuda(cudaMalloc(&memory_, 2 * count * sizeof(float)));
  }
  ~Buffer() {
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaFree(memory_));
    check_cuda(cudaStreamDestroy(stream_));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] float* input() const { return memory_; }
  [[nodiscard]] float* output() const { return memory_ + count_; }
  [[nodiscard]] std::size_t count() const { return count_; }

  void fill(float value) const {
    const std::vector<float> all(count_, value);
    check_cuda(cudaMemcpyAsync(
        memory_, all.data(), count_ * sizeof(float), cudaMemcpyHostToDevice, stream_));
    check_cuda(cudaStreamSynchronize(stream_));
  }
  // All elements of the output, behind what the stream holds.
  void expect(float value) const {
    std::vector<float> got(count_);
    check_cuda(cudaMemcpyAsync(
        got.data(), output(), count_ * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    check_cuda(cudaStreamSynchronize(stream_));
    std::size_t wrong = 0;
    for (const float element : got) {
      wrong += element == value ? 0U : 1U;
    }
    EXPECT_EQ(wrong, 0U) << "of " << count_ << " elements, the first is " << got.front();
  }

 private:
  std::size_t count_;
  cudaStream_t stream_ = nullptr;
  float* memory_ = nullptr;
};

inline float sum_of_ranks(const GpuProcess& self, float first = 1) {
  float sum = 0;
  for (int rank = 0; rank < self.ranks(); ++rank) {
    sum += first + static_cast<float>(rank);
  }
  return sum;
}

inline sennit_status_t all_reduce(sennit_comm_t comm, const Buffer& buffer) {
  return sennit_all_reduce(buffer.input(),
                           buffer.output(),
                           buffer.count(),
                           SENNIT_FLOAT32,
                           SENNIT_SUM,
                           comm,
                           buffer.stream(),
                           nullptr);
}

// A call that all ranks make, and its values.
inline void expect_sum(const GpuProcess& self,
                       sennit_comm_t comm,
                       const Buffer& buffer,
                       float first = 1) {
  buffer.fill(first + static_cast<float>(self.rank()));
  EXPECT_EQ(all_reduce(comm, buffer), SENNIT_OK) << sennit_last_error_message();
  buffer.expect(sum_of_ranks(self, first));
}

// Around the ring of ranks.
inline sennit_status_t exchange(const GpuProcess& self,
                                sennit_comm_t comm,
                                const float* in,
                                float* out,
                                std::size_t count,
                                cudaStream_t stream) {
  const int next = (self.rank() + 1) % self.ranks();
  const int previous = (self.rank() + self.ranks() - 1) % self.ranks();
  EXPECT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(sennit_send(in, count, SENNIT_FLOAT32, next, comm, stream, nullptr), SENNIT_OK);
  EXPECT_EQ(sennit_recv(out, count, SENNIT_FLOAT32, previous, comm, stream, nullptr), SENNIT_OK);
  return sennit_group_end();
}

inline float previous_of(const GpuProcess& self) {
  return static_cast<float>((self.rank() + self.ranks() - 1) % self.ranks());
}

}  // namespace sennit::tests
