// The half of FakeCuda that puts work into streams.
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "drivers/cuda/testing/fake_stream.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

namespace sennit {
namespace {

thread_local void* stream_of_this_thread = nullptr;
thread_local void* default_stream = nullptr;

FakeStream* to_stream(void* stream) {
  if (stream == nullptr) {
    return static_cast<FakeStream*>(default_stream);
  }
  return static_cast<FakeStream*>(stream == FakeCuda::per_thread_stream() ? stream_of_this_thread
                                                                          : stream);
}
std::shared_ptr<FakeEvent> to_event(void* event) {
  return static_cast<FakeEvent*>(event)->shared_from_this();
}

void walk(const WordStep& step, const std::stop_token& stopped) {
  const std::atomic_ref word(*step.word);
  if (step.kind == WordStep::Kind::kStore) {
    word.store(step.value, std::memory_order_release);
    return;
  }
  while (word.load(std::memory_order_acquire) != step.value && !stopped.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// A step on a word whose time is kept.
void walk(const WordStep& step,
          const std::stop_token& stopped,
          FakeWordTimes& times,
          std::size_t place,
          double& now_us) {
  if (step.kind == WordStep::Kind::kStore) {
    times.write(place, now_us);
  }
  walk(step, stopped);
  if (step.kind == WordStep::Kind::kAwait) {
    now_us = std::max(now_us, times.read(place));
  }
}

}  // namespace

void FakeGraph::launch(void* stream) const {
  for (const Entry& entry : entries_) {
    entry.submit(entry.stream == origin_ ? *to_stream(stream) : *entry.stream);
  }
}

void* FakeCuda::per_thread_stream() {
  static char handle;
  return &handle;
}

void FakeCuda::set_thread_stream(void* stream) { stream_of_this_thread = stream; }

void FakeCuda::set_default_stream(void* stream) { default_stream = stream; }

Status FakeCuda::preload(const void* /*kernel*/) { return enter("preload"); }

void FakeCuda::report(const Issued& issued) const {
  if (watcher_) {
    watcher_(issued);
  }
}

void FakeCuda::put(FakeStream& stream, std::function<void(FakeStream&)> submit) {
  if (stream.capture == nullptr) {
    submit(stream);
    return;
  }
  stream.has_unjoined_work = true;
  stream.capture->entries_.push_back({&stream, std::move(submit)});
}

LaunchShape FakeCuda::last_shape() {
  const std::scoped_lock lock(mutex_);
  return last_shape_;
}

Status FakeCuda::launch(const void* kernel,
                        const LaunchShape& shape,
                        const void* parameters,
                        void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("launch"));
  report({.what = Issued::What::kLaunch,
          .stream = stream,
          .kernel = kernel,
          .parameters = parameters});
  {
    const std::scoped_lock lock(mutex_);
    last_shape_ = shape;
  }
  const std::function<void()> work = kernel_ ? kernel_(kernel, parameters) : [] {};
  const double us = costs_.kernel_us ? costs_.kernel_us(kernel, parameters) : 0;
  put(*to_stream(stream), [work, us](FakeStream& s) {
    s.queue().put([work, us, now_us = s.now_us](const std::stop_token&) {
      work();
      *now_us += us;
    });
  });
  return {};
}

void FakeCuda::check_range(const void* pointer,
                           std::size_t bytes,
                           int device,
                           std::string_view what) {
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(pointer);
  const auto* const end = static_cast<const std::byte*>(pointer) + bytes;
  if (region == nullptr || end > region->base + region->bytes) {
    faults_ += fmt::format("a copy {} {} bytes outside of all memory; ", what, bytes);
  } else if (region->device >= 0 && region->device != device && !region->is_imported &&
             (region->is_virtual ||
              std::ranges::find(peers_, std::pair(device, region->device)) == peers_.end())) {
    faults_ +=
        fmt::format("device {} copies {} device {} without leave; ", device, what, region->device);
  }
}

bool FakeCuda::corrupts(const void* to, int device) {
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(to);
  return region != nullptr &&
         std::ranges::find(options_.corrupting, std::pair(device, region->device)) !=
             options_.corrupting.end();
}

// Copies out of host memory share one copy engine.
void FakeCuda::pass_copy(const void* from, std::size_t bytes, double& now_us) {
  if (!costs_.copy_us) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  const Region* const region = region_of(from);
  const bool is_from_host = region != nullptr && region->device < 0;
  if (is_from_host) {
    now_us = std::max(now_us, from_host_us_);
  }
  now_us += costs_.copy_us(is_from_host, bytes);
  if (is_from_host) {
    from_host_us_ = now_us;
  }
}

Status FakeCuda::copy_async(void* to, const void* from, std::size_t bytes, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("copy_async"));
  report({.what = Issued::What::kCopy, .stream = stream, .to = to, .from = from, .bytes = bytes});
  put(*to_stream(stream), [this, to, from, bytes](FakeStream& s) {
    s.queue().put(
        [this, to, from, bytes, device = s.device(), now_us = s.now_us](const std::stop_token&) {
          check_range(to, bytes, device, "to");
          check_range(from, bytes, device, "from");
          std::memcpy(to, from, bytes);
          if (bytes > 0 && corrupts(to, device)) {
            static_cast<std::byte*>(to)[bytes / 2] ^= std::byte{1};
          }
          pass_copy(from, bytes, *now_us);
        });
  });
  return {};
}

Result<void*> FakeCuda::create_stream() {
  SENNIT_RETURN_IF_ERROR(enter("create_stream"));
  const std::scoped_lock lock(mutex_);
  const int device = device_of_thread();
  std::shared_ptr<FakeQueue> queue;
  for (const auto& [key, other] : streams_) {
    if (options_.one_queue && other->device() == device) {
      queue = other->shared_queue();
    }
  }
  if (queue == nullptr) {
    queue = std::make_shared<FakeQueue>();
  }
  auto stream = std::make_unique<FakeStream>(device, ++streams_made_, std::move(queue));
  void* const key = stream.get();
  streams_[key] = std::move(stream);
  return key;
}

// As with CUDA, what the stream holds still takes place.
Status FakeCuda::destroy_stream(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("destroy_stream"));
  std::vector<std::shared_ptr<FakeQueue>> idle;  // end outside of the lock: their work takes it
  const std::scoped_lock lock(mutex_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) {
    return sennit::fail(Code::kSystemError, "there is no such stream");
  }
  left_queues_.push_back(at->second->shared_queue());
  streams_.erase(at);
  const auto done =
      std::ranges::partition(left_queues_, [](const auto& queue) { return !queue->is_idle(); });
  idle.assign(done.begin(), done.end());
  left_queues_.erase(done.begin(), done.end());
  return {};
}

