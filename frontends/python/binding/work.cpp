#include "work.hpp"

#include "dtypes.hpp"
#include "equal_calls.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace sennit::python {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void require_same_dtype(const Buffer& from, const Buffer& to) {
  if (from.dtype() != to.dtype()) {
    raise(SENNIT_INVALID_ARGUMENT,
          from.name() + " is " + name_of(from.dtype()) + ", but " + to.name() + " is " +
              name_of(to.dtype()));
  }
}

// The stream on which the libraries of both buffers work; either may be null.
Stream stream_of_buffers(const Buffer* from, const Buffer* to) {
  const bool has_first = from != nullptr && from->stream().exists();
  const bool has_second = to != nullptr && to != from && to->stream().exists();
  const Stream first = has_first ? from->stream().get() : kDefaultStream;
  const Stream second = has_second ? to->stream().get() : first;
  if (has_first && first != second) {
    raise(SENNIT_INVALID_ARGUMENT,
          from->name() + " and " + to->name() +
              " come from libraries that work on different CUDA streams: pass stream=, and order "
              "the other one before and after the call");
  }
  return second;
}

void replace(std::string& text, std::string_view old, const std::string& by) {
  const std::size_t at = text.find(old);
  if (at != std::string::npos) {
    text.replace(at, old.size(), by);
  }
}

// Starts the works as one group: on every rank the group's calls run together, in any order.
void start_group(const std::vector<Work*>& works) {
  sennit_status_t status = SENNIT_OK;
  ErrorRecord error;
  {
    const nb::gil_scoped_release unlocked;
    status = sennit_group_start();
    for (Work* work : works) {
      if (status == SENNIT_OK) {
        status = work->post();
      }
    }
    if (status != SENNIT_OK) {
      error = record_of(status);
    }
    const sennit_status_t end_status = sennit_group_end();
    if (status == SENNIT_OK && end_status != SENNIT_OK) {
      error = record_of(end_status);
    }
  }
  if (error.status != SENNIT_OK) {
    raise(error);
  }
}

}  // namespace

Work::Work(nb::object comm, CallArguments arguments)
    : comm_object_(std::move(comm)),
      arguments_(std::move(arguments)),
      comm_(nb::cast<Comm*>(comm_object_)),
      handle_(comm_->get()),
      is_on_gpu_(comm_->device() >= 0) {
  const Buffer* const from = arguments_.send.get();
  const Buffer* const to = arguments_.recv.get();
  if (from != nullptr && to != nullptr) {
    require_same_dtype(*from, *to);
  }
  for (const Buffer* const buffer : {from, to}) {
    if (buffer != nullptr) {
      require_place(*buffer, comm_->device());
      dtype_ = buffer->dtype();
    }
  }
  if (arguments_.options.rms_norm != nullptr && to != nullptr) {
    arguments_.options.rms_norm->require_fit(*to, comm_->device());
  }
  send_ = from == nullptr ? nullptr : from->data();
  recv_ = to == nullptr ? nullptr : to->data();
  if (is_on_gpu_ && !arguments_.options.stream) {
    find_stream();
  }
  stream_ = reinterpret_cast<void*>(arguments_.options.stream.value_or(kDefaultStream));
}

// Without one that the program names.
void Work::find_stream() {
  const Buffer* const from = arguments_.send.get();
  const Buffer* const to = arguments_.recv.get();
  if (from == nullptr && to == nullptr) {
    arguments_.options.stream = comm_->stream();
    return;
  }
  arguments_.options.stream = stream_of_buffers(from, to);
  comm_->remember((from != nullptr ? from : to)->stream());
}

Work::~Work() {
  if (work_ != nullptr && is_on_gpu_) {
    comm_->leave_behind(std::exchange(work_, nullptr));
  } else if (work_ != nullptr) {
    // The call may have to wait for other ranks, which may be threads that need the GIL.
    const nb::gil_scoped_release unlocked;
    sennit_work_destroy(work_);
  }
}

sennit_status_t Work::post() {
  auto op = static_cast<sennit_redop_t>(arguments_.op);
  if (arguments_.scalar.empty()) {
    return post_with(op);
  }
  const sennit_status_t made =
      sennit_redop_create_premulsum(&op, arguments_.scalar.data(), dtype_, handle_);
  if (made != SENNIT_OK) {
    return made;
  }
  const sennit_status_t status = post_with(op);
  // The call has what it needs of the operator.
  sennit_redop_destroy(op, handle_);
  return status;
}

