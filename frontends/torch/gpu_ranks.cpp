#include "gpu_ranks.hpp"

#include "failures.hpp"
#include "host_work.hpp"

#include <c10/core/StreamGuard.h>
#include <pybind11/pybind11.h>
#include <utility>

namespace sennit::pytorch {
namespace {

// Guards of PyTorch before 2.13 cannot say so; its Python can.
template <class Guard>
bool is_capturing(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.isStreamCapturing(stream); }) {
    return guard.isStreamCapturing(stream);
  } else {
    const pybind11::gil_scoped_acquire locked;
    const c10::StreamGuard here(stream);
    return pybind11::module_::import("torch.cuda")
        .attr("is_current_stream_capturing")()
        .template cast<bool>();
  }
}

}  // namespace

GpuRanks::GpuRanks(sennit_comm_t comm, at::Device device, int rank)
    : comm_(comm),
      device_(device),
      rank_(rank),
      guard_(device.type()),
      side_(guard_.getStreamFromGlobalPool(device)) {}

GpuRanks::~GpuRanks() { shutdown(); }

void GpuRanks::order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

c10::intrusive_ptr<c10d::Work> GpuRanks::run(Operation operation,
                                             double deadline_s,
                                             bool is_posted) {
  if (comm_ == nullptr) {
    refuse(SENNIT_INVALID_USAGE, "the process group has been shut down");
  }
  auto work = c10::make_intrusive<GpuWork>(shared_from_this(), std::move(operation), deadline_s);
  if (is_posted) {
    posted_.push_back(work);
    return work;
  }
  make_posted();
  work->start();
  work->end();
  return work;
}

void GpuRanks::make_posted() {
  const auto posted = std::exchange(posted_, {});
  if (posted.empty()) {
    return;
  }
  CallGroup group(posted.size());
  for (const auto& work : posted) {
    work->start();
  }
  group.end();
  for (const auto& work : posted) {
    work->end();
  }
}

void GpuRanks::synchronize() {
  make_posted();
  guard_.synchronizeStream(current());
}

void GpuRanks::abort() {
  if (comm_ != nullptr) {
    sennit_comm_abort(comm_);
  }
}

void GpuRanks::shutdown() {
  if (comm_ != nullptr) {
    posted_.clear();
    sennit_comm_destroy(std::exchange(comm_, nullptr));
  }
}

GpuWork::GpuWork(std::shared_ptr<GpuRanks> ranks, Operation operation, double deadline_s)
    : c10d::Work(ranks->rank_, operation.type, operation.title, operation.inputs),
      ranks_(std::move(ranks)),
      operation_(std::move(operation)),
      deadline_s_(deadline_s),
      stream_(operation_.is_async ? ranks_->side_ : ranks_->current()),
      end_(ranks_->device_.type()) {
  if (operation_.is_async) {
    GpuRanks::order(ranks_->current(), stream_);
    // The allocator must not give their memory away before that stream is done with it.
    remember_on(stream_, operation_.inputs);
    remember_on(stream_, operation_.buffers);
    remember_on(stream_, operation_.outputs);
  }
}

void GpuWork::remember_on(const c10::Stream& stream, const Tensors& tensors) const {
  for (const at::Tensor& tensor : tensors) {
    ranks_->guard_.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
  }
}

void GpuWork::start() {
  is_enqueued_ = true;
  Calls calls(ranks_->comm_, stream_.native_handle(), deadline_s_, nullptr, operation_.settings);
  operation_.start(calls);
}

void GpuWork::end() {
  if (const auto last = std::exchange(operation_.finish, nullptr)) {
    const c10::StreamGuard here(stream_);
    last();
  }
  if (operation_.is_async) {
    is_captured_ = is_capturing(ranks_->guard_, stream_);
    end_.record(stream_);
    has_end_ = true;
  }
  operation_.start = nullptr;
  operation_.inputs.clear();
  operation_.buffers.clear();
}

void GpuWork::make_if_posted() {
  if (!is_enqueued_) {
    ranks_->make_posted();
  }
}

bool GpuWork::isCompleted() {
  make_if_posted();
  if (!has_end_) {
    is_captured_ = is_capturing(ranks_->guard_, stream_);
    end_.record(stream_);
    has_end_ = true;
  }
  return is_captured_ || end_.query();  // calls of a graph are never asked
}

bool GpuWork::wait(std::chrono::milliseconds) {
  make_if_posted();
  // A synchronous call is waited for on the stream that it is on.
  if (operation_.is_async && has_end_) {
    end_.block(ranks_->current());
  }
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture() {
  make_if_posted();
  const c10::StreamGuard here(stream_);
  return future_of(operation_.outputs, {ranks_->device_});
}

}  // namespace sennit::pytorch
