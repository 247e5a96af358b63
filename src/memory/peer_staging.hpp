// PeerStaging: staging buffers in device memory for GPUs that reach each other, in a communicator
// whose FIFOs lie in host memory because not all do.
//
// The ranks are parted into groups in which every GPU reaches every other; staging buffers between
// groups stay in host memory. Calls that run step by step use both and need not know
// (memory/staging.hpp).
#pragma once

#include "memory/peer_memory.hpp"
#include "memory/staging.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace sennit {

// Ranks in ascending order, each in the first group all of whose members it has no broken pair
// with, in either direction.
std::vector<std::vector<int>> part_ranks(int ranks, const std::vector<BrokenPair>& broken);

class PeerStaging {
 public:
  // All together. Null where no two ranks are in one group.
  static Result<std::unique_ptr<PeerStaging>> open(const DeviceBootstrap& bootstrap,
                                                   const sm::StagingShape& shape);

  // The staging buffer that `writer` writes for `reader`, one of which this rank is; null: they are
  // of different groups.
  [[nodiscard]] std::byte* staging(int writer, int reader) const;
  // Each in ascending order, by their first ranks; the same on all ranks.
  [[nodiscard]] const std::vector<std::vector<int>>& groups() const { return groups_; }

 private:
  PeerStaging(const DeviceBootstrap& bootstrap, const sm::StagingShape& shape)
      : shape_(shape), memory_(bootstrap) {}
  Status place(const DeviceBootstrap& bootstrap);
  [[nodiscard]] std::vector<char> others_of_group(int rank) const;
  [[nodiscard]] bool has_pairs() const;
  void part_further(const std::vector<BrokenPair>& broken);

  sm::StagingShape shape_;
  PeerMemory memory_;
  std::vector<std::vector<int>> groups_;
};

}  // namespace sennit
