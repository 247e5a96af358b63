// FakeHandles, for tests: the C ABI on ranks with fake GPUs.
#pragma once

#include "capi/handles.hpp"
#include "comm/device/testing/fake_messages.hpp"

#include <utility>

namespace sennit::tests {

class FakeHandles : public FakeMessages {
 protected:
  // The rank behind a handle, as sennit_comm_init_rank would have made it.
  static void give(Rank& rank, sennit_comm& handle) {
    handle.comm = rank.joined;
    handle.config = rank.joined->config();
    handle.device = std::move(rank.comm);
    handle.engine = ProgressEngine::of_this_thread();
    handle.engine->attach(handle.comm);
  }
  static void take_back(Rank& rank, sennit_comm& handle) {
    rank.comm.reset(static_cast<DeviceComm*>(handle.device.release()));
    handle.engine->detach(*handle.comm);
  }
};

}  // namespace sennit::tests
