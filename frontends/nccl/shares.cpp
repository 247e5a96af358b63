#include "shares.hpp"

#include "sennit/tools.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace sennit_nccl {
namespace {

struct Begun {
  std::mutex mutex;
  std::map<ncclComm_t, pid_t> comms;  // and the process that made them
};

void say(const std::string& which, ncclComm_t comm) {
  const std::string line = which + ": " + std::to_string(comm->calls) + " calls of " +
                           std::to_string(comm->bytes) + " bytes ran on Sennit, " +
                           std::to_string(comm->passed_on) + " were passed on";
  sennit_tool_log("nccl", line.c_str());
}

void say_what_is_left();

Begun& begun() {
  static auto& all = []() -> Begun& {
    std::atexit(say_what_is_left);
    return *new Begun;  // never freed: others may end their communicators after this one's time
  }();
  return all;
}

// A child that was forked has its parent's communicators, and perhaps a lock that nobody holds.
void say_what_is_left() {
  const std::unique_lock lock(begun().mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    return;
  }
  for (const auto& [comm, process] : begun().comms) {
    if (process == getpid()) {
      say("a communicator is there when the program ends", comm);
    }
  }
}

}  // namespace

void begin_share(ncclComm_t comm) {
  const std::scoped_lock lock(begun().mutex);
  begun().comms[comm] = getpid();
}

void end_share(ncclComm_t comm) {
  {
    const std::scoped_lock lock(begun().mutex);
    begun().comms.erase(comm);
  }
  say("a communicator ends", comm);
}

}  // namespace sennit_nccl