Result<std::uint64_t> FakeCuda::stream_id(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("stream_id"));
  if (to_stream(stream)->capture != nullptr) {
    return sennit::fail(Code::kSystemError, "a stream that captures has no id");
  }
  return to_stream(stream)->id();
}

Result<void*> FakeCuda::create_event() {
  SENNIT_RETURN_IF_ERROR(enter("create_event"));
  return make_event(false);
}

Result<void*> FakeCuda::create_timed_event() {
  SENNIT_RETURN_IF_ERROR(enter("create_timed_event"));
  return make_event(true);
}

Result<void*> FakeCuda::make_event(bool is_timed) {
  const std::scoped_lock lock(mutex_);
  auto event = std::make_shared<FakeEvent>();
  event->is_timed = is_timed;
  void* const key = event.get();
  events_[key] = std::move(event);
  return key;
}

Status FakeCuda::destroy_event(void* event) {
  SENNIT_RETURN_IF_ERROR(enter("destroy_event"));
  const std::scoped_lock lock(mutex_);
  return events_.erase(event) == 1 ? Status()
                                   : sennit::fail(Code::kSystemError, "there is no such event");
}

Status FakeCuda::record(void* event, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("record"));
  report({.what = Issued::What::kRecord, .stream = stream, .event = event});
  FakeStream& s = *to_stream(stream);
  const std::shared_ptr<FakeEvent> e = to_event(event);
  e->captured_in = s.capture != nullptr ? &s : nullptr;
  put(s, [e](FakeStream& in) {
    const std::uint64_t number = [&] {
      const std::scoped_lock lock(e->mutex);
      return ++e->recorded;
    }();
    in.queue().put([e, number, now_us = in.now_us](const std::stop_token&) {
      const std::scoped_lock lock(e->mutex);
      e->reached = std::max(e->reached, number);
      e->at_us[number] = *now_us;
      e->changed.notify_all();
    });
  });
  return {};
}

