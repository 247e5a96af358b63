#include "capi/groups.hpp"

#include "capi/own_messages.hpp"
#include "exec/sm/direct_call.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace sennit {
namespace {

static_assert(SENNIT_GROUP_MESSAGES_MAX == sm::kMaxPairCalls);

// Waiting drives the communicators of one engine. Where a group spans several, they take turns:
// ranks that wait for them in different orders would otherwise wait for each other.
Status wait_for_group(const std::vector<Group::Entry>& entries,
                      const std::vector<std::shared_ptr<Work>>& works) {
  const bool one_engine = std::ranges::all_of(entries, [&](const Group::Entry& entry) {
    return entry.comm->engine == entries.front().comm->engine;
  });
  const Clock::duration turn = one_engine ? Clock::duration::max() : std::chrono::milliseconds(1);
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const sennit_comm_t comm = entries[i].comm;
      if (entries[i].work == nullptr && !comm->engine->run_until(*comm->comm, *works[i], turn)) {
        waiting = true;
      }
    }
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].work == nullptr) {
      SENNIT_RETURN_IF_ERROR(works[i]->status);
    }
  }
  return {};
}

// The calls of a group that go into streams, communicator by communicator; leaves the others.
Status enqueue_group(std::vector<Group::Entry>& entries) {
  const auto is_device = [](const Group::Entry& entry) { return entry.comm->device != nullptr; };
  std::vector<sennit_comm_t> comms;
  sennit_comm_t checked = nullptr;
  for (const Group::Entry& entry : entries) {
    if (entry.comm == checked) {
      continue;
    }
    SENNIT_RETURN_IF_ERROR(check_comm(entry.comm));
    checked = entry.comm;
    if (is_device(entry) && std::ranges::find(comms, entry.comm) == comms.end()) {
      comms.push_back(entry.comm);
    }
  }
  // Before anything of the group is enqueued: a work may be refused.
  for (const Group::Entry& entry : entries) {
    if (is_device(entry) && entry.work != nullptr) {
      SENNIT_RETURN_IF_ERROR(prepare_device_work(*entry.work, entry.operation, entry.stream));
    }
  }
  // In one order on all ranks, which may have posted them in others: calls of copy engines wait
  // here for the other ranks.
  std::ranges::stable_sort(comms, {}, [](const sennit_comm_t comm) -> const std::string& {
    return comm->comm->world().identity().key;
  });
  for (const sennit_comm_t comm : comms) {
    std::vector<GpuComm::Call> calls;
    calls.reserve(entries.size());
    for (Group::Entry& entry : entries) {
      if (entry.comm == comm) {
        calls.emplace_back(std::move(entry.operation),
                           entry.stream,
                           entry.work != nullptr ? entry.work->in_stream->completion() : nullptr);
      }
    }
    SENNIT_RETURN_IF_ERROR(comm->device->enqueue(calls));
  }
  std::erase_if(entries, is_device);
  return {};
}

// Prepares the works of all calls, before any other rank sees one of them.
Result<std::vector<std::shared_ptr<Work>>> prepare_group(const std::vector<Group::Entry>& entries) {
  std::vector<std::shared_ptr<Work>> works;
  works.reserve(entries.size());
  for (const Group::Entry& entry : entries) {
    SENNIT_RETURN_IF_ERROR(check_comm(entry.comm));
    const auto guard = entry.comm->engine->lock();
    SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<Work> work,
                            is_own_message(entry) ? prepare_own_end(entry)
                                                  : entry.comm->comm->prepare(entry.operation));
    works.push_back(std::move(work));
  }
  return works;
}

// Posts the calls of host ranks, and gives the callers their works.
Result<std::vector<std::shared_ptr<Work>>> post_group(const std::vector<Group::Entry>& entries) {
  SENNIT_ASSIGN_OR_RETURN(std::vector<std::shared_ptr<Work>> works, prepare_group(entries));
  SENNIT_ASSIGN_OR_RETURN(const std::vector<OwnMessage> own, pair_own_messages(entries));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto guard = entries[i].comm->engine->lock();
    if (!is_own_message(entries[i])) {
      entries[i].comm->engine->post(*entries[i].comm->comm, works[i]);
    }
    if (entries[i].work != nullptr) {
      entries[i].work->work = works[i];
    }
  }
  for (const OwnMessage& message : own) {
    const sennit_comm& comm = *entries[message.send].comm;
    const auto guard = comm.engine->lock();
    deliver(comm, *works[message.send], *works[message.recv]);
  }
  return works;
}

}  // namespace

Group& group() {
  thread_local Group open;
  return open;
}

Status check_not_in_open_group(sennit_comm_t comm) {
  if (std::ranges::find(group().entries, comm, &Group::Entry::comm) == group().entries.end()) {
    return {};
  }
  return fail(Code::kInvalidUsage,
              "the open group of this thread has calls of the communicator; end the group first");
}

Status end_group() {
  std::vector<Group::Entry> entries = std::exchange(group().entries, {});
  SENNIT_RETURN_IF_ERROR(std::exchange(group().failure, {}));
  SENNIT_RETURN_IF_ERROR(enqueue_group(entries));
  if (entries.empty()) {
    group().entries = std::move(entries);  // their room, for the next group
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Work>> works, post_group(entries));
  return wait_for_group(entries, works);
}

Status prepare_device_work(sennit_work& handle, const Operation& operation, void* stream) {
  sennit_comm& comm = *handle.owner;
  auto completion = comm.device->completion_in(stream);
  if (!completion.ok()) {
    return fail(completion.status().code(),
                "{} on communicator '{}': {}",
                name_of(operation),
                comm.config.name,
                completion.status().message());
  }
  if (comm.work_owner == nullptr) {
    comm.work_owner = std::make_shared<WorkOwner>(*comm.device);
  }
  handle.in_stream = std::make_unique<DeviceWork>(comm.work_owner, std::move(completion).value());
  return {};
}

}  // namespace sennit
