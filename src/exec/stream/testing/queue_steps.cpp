#include "exec/stream/testing/queue_steps.hpp"

namespace sennit::stream {
namespace {

using Kind = StreamStep::Kind;

constexpr std::int64_t kWordsOfRank = sizeof(RankWords) / sizeof(std::uint64_t);

std::int64_t number_of(const Flag& flag) { return flag.owner * kWordsOfRank + flag.place; }

class Translation {
 public:
  Translation(int stream, IssuedSteps& issued, const KernelSteps& kernels)
      : stream_(stream), issued_(issued), kernels_(kernels) {}

  void operator()(const AwaitFlag& wait) {
    add({.kind = Kind::kAwait, .flag = number_of(wait.flag)});
  }
  void operator()(const StoreFlag& store) {
    const bool is_signal = store.value != kFree;
    add(is_for_hosts(store.flag) ? StreamStep{}
                                 : StreamStep{.kind = is_signal ? Kind::kSignal : Kind::kReset,
                                              .flag = number_of(store.flag)});
  }
  void operator()(const CopyBytes& copy) {
    add({.kind = copy.is_by_kernel ? Kind::kLaunch : Kind::kWork});
  }
  void operator()(const ReduceBytes& /*reduce*/) { add({.kind = Kind::kLaunch}); }
  void operator()(const RecordEvent& record) {
    add({.kind = Kind::kRecord, .event = record.event});
  }
  void operator()(const AwaitEvent& wait) { add({.kind = Kind::kAwaitEvent, .event = wait.event}); }
  void operator()(const LaunchKernels& /*launch*/) {
    add({.kind = Kind::kLaunch});
    for (StreamStep step : kernels_ ? kernels_() : std::vector<StreamStep>()) {
      step.is_in_kernel = true;
      add(step);
    }
  }
  void operator()(const ReadTime& /*time*/) { add({.kind = Kind::kWork}); }

 private:
  void add(StreamStep step) {
    step.stream = stream_;
    issued_.steps.push_back(step);
  }

  int stream_;
  IssuedSteps& issued_;
  const KernelSteps& kernels_;
};

}  // namespace

void append_steps(const OperationList& list, IssuedSteps& issued, const KernelSteps& kernels) {
  for (const Operation& operation : list.operations) {
    std::visit(Translation(operation.stream, issued, kernels), operation.what);
  }
}

std::string flag_name(std::int64_t flag) {
  return name(Flag{.owner = static_cast<std::int32_t>(flag / kWordsOfRank),
                   .place = static_cast<std::uint32_t>(flag % kWordsOfRank)});
}

}  // namespace sennit::stream
