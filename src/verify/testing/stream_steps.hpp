// For tests: steps of streams in few words.
#pragma once

#include "verify/queues.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace sennit::verify_test {

inline StreamStep signal(std::int64_t flag, int stream = 0) {
  return {.kind = StreamStep::Kind::kSignal, .stream = stream, .flag = flag};
}
inline StreamStep await(std::int64_t flag, int stream = 0) {
  return {.kind = StreamStep::Kind::kAwait, .stream = stream, .flag = flag};
}
inline StreamStep reset(std::int64_t flag, int stream = 0) {
  return {.kind = StreamStep::Kind::kReset, .stream = stream, .flag = flag};
}
inline StreamStep record(int event, int stream) {
  return {.kind = StreamStep::Kind::kRecord, .stream = stream, .event = event};
}
inline StreamStep behind(int event, int stream) {
  return {.kind = StreamStep::Kind::kAwaitEvent, .stream = stream, .event = event};
}
inline StreamStep launch(int stream = 0) {
  return {.kind = StreamStep::Kind::kLaunch, .stream = stream};
}

// Two ranks that are processes with a device each.
inline std::vector<IssuedSteps> two(std::vector<StreamStep> first, std::vector<StreamStep> second) {
  return {{.device = 0, .process = 0, .steps = std::move(first), .meetings = {}},
          {.device = 1, .process = 1, .steps = std::move(second), .meetings = {}}};
}

}  // namespace sennit::verify_test