Status FakeCuda::wait_for(void* event, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("wait_for"));
  report({.what = Issued::What::kWaitFor, .stream = stream, .event = event});
  FakeStream& s = *to_stream(stream);
  const std::shared_ptr<FakeEvent> e = to_event(event);
  if (e->captured_in != nullptr) {
    s.capture = e->captured_in->capture;
    e->captured_in->has_unjoined_work = false;
  } else if (s.capture != nullptr && e->recorded > 0) {
    return sennit::fail(Code::kInvalidUsage, "a capture waits for an event from outside of it");
  }
  put(s, [e](FakeStream& in) {
    const std::uint64_t number = [&] {
      const std::scoped_lock lock(e->mutex);
      return e->recorded;
    }();
    in.queue().put([e, number, now_us = in.now_us](const std::stop_token& stopped) {
      std::unique_lock lock(e->mutex);
      e->changed.wait(lock, stopped, [&] { return e->reached >= number; });
      *now_us = std::max(*now_us, e->at_us[number]);
    });
  });
  return {};
}

Result<bool> FakeCuda::has_passed(void* event) {
  SENNIT_RETURN_IF_ERROR(enter("has_passed"));
  const std::shared_ptr<FakeEvent> e = to_event(event);
  if (e->captured_in != nullptr) {
    return sennit::fail(Code::kSystemError, "an event of a capture cannot be queried");
  }
  const std::scoped_lock lock(e->mutex);
  return e->reached >= e->recorded;
}

Result<std::optional<double>> FakeCuda::elapsed_us(void* begin, void* end) {
  SENNIT_RETURN_IF_ERROR(enter("elapsed_us"));
  std::array<double, 2> at_us{};
  for (std::size_t i = 0; i < at_us.size(); ++i) {
    const std::shared_ptr<FakeEvent> event = to_event(i == 0 ? begin : end);
    const std::scoped_lock lock(event->mutex);
    if (!event->is_timed || event->recorded == 0) {
      return sennit::fail(Code::kSystemError, "an event that keeps no time, or was not recorded");
    }
    if (event->reached < event->recorded) {
      return std::optional<double>();
    }
    at_us[i] = event->at_us[event->recorded];
  }
  return std::optional(at_us[1] - at_us[0]);
}

Status FakeCuda::walk_words(std::span<const WordStep> steps, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("walk_words"));
  if (!options_.has_word_steps) {
    return sennit::fail(Code::kUnsupported, "the fake device takes no word steps");
  }
  if (steps.size() > kMaxWordSteps) {
    return sennit::fail(Code::kInternalError, "{} word steps at once", steps.size());
  }
  report({.what = Issued::What::kWalk, .stream = stream, .steps = steps});
  put(*to_stream(stream), [this, copy = std::vector(steps.begin(), steps.end())](FakeStream& s) {
    s.queue().put([this, copy, now_us = s.now_us](const std::stop_token& stopped) {
      *now_us += costs_.words_us;
      for (const WordStep& step : copy) {
        if (costs_.words != nullptr) {
          walk(step, stopped, *costs_.words, place_of(step), *now_us);
        } else {
          walk(step, stopped);
        }
      }
    });
  });
  return {};
}

std::size_t FakeCuda::place_of(const WordStep& step) {
  const std::scoped_lock lock(mutex_);
  const auto* const word = reinterpret_cast<const std::byte*>(step.word);
  const Region* const region = region_of(word);
  return region == nullptr ? 0 : static_cast<std::size_t>(word - region->base);
}

Status FakeCuda::call_host(void (*act)(void*), void* argument, void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("call_host"));
  put(*to_stream(stream), [act, argument](FakeStream& s) {
    s.queue().put([act, argument](const std::stop_token&) { act(argument); });
  });
  return {};
}

Result<bool> FakeCuda::is_capturing(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("is_capturing"));
  return to_stream(stream)->capture != nullptr;
}

Result<bool> FakeCuda::is_idle(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("is_idle"));
  return to_stream(stream)->queue().is_idle();
}

Status FakeCuda::synchronize(void* stream) {
  SENNIT_RETURN_IF_ERROR(enter("synchronize"));
  to_stream(stream)->queue().drain();
  return {};
}

void FakeCuda::begin_capture(void* stream) {
  captures_.push_back(std::make_shared<FakeGraph>());
  captures_.back()->origin_ = to_stream(stream);
  to_stream(stream)->capture = captures_.back().get();
}

Result<FakeGraph> FakeCuda::end_capture(void* stream) {
  FakeGraph* const graph = to_stream(stream)->capture;
  bool joined = true;
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, other] : streams_) {
    if (other->capture == graph) {
      joined = joined && (other.get() == stream || !other->has_unjoined_work);
      other->capture = nullptr;
      other->has_unjoined_work = false;
    }
  }
  // An event of the capture means nothing outside of it.
  for (const auto& [key, event] : events_) {
    event->captured_in = nullptr;
  }
  if (!joined) {
    return sennit::fail(Code::kInvalidUsage, "a capture ends with work that was not joined");
  }
  return *graph;
}

}  // namespace sennit
