// DeviceComm: the calls of one communicator on GPU memory, in stream order.
//
// A call checks its arguments, finds its proved plan (made at first use) and launches one kernel,
// for which nothing waits; or meets the other ranks on the host first, and puts copies into streams
// (exec/stream/copy_engines.hpp, exec/stream/message_copies.hpp). What goes wrong later stands on
// the board (memory/arena.hpp) and is told by failure(), by the next call, or by
// sennit_comm_async_error. A thread watches the other ranks, so that kernels and streams leave when
// one of them has died or has made another call.
#pragma once

#include "comm/device/message_ways.hpp"
#include "comm/device/stream_order.hpp"
#include "exec/sm/direct_program.hpp"
#include "exec/sm/geometry.hpp"
#include "exec/sm/group_order.hpp"
#include "exec/sm/kernel_message.hpp"
#include "exec/sm/step_program.hpp"
#include "exec/stream/copy_engines.hpp"
#include "memory/device_memory.hpp"
#include "memory/message_puts.hpp"
#include "select/device_choice.hpp"
#include "verify/verify.hpp"
#include "world/call_comparison.hpp"
#include "world/message_comparison.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace sennit {

class DeviceComm {
 public:
  struct Options {
    std::string name = "world";
    double deadline_s = 30.0;  // negative: none
    // What has not ended so long after finalize() is abandoned; nothing is where calls may wait for
    // ever.
    double finalize_s = 4.0;
    int blocks = 128;  // of a call, at most
    // kAuto: where every rank is a process. A call of copy engines waits on the host for all ranks,
    // so a thread that makes the calls of several of them would wait for itself.
    enum class CopyUse : std::uint8_t { kOff, kAuto, kOn };
    CopyUse copy_engines = CopyUse::kAuto;
    bool reproducible = false;     // sums have the order of ranks, or are refused
    bool copies_by_kernel = true;  // blocks that stay, beside copy engines
    bool nvlink = true;            // may be used; path host may where the world has memory for it
    int group = 0;                 // of this rank, see DeviceIdentity
    std::string groups_by{};       // see Arenas::Options
    // See DeviceFacts.
    int host_share = -1;
    bool dynamic_share = false;
    std::int64_t copies_from_bytes = DeviceFacts{}.copies_from_bytes;
    std::int64_t folds_from_bytes = DeviceFacts{}.folds_from_bytes;
    std::int64_t messages_from_bytes = DeviceFacts{}.messages_from_bytes;
    std::int64_t puts_from_bytes = DeviceFacts{}.puts_from_bytes;
    std::int64_t message_puts_from_bytes = DeviceFacts{}.message_puts_from_bytes;
  };

  // All ranks together. `driver` and `world` outlive the result.
  static Result<std::unique_ptr<DeviceComm>> create(CudaDriver& driver,
                                                    int device,
                                                    World& world,
                                                    const Options& options,
                                                    const Exchange& exchange);
  ~DeviceComm();
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;

  [[nodiscard]] int device() const { return device_; }

  // Puts calls into the streams. They run in their order, sends and recvs together after the rest;
  // a send or recv ends the wait of its stream when all of them have ended.
  struct Call {
    Operation operation;
    void* stream = nullptr;
  };
  Status enqueue(std::span<const Call> calls);
  // A hint: messages and blocks of others will be received in this memory. It is told to them, and
  // nobody waits; who calls anything, outside of a capture, maps what it has been told of.
  void expect_use_of(void* memory, std::size_t bytes);

  // Why the communicator has failed; ok while it works.
  [[nodiscard]] Status failure();
  // Makes waiting kernels leave.
  void abort();

  // Waits for the calls that are in the streams. They need their peers, which may never come, so
  // the communicator is aborted when the time is over: kInvalidUsage then. Of other failures it
  // tells only those of calls that it waited for. The destructor waits in the same way.
  Status finalize();

  // Ends the watcher; nothing finds out any more that calls cannot end.
  void stop_watching();

