#include "exec/stream/operation_list.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace sennit::stream {
namespace {

std::string print(const Place& place) {
  constexpr std::array<std::string_view, 4> kNames = {"input", "output", "staging", "ring"};
  return fmt::format(
      "{}[{}] + {}", kNames[static_cast<std::size_t>(place.memory)], place.index, place.at);
}

std::string print(const AwaitFlag& wait) {
  return fmt::format("wait for {} = {}", name(wait.flag), wait.value);
}
std::string print(const StoreFlag& store) {
  return fmt::format("store {} = {}", name(store.flag), store.value);
}
std::string print(const CopyBytes& copy) {
  return fmt::format("copy {} bytes from {} to {}{}",
                     copy.bytes,
                     print(copy.from),
                     print(copy.to),
                     copy.is_by_kernel ? " by a kernel" : "");
}
std::string print(const ReduceBytes& reduce) {
  const int end = reduce.first + reduce.count;
  return fmt::format(
      "reduce {} bytes of operands {} to {} into {}{}",
      reduce.bytes,
      reduce.first,
      end - 1,
      print(reduce.to),
      reduce.copies > 0 ? fmt::format(" and operands {} to {}", end, end + reduce.copies - 1) : "");
}
std::string print(const RecordEvent& record) {
  return fmt::format("record event {}", record.event);
}
std::string print(const AwaitEvent& wait) { return fmt::format("wait for event {}", wait.event); }
std::string print(const LaunchKernels& /*launch*/) { return "launch the caller's kernels"; }
std::string print(const ReadTime& time) {
  constexpr std::array<std::string_view, 3> kNames = {"begin", "direct end", "host end"};
  return fmt::format(
      "time of message {}: {}", time.message, kNames[static_cast<std::size_t>(time.what)]);
}

}  // namespace

std::string print(const Operation& operation) {
  return fmt::format("stream {}: {}",
                     operation.stream,
                     std::visit([](const auto& what) { return print(what); }, operation.what));
}

std::string print(const OperationList& list) {
  std::string text;
  for (const Operation& operation : list.operations) {
    text += print(operation) + "\n";
  }
  for (std::size_t i = 0; i < list.operands.size(); ++i) {
    text += fmt::format(
        "operand {}: {} of rank {}\n", i, print(list.operands[i].place), list.operands[i].rank);
  }
  return text;
}

}  // namespace sennit::stream
