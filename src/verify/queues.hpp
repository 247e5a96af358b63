// The queue check: whether what the hosts of all ranks put into the streams of their devices comes
// to its end, on hardware where streams share queues, and whether no signal is lost on the way.
//
//   SENNIT_RETURN_IF_ERROR(check_signals(ranks));
//   SENNIT_RETURN_IF_ERROR(check_queues(ranks, {.queues = Queues::kOne}));
//
// CUDA deals the streams of a device to a few hardware queues. What waits at the head of a queue
// holds up all that was issued behind it, whatever its stream, and CUDA does not say which streams
// share one. A step here comes after another one for these reasons:
//
//   stream   both are in one stream, in this order
//   event    it waits for an event that was recorded behind the other
//   signal   it waits for a flag, and the other is the signal of the same generation
//   queue    the other one is ahead of it in one hardware queue
//
// The first three hold always. They alone are what check_signals() relies on. All of them together
// must have no circle. No step chooses what it waits for, so every execution ends if there is no
// circle, and none does if there is one.
//
// Flags are binary. A generation of a flag begins with its signal and ends with the reset by the
// rank that waits for it. A signal that comes before the last generation has ended is lost, and a
// wait that comes before that sees the signal of another one; both are refused.
//
// A mapping of streams to fewer queues only adds reasons. With all streams of a device in one
// queue, in the order of issue, the reasons are a superset of those of every other mapping: what
// ends there ends with any number of queues.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sennit {

struct StreamStep {
  enum class Kind : std::uint8_t {
    kWork,        // ends by itself: a copy, or a kernel that waits for no other rank
    kLaunch,      // the same, of a kernel
    kSignal,      // makes a flag full
    kReset,       // makes it free again
    kAwait,       // waits until it is full
    kRecord,      // an event
    kAwaitEvent,  // waits for what was in the stream of its last record
  };
  Kind kind = Kind::kWork;
  int stream = 0;         // of this rank
  std::int64_t flag = 0;  // the same on all ranks
  int event = 0;          // of this rank
  // In a kernel that runs: it holds up its stream, but not the others of its queue.
  bool is_in_kernel = false;
};

// What the host of one rank issues, in its order.
struct IssuedSteps {
  int device = 0;
  int process = 0;  // its ranks share the queues of a device
  std::vector<StreamStep> steps;
  // Where the hosts of all ranks meet: none goes on behind its n-th barrier before all have come to
  // theirs. As places in `steps`, in order; the same number on all ranks.
  std::vector<std::size_t> meetings;
};

using FlagNames = std::function<std::string(std::int64_t flag)>;
std::string number_of_flag(std::int64_t flag);

enum class Queues : std::uint8_t {
  kOwn,    // each stream has one
  kOne,    // all streams of a device share one
  kDealt,  // to `count` of them in turn, by the streams' numbers
};

// In which order the steps of a queue stand.
enum class QueueOrder : std::uint8_t {
  kOfIssue,
  // As a captured graph is replayed, of which nothing is kept but the order within each stream and
  // that of events: any such order.
  kAny,
};

struct QueueModel {
  Queues queues = Queues::kOne;
  int count = 0;  // of kDealt
  QueueOrder order = QueueOrder::kOfIssue;
};

// Signals meet waits, none is lost, and all flags are free at the end. kNotProved, with the reason.
Status check_signals(std::span<const IssuedSteps> ranks, const FlagNames& names = number_of_flag);

// check_signals(), and all steps come to their end. kNotProved, with the circle in words. Ranks of
// one process on one device share queues, and their hosts may issue in any order that meetings
// leave open.
Status check_queues(std::span<const IssuedSteps> ranks,
                    const QueueModel& model,
                    const FlagNames& names = number_of_flag);

// Calls of a driver may wait themselves, while they put something into a stream: for room in a
// queue, or for the device to be idle before code is loaded.
struct HostModel {
  enum class Waits : std::uint8_t {
    kForRoom,   // until all but the last `depth` steps of the queue have ended
    kAtLaunch,  // where a kernel is launched: until all that was issued on the device has ended
    kAlways,    // in each call, in the same way
  };
  Waits waits = Waits::kAlways;
  int depth = 0;
  // Such a call holds a lock of its process: other threads issue nothing meanwhile.
  bool locks_process = false;
};

// Whether all steps also end where calls wait so.
Status check_hosts(std::span<const IssuedSteps> ranks,
                   const QueueModel& model,
                   const HostModel& host,
                   const FlagNames& names = number_of_flag);

}  // namespace sennit
