// DeviceBootstrap: the ranks of a communicator with their GPUs, while they set up what they share.
// All functions that say so are called by all ranks together; each rank leaves them with the same
// answer, so that no rank goes on while another has given up.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "select/device_sharing.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sennit {

// Gives `bytes` bytes of every rank to every rank, in the order of ranks: an all_gather on the
// host.
using Exchange = std::function<Status(const void* mine, void* all, std::size_t bytes)>;

struct DeviceIdentity {
  int device = 0;
  int rank = 0;
  int ranks = 1;
  int group = 0;  // of ranks that paths nvlink and device may join, by the user's word
  // The same on all ranks: what SENNIT_PATHS allows.
  bool may_use_nvlink = true;
  bool may_use_device = true;
};

// What one rank writes does not get into the other's memory.
struct BrokenPair {
  int from = 0;
  int to = 0;
};

class DeviceBootstrap {
 public:
  // All together. `driver` and `exchange` outlive the result.
  static Result<DeviceBootstrap> open(CudaDriver& driver,
                                      const DeviceIdentity& identity,
                                      const Exchange& exchange);

  [[nodiscard]] CudaDriver& driver() const { return *driver_; }
  [[nodiscard]] int rank() const { return identity_.rank; }
  [[nodiscard]] int ranks() const { return identity_.ranks; }
  // By the rank's own number of it.
  [[nodiscard]] int device_of(int rank) const { return of(rank).device; }
  [[nodiscard]] std::vector<std::uint64_t> processes() const;
  [[nodiscard]] const std::array<std::uint8_t, 16>& uuid_of(int rank) const {
    return of(rank).uuid;
  }
  [[nodiscard]] bool is_of_this_process(int rank) const {
    return share_process(rank, identity_.rank);
  }
  [[nodiscard]] bool share_process(int a, int b) const { return of(a).process == of(b).process; }
  [[nodiscard]] bool share_device(int a, int b) const { return of(a).uuid == of(b).uuid; }
  // Whether a device runs the kernels of one only while those of the other stand still: both are
  // processes that share it without the Multi-Process Service.
  [[nodiscard]] bool run_in_turn(int a, int b) const {
    return share_device(a, b) && !share_process(a, b) && !(of(a).has_mps && of(b).has_mps);
  }
  [[nodiscard]] DeviceSharing sharing() const;
  [[nodiscard]] GpusOfRanks gpus() const;
  // Why the user's settings keep two ranks from each other's memory, `groups_by` being what divides
  // ranks into groups; empty: they do not.
  [[nodiscard]] std::string forbidden_reach(int a, int b, std::string_view groups_by) const;
  // "rank 2 (device 1)"
  [[nodiscard]] std::string describe(int rank) const;
  // "rank 2 (device 1) to rank 3 (device 0), ..."; of many, the first.
  [[nodiscard]] std::string describe(const std::vector<BrokenPair>& pairs) const;

  // All together: what each rank gives, by rank.
  template <typename T>
  Result<std::vector<T>> exchange(const T& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(ranks()));
    SENNIT_RETURN_IF_ERROR((*exchange_)(&mine, all.data(), sizeof(mine)));
    return all;
  }
  // All together: ok when all are.
  [[nodiscard]] Status agree(const Status& mine) const;
  // All together: each rank reports, by rank, whether what it writes does not get there.
  [[nodiscard]] Result<std::vector<BrokenPair>> gather(const std::vector<char>& broken_to) const;

 private:
  struct Member {
    std::uint64_t process = 0;
    std::array<std::uint8_t, 16> uuid{};
    std::int32_t device = 0;
    std::int32_t group = 0;
    bool has_mps = false;
  };

  DeviceBootstrap(CudaDriver& driver, const DeviceIdentity& identity, const Exchange& exchange)
      : driver_(&driver), identity_(identity), exchange_(&exchange) {}
  [[nodiscard]] const Member& of(int rank) const {
    return members_[static_cast<std::size_t>(rank)];
  }

  CudaDriver* driver_;
  DeviceIdentity identity_;
  const Exchange* exchange_;
  std::vector<Member> members_;  // by rank
};

}  // namespace sennit
