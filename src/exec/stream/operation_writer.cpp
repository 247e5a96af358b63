#include "exec/stream/operation_writer.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {

void OperationWriter::begin(int stream) {
  if (stream == kUsersStream) {
    return;
  }
  bool& is_used = is_used_[static_cast<std::size_t>(stream)];
  if (!std::exchange(is_used, true)) {
    most_used_ = std::max(most_used_, stream);
    list_.operations.push_back({stream, AwaitEvent{kForkEvent}});
  }
}

void OperationWriter::order(int before, int after) {
  SENNIT_CHECK(before != kUsersStream && after != kUsersStream,
               "the user's stream is ordered by fork and join");
  begin(before);
  begin(after);
  put(before, RecordEvent{event_of(before)});
  put(after, AwaitEvent{event_of(before)});
}

void OperationWriter::fork() {
  fork_ = list_.operations.size();
  list_.operations.push_back({kUsersStream, RecordEvent{kForkEvent}});
}

// Nobody awaits the event of a fork without other streams: a call of the driver less.
void OperationWriter::join() {
  if (most_used_ == kUsersStream) {
    list_.operations.erase(list_.operations.begin() + static_cast<std::ptrdiff_t>(fork_));
    return;
  }
  for (int stream = kUsersStream + 1; stream <= most_used_; ++stream) {
    if (std::exchange(is_used_[static_cast<std::size_t>(stream)], false)) {
      list_.operations.push_back({stream, RecordEvent{event_of(stream)}});
      list_.operations.push_back({kUsersStream, AwaitEvent{event_of(stream)}});
    }
  }
  most_used_ = kUsersStream;
}

}  // namespace sennit::stream
