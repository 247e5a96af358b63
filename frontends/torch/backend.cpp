#include "backend.hpp"

#include "collectives.hpp"
#include "failures.hpp"
#include "list_collectives.hpp"
#include "sparse.hpp"
#include "unlocked.hpp"

#include <functional>
#include <utility>

namespace sennit::pytorch {
namespace {

// Calls on GPUs are made later: the program shall not learn of it then.
void refuse_on_gpus(const Tensors& tensors, int peer, int tag) {
  if (!only(tensors).device().is_cuda()) {
    return;
  }
  if (tag != 0) {
    refuse(SENNIT_UNSUPPORTED,
           c10::str("the backend sennit has tags for tensors in CPU memory, here ",
                    tag,
                    " on a GPU: messages of two ranks arrive in order there"));
  }
  if (peer == SENNIT_ANY_RANK) {
    refuse(SENNIT_UNSUPPORTED,
           "the backend sennit receives on a GPU from a rank that is named: pass src");
  }
}

bool is_message(const Operation& operation) {
  return operation.type == c10d::OpType::SEND || operation.type == c10d::OpType::RECV ||
         operation.type == c10d::OpType::RECVANYSOURCE;
}

// Where the tensors of an operation are; one without tensors is for host ranks.
at::Device device_of(const Operation& operation) {
  for (const Tensors& tensors : {std::cref(operation.inputs), std::cref(operation.outputs)}) {
    if (!tensors.empty()) {
      return tensors.front().device();
    }
  }
  return at::kCPU;
}

}  // namespace

Backend::Backend(Ranks ranks, sennit_comm_t comm, JoinGpus join_gpus, SettingsByCollective settings)
    : c10d::Backend(ranks.rank, ranks.size),
      comm_(comm),
      join_gpus_(std::move(join_gpus)),
      settings_(std::move(settings)) {}

Backend::~Backend() {
  const Unlocked unlocked;
  shutdown();
}

void Backend::abort() {
  const Unlocked unlocked;
  if (comm_ != nullptr) {
    sennit_comm_abort(comm_);
  }
  if (gpus_) {
    gpus_->abort();
  }
}

void Backend::shutdown() {
  const Unlocked unlocked;
  if (gpus_) {
    gpus_->shutdown();
  }
  if (comm_ != nullptr) {
    sennit_comm_destroy(std::exchange(comm_, nullptr));
  }
  coalesced_.clear();
  dropped_->clear();
}

double Backend::deadline_of(std::chrono::milliseconds timeout) const {
  const auto asked = timeout < std::chrono::milliseconds(0) ? timeout_ : timeout;
  if (asked < std::chrono::milliseconds(0)) {
    return 0.0;  // that of the communicator
  }
  constexpr double kNone = -1.0;
  return asked.count() == 0 ? kNone : std::chrono::duration<double>(asked).count();
}

GpuRanks& Backend::gpu_ranks(const at::Device& device) {
  if (!gpus_) {
    gpus_ = std::make_shared<GpuRanks>(join_gpus_(device.str()), device, getRank());
  }
  return *gpus_;
}

WorkPointer Backend::run(Operation operation) {
  const Unlocked unlocked;
  if (!is_message(operation)) {
    ++sequence_;
  }
  dropped_->sweep();
  if (operation.takes_settings) {
    operation.settings = settings_of(operation.title, settings_);
  }
  WorkPointer work;
  const at::Device device = device_of(operation);
  if (device.is_cpu()) {
    work = run_on_host(operation);
  } else if (device.is_cuda()) {
    const double deadline_s = deadline_of(operation.timeout);
    const bool is_posted = is_coalescing_ || is_message(operation);
    work = gpu_ranks(device).run(std::move(operation), deadline_s, is_posted);
  } else {
    refuse(SENNIT_UNSUPPORTED,
           c10::str("the backend sennit moves tensors of CPUs and CUDA GPUs, this one is on ",
                    device));
  }
  if (is_coalescing_) {
    coalesced_.push_back(work);
  }
  return work;
}

WorkPointer Backend::run_on_host(Operation& operation) {
  if (comm_ == nullptr) {
    refuse(SENNIT_INVALID_USAGE, "the process group has been shut down: make another one");
  }
  auto work = c10::make_intrusive<HostWork>(getRank(), comm_, dropped_, operation);
  work->start(operation, deadline_of(operation.timeout));
  return work;
}

void Backend::startCoalescing() {
  is_coalescing_ = true;
  coalesced_.clear();
}

// Host ranks have started the calls already: nobody has to wait for one to start the next.
WorkPointer Backend::endCoalescing() {
  const Unlocked unlocked;
  is_coalescing_ = false;
  if (gpus_) {
    gpus_->make_posted();
  }
  return c10::make_intrusive<ManyWorks>(getRank(), std::exchange(coalesced_, {}));
}

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return run(pytorch::broadcast(tensors, options));
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (only(tensors).layout() == at::kSparse) {
    return allreduce_sparse(tensors, options);
  }
  return run(all_reduce(tensors, options));
}

