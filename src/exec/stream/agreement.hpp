// Agreement: all ranks decide together whether copy engines run a call, for which they reach into
// each other's memory, and learn where that lies. Copies need addresses when they are put into a
// stream, and only a rank itself knows its buffers, so the ranks meet here on the host, in shared
// memory, at each such call:
//
//   1. Each rank names its buffers: by the id of their allocation, or as unreachable.
//   2. Each reads those of all, once they make the same call. One that cannot be reached: no rank
//      reaches into any.
//   3. Where something is offered for the first time, each maps it and judges; one that could not:
//      no rank does, this time.
//
// A call that finds its peers waiting takes a microsecond; nobody runs ahead of the others by more
// than the call that is agreed about. docs/decisions/0016-copy-engines-pull.md and
// 0037-copy-engines-put.md say why.
#pragma once

#include "exec/stream/stream_engine.hpp"
#include "memory/peer_buffers.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sennit {

class Agreement {
 public:
  // `world` and `buffers` outlive the result.
  Agreement(World& world, PeerBuffers& buffers) : world_(world), buffers_(buffers) {}

  struct Buffer {
    const void* pointer = nullptr;  // null: no other rank accesses it
    std::int64_t bytes = 0;
  };
  struct Request {
    Buffer input{};
    Buffer output{};
    Buffer staging{};
    WindowPlace place{};  // of the output
    decltype(Scaling::scalar) scalar{};
    bool takes_part = true;
    bool takes_slow = true;     // also an output that is slow to copy
    bool is_idle = false;       // this rank's stream has nothing to do before the call
    bool is_capturing = false;  // nothing may be mapped now
    // Asked while waiting: why it is in vain, or ok.
    std::function<Status()> trouble;
  };
  struct Reached {
    std::vector<stream::Buffers> buffers{};  // by rank
    bool are_all_idle = false;               // the streams of all ranks
    bool is_symmetric = false;               // their outputs lie at the same place of a window
  };
  // None when copy engines do not run this call, which all ranks then know.
  Result<std::optional<Reached>> reach(const Request& request);

  // Whether all ranks, which all ask, say yes.
  Result<bool> do_all_agree(bool mine, const std::function<Status()>& trouble);

 private:
  AgreementLine& line(int rank) const { return world_.device_line(rank).agreements[number_ % 2]; }
  template <typename Predicate>
  Status await_all(const std::function<Status()>& trouble, Predicate is_there) const;
  void offer(const Request& request);
  [[nodiscard]] bool makes_this_call(int rank) const;
  Result<bool> judge(bool mine, const std::function<Status()>& trouble);
  Status map_all(std::vector<stream::Buffers>& buffers);
  [[nodiscard]] bool is_possible() const;
  [[nodiscard]] bool has_news() const;
  [[nodiscard]] bool are_all_idle() const;
  [[nodiscard]] bool is_symmetric() const;

  World& world_;
  PeerBuffers& buffers_;
  std::uint64_t number_ = 0;
};

}  // namespace sennit