 private:
  struct Key {
    Collective collective;
    int root;
    int place;  // of this rank in the schedule
    bool varying;
    DeviceChoice choice;

    auto operator<=>(const Key&) const = default;
  };
  struct Program {
    sm::DirectProgram direct;
    std::uint64_t plan_hash = 0;
    sm::Packets packets = sm::Packets::kLl;
  };

  // For copy engines: a collective, or one role of send_recv.
  struct Copying {
    stream::PlanProgram program;
    std::uint64_t plan_hash = 0;
  };

  // Of one hop, whose blocks are messages.
  struct Putting {
    sm::DirectProgram program;
    std::uint64_t plan_hash = 0;
    bool may_be_in_place = false;
  };

  // For kernels that run a schedule step by step (device_steps.cpp).
  struct Stepping {
    std::unique_ptr<const sm::StepProgram> program;
    std::string_view algorithm;
    Problem problem;
    std::uint64_t plan_hash = 0;
    bool may_be_in_place = false;
    bool is_reproducible = false;
  };

  DeviceComm(CudaDriver& driver, int device, World& world, Options options);

  Status preload();
  Status open_copy_engines(const Exchange& exchange);
  Status check(const Operation& operation) const;
  [[nodiscard]] Key key_of(const Operation& operation, const DeviceChoice& choice) const;
  // Of a call: in seconds, not positive: none; in ns and ms, 0: none.
  [[nodiscard]] double deadline_of(const Operation& operation) const;
  [[nodiscard]] std::uint64_t deadline_ns(const Operation& operation) const;
  [[nodiscard]] std::uint32_t deadline_ms(const Operation& operation) const;
  Result<DeviceChoice> choose(const Operation& operation, const DeviceFacts& facts) const;
  // For a call that on no rank copy engines run, or kernels that store in others' outputs.
  Result<DeviceChoice> choose_kernel(const Operation& operation) const;
  static bool is_for_streams(const DeviceChoice& choice);
  [[nodiscard]] sm::Packets packets_of(Protocol protocol) const;
  struct Proved {
    std::shared_ptr<const Plan> plan;
    Proof proof;
  };
  Result<Proved> prove(const Operation& operation, const DeviceChoice& choice) const;
  Result<const Program*> find(const Operation& operation, const DeviceChoice& choice);
  Result<const Copying*> find_copying(const Operation& operation, const DeviceChoice& choice);
  Result<const Putting*> find_putting(const Operation& operation, const DeviceChoice& choice);
  void announce(const Operation& operation, std::uint64_t plan_hash);
  // Whether copy engines run it, as all ranks have agreed.
  Result<bool> copy(const Call& call, DeviceChoice choice);
  // Whether its blocks are stored in the outputs of others, or packets carry it.
  Result<bool> put(const Call& call, const DeviceChoice& choice);
  Result<bool> put_instead(const Call& call);
  std::vector<KernelMessage> messages_of(const Operation& operation, const Putting& putting);
  // Calls whose lengths vary (device_varying.cpp).
  Status exchange_varying(const Call& call);
  std::vector<KernelMessage> varying_messages(const Operation& operation, const Putting& putting);
  KernelMessage varying_message(const Operation& operation,
                                const Putting& putting,
                                int peer,
                                bool is_send);
  Result<const Stepping*> find_stepping(const Operation& operation, const DeviceChoice& choice);
  Status run_steps(const Call& call, const DeviceChoice& choice);
  Status check_steps(const Operation& operation, const Stepping& stepping) const;
  Status launch_steps(const Call& call, const Stepping& stepping);
  [[nodiscard]] std::function<Status()> trouble_of(const Operation& operation);
  // For a call that has been announced and fails on this rank, and not on all alike.
  Status give_up(const Status& status);
  Status launch(const Call& call, const Program& program);
  Status collective(const Call& call);
  Status barrier(void* stream);
  // Sends and recvs (device_messages.cpp).
  struct MessagePlan;
  Status messages(std::span<const Call> calls);
  Result<std::vector<MessagePlan>> plan_messages(std::span<const Call> calls);
  Status plan_message(const Call& call, MessagePlan& plan);
  Result<MessageWay> find_way(const Operation& operation);
  void log(int peer, bool is_send, const CallWords& words);
  Status decide(std::vector<MessagePlan>& plans);
  Result<MessageCopies::End> end_of(const MessagePlan& plan,
                                    const stream::GroupId& group,
                                    bool is_alone);
  void agree_to_a_put(const MessagePlan& plan, MessageCopies::End& end);
  Status put_into_streams(const std::vector<MessagePlan>& plans, std::span<const Call> calls);
  Status run_messages(const std::vector<MessagePlan>& plans, void* stream);
  void keep_up_with_loans(std::span<const Call> calls);
  // Their kernels (device_pairs.cpp). How a launch has its sends: side by side in lanes, or those
  // of a collective in one lane that stores a piece of each in turn. All ranks that are in it have
  // to mean the same.
  enum class Order : std::uint8_t { kLanes, kBraid };
  Status launch_pairs(std::span<const KernelMessage> messages, void* stream, Order wanted);
  [[nodiscard]] Order order_of_blocks() const;
  void describe(const KernelMessage& message, bool may_map, sm::PairMessage& described);
  std::byte* offer_of(const KernelMessage& message, bool may_map);
  [[nodiscard]] GroupRoom room_of_groups() const;
  void deal_lanes(sm::PairCalls& pairs) const;
  [[nodiscard]] Status told(const Verdict& verdict) const;
  [[nodiscard]] Status explain(sm::Trouble trouble) const;
  [[nodiscard]] Verdict explain_absence() const;
  // Of a message: its other end has not called for it; its streams do not come on.
  [[nodiscard]] Verdict explain_absence_of(const Operation& operation) const;
  [[nodiscard]] Verdict explain_wait(const std::vector<int>& peers) const;
  // What can be known now of why calls cannot end; ok while they can.
  Status look();
  Status find_failure();  // under mutex_
  [[nodiscard]] std::optional<Verdict> find_missing_calls(int finalized) const;
  // A rank that has given up.
  [[nodiscard]] std::optional<int> find_quitter() const;
  [[nodiscard]] Verdict retell(int rank) const;
  void tell_others();
  // Collectives that a rank has called, as far as this one sees.
  [[nodiscard]] std::uint64_t calls_of(int rank) const;
  void start_watching();
  void leave_watched();
  void watch(const std::stop_token& stop);
  // Whether there are calls in streams that have to end now.
  bool watch_streams();

  CudaDriver& driver_;
  int device_;
  World& world_;
  Options options_;
  StreamOrder order_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<CopyEngines> copy_engines_;  // null: not used by this communicator
  std::unique_ptr<MessagePuts> message_puts_;  // null where facts_ have none
  std::unique_ptr<sm::PairCalls> pairs_ = std::make_unique<sm::PairCalls>();  // of launch_pairs
  DeviceFacts facts_;
  MessageWays ways_;
  void* token_ = nullptr;  // device bytes that a barrier exchanges
  std::map<Key, Program> programs_;
  std::map<Key, Copying> copyings_;
  std::map<Key, Putting> puttings_;
  std::map<Key, Stepping> steppings_;
  std::uint64_t calls_ = 0;  // collectives so far
  std::mutex mutex_;
  Status failure_;
  Status cause_;                                  // why waits were ended; a failure once one was
  std::optional<Clock::time_point> finalize_by_;  // while finalize() waits
  bool is_finalized_ = false;
  CallComparison comparison_;
  MessageComparison message_comparison_;
  std::jthread watcher_;
};

// "auto", "on" or "off".
Result<DeviceComm::Options::CopyUse> parse_copy_engines(std::string_view text);

}  // namespace sennit