void Backend::all_reduce_rms_norm(const Normalised& normalised) {
  run(pytorch::all_reduce_rms_norm(normalised));
}

WorkPointer Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Tensors lengths = lengths_of_all(ranks(), only(tensors));
  Operation exchange = all_gather(ranks(), {lengths[1]}, {lengths[0]}, c10d::AllgatherOptions());
  exchange.takes_settings = false;
  run(std::move(exchange))->wait();
  return run(sparse_all_reduce(only(tensors), lengths[1], options));
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  return run(all_reduce_each(tensors, options));
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return run(pytorch::reduce(tensors, options));
}

WorkPointer Backend::allgather(std::vector<Tensors>& outputs,
                               Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  return run(all_gather_list(ranks(), outputs, inputs, options));
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs,
                                         Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  return run(all_gather_lists(ranks(), outputs, inputs, options));
}

WorkPointer Backend::_allgather_base(at::Tensor& output,
                                     at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  return run(all_gather(ranks(), {output}, {input}, options));
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  return run(all_gather(ranks(), outputs, inputs, options));
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs,
                            Tensors& inputs,
                            const c10d::GatherOptions& options) {
  return run(pytorch::gather(ranks(), outputs, inputs, options));
}

WorkPointer Backend::scatter(Tensors& outputs,
                             std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& options) {
  return run(pytorch::scatter(ranks(), outputs, inputs, options));
}

WorkPointer Backend::reduce_scatter(Tensors& outputs,
                                    std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  return run(reduce_scatter_list(ranks(), outputs, inputs, options));
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output,
                                          at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  return run(pytorch::reduce_scatter(ranks(), {output}, {input}, options));
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs,
                                                     Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  return run(pytorch::reduce_scatter(ranks(), outputs, inputs, options));
}

WorkPointer Backend::alltoall(Tensors& outputs,
                              Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  return run(all_to_all_list(ranks(), outputs, inputs, options));
}

WorkPointer Backend::alltoall_base(at::Tensor& output,
                                   at::Tensor& input,
                                   std::vector<std::int64_t>& output_splits,
                                   std::vector<std::int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  return run(all_to_all(ranks(), output, input, output_splits, input_splits, options));
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  if (gpus_) {
    const Unlocked unlocked;
    gpus_->synchronize();
  }
  return run(pytorch::barrier(options));
}

WorkPointer Backend::send(Tensors& tensors, int peer, int tag) {
  refuse_on_gpus(tensors, peer, tag);
  return run(pytorch::send(tensors, peer, tag));
}

WorkPointer Backend::recv(Tensors& tensors, int peer, int tag) {
  refuse_on_gpus(tensors, peer, tag);
  return run(pytorch::recv(tensors, peer, tag));
}

WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  return recv(tensors, SENNIT_ANY_RANK, tag);
}

}  // namespace sennit::pytorch
