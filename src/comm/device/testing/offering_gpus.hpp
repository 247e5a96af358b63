// OfferingGpus, for tests: ranks with fake GPUs whose messages run (fake_pairs_kernel.hpp), and how
// often each has offered a buffer to a sender.
#pragma once

#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <numeric>

namespace sennit::tests {

class OfferingGpus : public FakeMessages {
 protected:
  OfferingGpus() {
    options_.profile->message_copies_from_bytes = kNever;
    prepare_ = [this](Rank& rank) { count_announced(*rank.cuda, rank.rank); };
  }

  // Runs the kernels of a driver, and counts for a rank what they offer.
  void count_announced(FakeCuda& cuda, int rank) {
    cuda.run_kernels([&count = announced_[static_cast<std::size_t>(rank)]](const void* kernel,
                                                                           const void* parameters) {
      count += static_cast<int>(offers_in(kernel, parameters).size());
      return fake_pairs_kernel(kernel, parameters);
    });
  }

  // Ranks are threads of one process from here on; what they offer is counted together.
  void share_a_process() {
    shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
    prepare_ = nullptr;
    count_announced(*shared_cuda_, 0);
  }

  // How often the rank has offered a buffer; and all together.
  [[nodiscard]] int announced(const Rank& rank) const {
    return announced_[static_cast<std::size_t>(rank.rank)];
  }
  [[nodiscard]] int all_announced() const {
    return std::accumulate(announced_.begin(), announced_.end(), 0);
  }

 private:
  std::array<std::atomic<int>, kRanks> announced_{};
};

}  // namespace sennit::tests