sennit_status_t Work::post_with(sennit_redop_t op) {
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  const CallOptions& asked = arguments_.options;
  options.algorithm = asked.algorithm ? asked.algorithm->c_str() : nullptr;
  options.deadline_s = asked.deadline_s;
  options.work = has_work_ ? &work_ : nullptr;
  options.reproducible = asked.reproducible ? 1 : 0;
  options.tag = asked.tag;
  options.codec = asked.codec ? asked.codec->c_str() : nullptr;
  const sennit_rms_norm_t norm =
      asked.rms_norm ? asked.rms_norm->in_c() : sennit_rms_norm_t SENNIT_RMS_NORM_INITIALIZER;
  options.rms_norm = asked.rms_norm ? &norm : nullptr;
  const std::size_t count = arguments_.count;
  const int root = arguments_.root;
  switch (arguments_.collective) {
    case Collective::kAllReduce:
      return sennit_all_reduce(send_, recv_, count, dtype_, op, handle_, stream_, &options);
    case Collective::kReduce:
      return sennit_reduce(send_, recv_, count, dtype_, op, root, handle_, stream_, &options);
    case Collective::kBroadcast:
      return sennit_broadcast(send_, recv_, count, dtype_, root, handle_, stream_, &options);
    case Collective::kAllGather:
      return sennit_all_gather(send_, recv_, count, dtype_, handle_, stream_, &options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(send_, recv_, count, dtype_, op, handle_, stream_, &options);
    case Collective::kAllToAll:
      return sennit_all_to_all(send_, recv_, count, dtype_, handle_, stream_, &options);
    case Collective::kGather:
      return sennit_gather(send_, recv_, count, dtype_, root, handle_, stream_, &options);
    case Collective::kScatter:
      return sennit_scatter(send_, recv_, count, dtype_, root, handle_, stream_, &options);
    case Collective::kBarrier:
      return sennit_barrier(handle_, stream_, &options);
    case Collective::kSend:
      return sennit_send(send_, count, dtype_, root, handle_, stream_, &options);
    case Collective::kRecv:
      return sennit_recv(recv_, count, dtype_, root, handle_, stream_, &options);
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
    case Collective::kGatherV:
    case Collective::kScatterV:
      return post_varying(options);
  }
  return SENNIT_INTERNAL_ERROR;
}

sennit_status_t Work::post_varying(const sennit_call_options_t& options) {
  const Blocks& in = arguments_.input;
  const Blocks& out = arguments_.output;
  const std::size_t count = arguments_.count;
  const int root = arguments_.root;
  switch (arguments_.collective) {
    case Collective::kAllGatherV:
      return sennit_all_gather_v(
          send_, count, recv_, out.counts.data(), out.places(), dtype_, handle_, stream_, &options);
    case Collective::kAllToAllV:
      return sennit_all_to_all_v(send_,
                                 in.counts.data(),
                                 in.places(),
                                 recv_,
                                 out.counts.data(),
                                 out.places(),
                                 dtype_,
                                 handle_,
                                 stream_,
                                 &options);
    case Collective::kGatherV:
      return sennit_gather_v(send_,
                             count,
                             recv_,
                             out.counts.data(),
                             out.places(),
                             dtype_,
                             root,
                             handle_,
                             stream_,
                             &options);
    default:
      return sennit_scatter_v(send_,
                              in.counts.data(),
                              in.places(),
                              recv_,
                              count,
                              dtype_,
                              root,
                              handle_,
                              stream_,
                              &options);
  }
}

void Work::start() {
  sennit_status_t status = SENNIT_OK;
  comm_->destroy_ended();
  {
    const nb::gil_scoped_release unlocked;
    status = post();
  }
  if (status != SENNIT_OK) {
    raise(record_of_call(status));
  }
}

bool Work::is_ended_by_stream() {
  has_work_ = !is_on_gpu_;
  return is_on_gpu_;
}

ErrorRecord Work::record_of_call(sennit_status_t status) const {
  ErrorRecord record = record_of(status);
  if (arguments_.send != nullptr) {
    replace(record.message, "the send buffer", arguments_.send->name());
  }
  if (arguments_.recv != nullptr) {
    replace(record.message, "the recv buffer", arguments_.recv->name());
  }
  return record;
}

void Work::run() {
  sennit_status_t status = SENNIT_OK;
  has_work_ = !is_on_gpu_;
  {
    const nb::gil_scoped_release unlocked;
    status = post();
    if (status == SENNIT_OK && has_work_) {
      status = sennit_work_wait(work_, kSignalSlice_s);
    }
  }
  if (!end_with(status)) {
    interrupt_if_asked();
    wait(-1.0);
  }
}

bool Work::wait(double timeout_s) {
  const double until = seconds_now() + timeout_s;
  if (has_ended_) {
    return end_with(error_.status);
  }
  if (work_ == nullptr) {
    raise(SENNIT_INVALID_USAGE,
          "the work has not been started; a group starts its calls at its end");
  }
  while (true) {
    const double left = timeout_s < 0.0 ? kSignalSlice_s : until - seconds_now();
    sennit_status_t status = SENNIT_OK;
    {
      const nb::gil_scoped_release unlocked;
      status = sennit_work_wait(work_, std::clamp(left, 0.0, kSignalSlice_s));
      if (status == SENNIT_IN_PROGRESS && timeout_s >= 0.0) {
        // A caller that comes back by itself may then make the call that another rank waits for. To
        // wait in slices alone would say that it cannot.
        int done = 0;
        sennit_work_test(work_, &done);
      }
    }
    if (end_with(status)) {
      return true;
    }
    interrupt_if_asked();
    if (timeout_s >= 0.0 && seconds_now() >= until) {
      return false;
    }
  }
}

bool Work::test() {
  if (has_ended_ || work_ == nullptr) {
    return has_ended_;
  }
  int done = 0;
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = sennit_work_test(work_, &done);
  }
  check(status);
  return done != 0;
}

