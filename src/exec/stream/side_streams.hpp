// SideStreams: the streams in which an engine works beside the user's. A call forks them off the
// user's stream and joins them again; a graph that captures the user's stream captures them, too.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <vector>

namespace sennit::stream {

class SideStreams {
 public:
  explicit SideStreams(CudaDriver& driver) : driver_(driver) {}
  ~SideStreams() { close(); }
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  // `count` streams of the current device, in place of those there were; after a failure there are
  // none.
  Status open(int count);

  // Ends all of it: for owners of things that the streams use.
  void close();

  // What `stream` holds so far comes before all that is put into streams of use() from now on.
  Status fork(void* stream);
  Result<void*> use(int index);
  // What the stream `before` holds so far comes before what is put into the stream `after` from now
  // on; both by index, and of this call.
  Status order(int before, int after);
  // What was put into them comes before what `stream` holds from now on.
  Status join(void* stream);

 private:
  // A stream, and the event that says how far it is.
  struct Side {
    void* stream = nullptr;
    void* event = nullptr;
    bool is_used = false;  // since the last fork
  };

  Status make(int count);

  CudaDriver& driver_;
  std::vector<Side> sides_;
  void* forked_ = nullptr;  // event
};

}  // namespace sennit::stream
