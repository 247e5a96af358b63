// Calls of host ranks on their way, as torch.distributed knows them.
#pragma once

#include "failures.hpp"
#include "operation.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sennit::pytorch {

// Started calls, and the tensors that they use.
class Started {
 public:
  Started() = default;
  Started(Started&&) = default;
  Started& operator=(Started&&) = default;
  ~Started();

  [[nodiscard]] bool has_ended() const { return works.empty() && !finish; }
  // Makes some progress.
  [[nodiscard]] bool can_end() const;
  // Waits for the calls at most so long, and does what remains. IN_PROGRESS: they go on.
  sennit_status_t wait(double timeout_s);

  std::vector<sennit_work_t> works;
  std::array<Tensors, 3> tensors;  // inputs, buffers, outputs
  std::function<void()> finish;
  bool is_recv = false;
  int source = -1;  // who sent, when a recv has ended
};

// Calls whose work the program has dropped: they go on until their end.
class Dropped {
 public:
  void add(Started started);
  // Lets go of those that have ended.
  void sweep();
  void clear();

 private:
  std::mutex mutex_;
  std::vector<Started> started_;
};

// Calls make progress inside of calls only: while one is waited for, all go on.
class HostWork final : public c10d::Work {
 public:
  HostWork(int rank, sennit_comm_t comm, std::shared_ptr<Dropped> dropped, Operation& operation);
  ~HostWork() override;

  // Makes the calls of the operation.
  void start(Operation& operation, double deadline_s);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return outputs_; }
  // Of a recv that was waited for.
  int sourceRank() const override;
  // One that is done: nothing in this process would make progress for whoever waits for it.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void wait_until_end(std::chrono::milliseconds timeout);

  std::mutex progress_;  // over what follows; never taken with the GIL
  Started started_;
  std::optional<Failure> failure_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;

  sennit_comm_t comm_;
  std::shared_ptr<Dropped> dropped_;
  Tensors outputs_;
};

// Works of one group that are one operation.
class ManyWorks final : public c10d::Work {
 public:
  ManyWorks(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);
  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

// A future that is done, with tensors as its value.
c10::intrusive_ptr<c10::ivalue::Future> future_of(const Tensors& tensors,
                                                  std::vector<c10::Device> devices = {});

}  // namespace sennit::pytorch
