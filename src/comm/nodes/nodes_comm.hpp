// NodesComm: the calls of a communicator of GPU ranks on several nodes. Each is made of calls of
// the ranks of a node on their GPUs (DeviceComm), and of calls of host ranks between the nodes
// (CrossingThread), as comm/nodes/crossing.hpp divides it. All of it is put into the stream at
// once, so a call returns while its data is under way, and graphs can hold it:
//
//   GPU calls | copy part 0 in | copy part 1 in | ... | await part 0, copy it out | ... | GPU calls
#pragma once

#include "comm/communicator.hpp"
#include "comm/device/device_comm.hpp"
#include "comm/device/stream_order.hpp"
#include "comm/nodes/crossing_parts.hpp"
#include "comm/nodes/crossing_slots.hpp"
#include "comm/nodes/crossing_thread.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace sennit {

class NodesComm final : public GpuComm {
 public:
  // All ranks of `parent` together, a communicator of host ranks. `make_device_comm`: the GPU
  // calls of the ranks of one node, for their communicator. `driver` outlives the result.
  using MakeDeviceComm =
      std::function<Result<std::unique_ptr<DeviceComm>>(const std::shared_ptr<Communicator>&)>;
  static Result<std::unique_ptr<NodesComm>> create(CudaDriver& driver,
                                                   int device,
                                                   const std::shared_ptr<Communicator>& parent,
                                                   const MakeDeviceComm& make_device_comm);
  ~NodesComm() override;

  [[nodiscard]] int device() const override { return device_; }
  Status enqueue(std::span<const Call> calls) override;
  void expect_use_of(void* memory, std::size_t bytes) override;
  // Parts of a call lie at other offsets on each rank.
  std::uint64_t add_symmetric(void* memory, std::size_t bytes) override;
  void remove_symmetric(std::uint64_t /*number*/) override {}
  [[nodiscard]] Status failure() override;
  [[nodiscard]] Status trouble() override;
  Result<std::unique_ptr<CompletionEvent>> completion_in(void* stream) override {
    return node_->completion_in(stream);
  }
  void abort() override;
  Status finalize() override;

 private:
  NodesComm(CudaDriver& driver, int device, const Communicator& parent, NodeShape shape);

  Status join(const std::shared_ptr<Communicator>& parent, const MakeDeviceComm& make_device_comm);
  Status collective(const Call& call);
  Status messages(std::span<const Call> calls);
  Status make(const Crossing& crossing, void* stream);
  Result<std::vector<CrossingThread::Part>> prepare(const std::vector<CrossingPart>& parts,
                                                    bool is_captured);
  Status run_in_node(const std::vector<Operation>& operations, void* stream);
  Status copy_in(const CrossingPart& part, CrossingThread::Part&& calls, void* stream);
  Status copy_out(const CrossingPart& part, std::uint64_t number, bool is_captured, void* stream);
  Status make_room(const std::vector<CrossingPart>& parts, void* stream);
  Result<std::byte*> scratch(std::size_t bytes, void* stream);
  // The codec of the call, which is that of host ranks alone, and how other ranks know the call.
  Status name_call(const Operation& operation, HostCall& call) const;
  Status check_not_captured(void* stream, std::size_t bytes, std::string_view what) const;

  CudaDriver& driver_;
  int device_;
  CommConfig config_;
  CodecRules codec_rules_;
  NodeShape shape_;
  StreamOrder order_;
  std::shared_ptr<Communicator> node_ranks_;  // of this node; its memory outlives `node_`
  std::unique_ptr<DeviceComm> node_;
  // The last ones are used; streams and graphs may hold the addresses of the others. Each is at
  // least twice as large as the one before.
  std::vector<std::unique_ptr<CrossingSlots>> slots_;
  std::vector<void*> scratches_;  // device memory
  std::size_t scratch_bytes_ = 0;
  // Parts that graphs have, each with what its replays are made of.
  struct Captured {
    CrossingThread* thread = nullptr;
    CrossingThread::Part part;
  };
  static void replay(void* captured);
  std::vector<std::unique_ptr<Captured>> captured_;
  std::uint64_t parts_ = 0;  // so far
  bool is_finalized_ = false;
  std::unique_ptr<CrossingThread> crossings_;
};

}  // namespace sennit
