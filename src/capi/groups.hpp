// Groups: calls of one thread that are posted together.
#pragma once

#include "capi/handles.hpp"

#include <memory>
#include <vector>

namespace sennit {

// What the caller has posted in the open group of this thread.
struct Group {
  struct Entry {
    sennit_comm_t comm;
    Operation operation;
    void* stream;
    sennit_work_t work;  // the caller's handle, or null
  };
  int depth = 0;
  std::vector<Entry> entries;
  Status failure;  // of the first call in the group that failed; the group's end reports it
};

// The calling thread's; open while its depth is not 0.
Group& group();

// Refuses what ends a communicator while the group holds calls of it, which its end is to make.
Status check_not_in_open_group(sennit_comm_t comm);

// Prepares everything before anything is posted: a wrong argument anywhere stops the whole group on
// this rank before a peer has seen a part of it.
Status end_group();

// Makes the handle the work of a call of a GPU rank that is going to be enqueued into `stream`.
Status prepare_device_work(sennit_work& handle, const Operation& operation, void* stream);

}  // namespace sennit
