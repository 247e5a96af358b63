// Joining: how a communicator's handle comes to be, now or in the background, on host memory or on
// GPUs.
#pragma once

#include "capi/handles.hpp"
#include "sennit/sennit.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

namespace sennit {

// The number of the CUDA device that a config names; -1 for "host".
Result<int> device_of(std::string_view name);

// A caller built against an older header has a shorter struct: what it lacks is zero.
Result<sennit_config_t> read_config(const sennit_config_t* config);

// Explicit fields over `base`.
CommConfig merge(CommConfig base, const sennit_config_t& config);

// Lets a join that runs on another thread be given up, wherever it waits.
class BackgroundJoin {
 public:
  // By whoever no longer wants the communicator. The thread ends soon, and what it has made with
  // it.
  void give_up();

  // For the thread: why it joins in vain, or ok.
  [[nodiscard]] Status reason() const;
  // The host ranks have joined; their communicator is aborted when the join is given up.
  void enter(const std::shared_ptr<Communicator>& comm);

 private:
  mutable std::mutex mutex_;
  bool is_given_up_ = false;
  std::weak_ptr<Communicator> comm_;
};

using Joining = std::function<Result<std::shared_ptr<Communicator>>()>;
// `reason`: see JoinInterruption; may be empty.
using InterruptibleJoining =
    std::function<Result<std::shared_ptr<Communicator>>(const std::function<Status()>& reason)>;

// Joins the ranks, and their GPUs where the config names some. Run by the thread whose calls the
// communicator will take, or on its behalf while nobody else knows the handle.
Status join_ranks(sennit_comm& handle, const Joining& join_host_ranks);

// Joins now, or in the background when the config says so; the handle exists in both cases.
Status open(sennit_comm_t* result,
            const CommConfig& config,
            bool non_blocking,
            const InterruptibleJoining& join_host_ranks);

}  // namespace sennit