bool Work::is_message() const {
  return arguments_.collective == Collective::kSend || arguments_.collective == Collective::kRecv;
}

int Work::peer() {
  if (!is_message()) {
    raise(SENNIT_INVALID_USAGE, "the call has no peer: it is no send or recv");
  }
  if (!has_ended_) {
    raise(SENNIT_IN_PROGRESS, "the call is not known to have ended: wait() for it, then ask");
  }
  end_with(error_.status);
  return peer_;
}

// True when `status` is the end of the call, which a failure is too: then it raises, now and
// whenever the work is asked again.
bool Work::end_with(sennit_status_t status) {
  if (status == SENNIT_IN_PROGRESS) {
    return false;
  }
  if (!has_ended_) {
    has_ended_ = true;
    if (status != SENNIT_OK) {
      error_ = record_of_call(status);
    } else if (is_message()) {
      peer_ = arguments_.root;
      if (peer_ == SENNIT_ANY_RANK) {
        sennit_work_peer(work_, &peer_);
      }
    }
    sennit_work_destroy(std::exchange(work_, nullptr));
    arguments_.send.reset();
    arguments_.recv.reset();
  }
  if (error_.status != SENNIT_OK) {
    raise(error_);
  }
  return true;
}

void Work::interrupt_if_asked() {
  if (PyErr_CheckSignals() != 0) {
    // The exception that the signal handler raised must survive the abort.
    nb::python_error interrupt;
    sennit_comm_abort(handle_);
    throw interrupt;
  }
}

void bind_work(nb::module_& module) {
  nb::enum_<Collective>(module, "Collective")
      .value("ALL_REDUCE", Collective::kAllReduce)
      .value("REDUCE", Collective::kReduce)
      .value("BROADCAST", Collective::kBroadcast)
      .value("ALL_GATHER", Collective::kAllGather)
      .value("REDUCE_SCATTER", Collective::kReduceScatter)
      .value("ALL_TO_ALL", Collective::kAllToAll)
      .value("GATHER", Collective::kGather)
      .value("SCATTER", Collective::kScatter)
      .value("BARRIER", Collective::kBarrier)
      .value("SEND", Collective::kSend)
      .value("RECV", Collective::kRecv)
      .value("ALL_GATHER_V", Collective::kAllGatherV)
      .value("ALL_TO_ALL_V", Collective::kAllToAllV)
      .value("GATHER_V", Collective::kGatherV)
      .value("SCATTER_V", Collective::kScatterV);
  nb::class_<Blocks>(module, "Blocks")
      .def(nb::init<std::vector<std::size_t>, std::vector<std::size_t>>(),
           nb::arg("counts"),
           nb::arg("displacements"));
  bind_rms_norm(module);
  nb::class_<CallOptions>(module, "CallOptions")
      .def(nb::init<std::optional<std::string>,
                    double,
                    bool,
                    std::optional<std::string>,
                    std::optional<Stream>,
                    std::int32_t>(),
           nb::arg("algorithm") = nb::none(),
           nb::arg("deadline_s") = 0.0,
           nb::arg("reproducible") = false,
           nb::arg("codec") = nb::none(),
           nb::arg("stream") = nb::none(),
           nb::arg("tag") = 0)
      .def_ro("stream", &CallOptions::stream)
      .def(
          "with_rms_norm",
          [](const CallOptions& self, std::shared_ptr<const RmsNorm> norm) {
            CallOptions options = self;
            options.rms_norm = std::move(norm);
            return options;
          },
          nb::arg("norm"));
  nb::class_<Work>(module, "Work")
      .def(
          "__init__",
          [](Work* self,
             nb::object comm,
             Collective collective,
             std::shared_ptr<const Buffer> send,
             std::shared_ptr<const Buffer> recv,
             std::size_t count,
             int root,
             const CallOptions& options,
             Blocks input,
             Blocks output) {
            new (self) Work(std::move(comm),
                            {.collective = collective,
                             .send = std::move(send),
                             .recv = std::move(recv),
                             .count = count,
                             .root = root,
                             .options = options,
                             .input = std::move(input),
                             .output = std::move(output)});
          },
          nb::arg("comm"),
          nb::arg("collective"),
          nb::arg("send").none(),
          nb::arg("recv").none(),
          nb::arg("count"),
          nb::arg("root"),
          nb::arg("options"),
          nb::arg("input"),
          nb::arg("output"))
      .def("start", &Work::start)
      .def("run", &Work::run)
      .def("is_ended_by_stream", &Work::is_ended_by_stream)
      .def("wait", &Work::wait, nb::arg("timeout_s"))
      .def("test", &Work::test)
      .def("peer", &Work::peer);
  module.attr("ANY_RANK") = SENNIT_ANY_RANK;
  module.def("start_group", &start_group, nb::arg("works"));
  bind_equal_calls(module);
}

}  // namespace sennit::python
