#include "staged.hpp"

#include "compare_calls.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sennit_bench {
namespace {

void require(bool good, const char* what) {
  if (!good) {
    std::fprintf(stderr, "compare: staged: %s: %s\n", what, sennit_last_error_message());
    std::exit(3);
  }
}

}  // namespace

Staged::~Staged() {
  (void)sennit_comm_destroy(comm_);
  (void)cudaFreeHost(send_);
  (void)cudaFreeHost(recv_);
}

void Staged::make_id(RivalId* id) {
  sennit_unique_id_t made;
  require(sennit_unique_id_create(&made) == SENNIT_OK, "making an id");
  static_assert(sizeof(made) == sizeof(*id));
  std::memcpy(id, &made, sizeof(made));
}

void Staged::join(int ranks, int rank, const RivalId& id, cudaStream_t stream) {
  ranks_ = ranks;
  rank_ = rank;
  stream_ = stream;
  sennit_unique_id_t copy;
  std::memcpy(&copy, &id, sizeof(copy));
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.device = "host";
  require(sennit_comm_init_rank(&comm_, ranks, &copy, rank, &config) == SENNIT_OK, "joining");
}

void* Staged::allocate(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes) == cudaSuccess, "cudaMalloc");
  if (bytes > bytes_) {
    for (float** buffer : {&send_, &recv_}) {
      require(cudaFreeHost(*buffer) == cudaSuccess, "cudaFreeHost");
      require(cudaMallocHost(buffer, bytes) == cudaSuccess, "cudaMallocHost");
    }
    bytes_ = bytes;
  }
  return memory;
}

std::size_t Staged::sent_elements(std::string_view collective, const CallArgs& args) const {
  if (collective == "reduce_scatter" || collective == "all_to_all") {
    return args.count * static_cast<std::size_t>(ranks_);
  }
  const bool sends = collective == "broadcast"   ? rank_ == 0
                     : collective == "send_recv" ? !args.exchange->to.empty()
                                                 : true;
  return sends ? args.count : 0;
}

std::size_t Staged::received_elements(std::string_view collective, const CallArgs& args) const {
  if (collective == "all_gather" || collective == "all_to_all") {
    return args.count * static_cast<std::size_t>(ranks_);
  }
  const bool receives = collective == "reduce"      ? rank_ == 0
                        : collective == "send_recv" ? !args.exchange->from.empty()
                                                    : true;
  return receives ? args.count : 0;
}

bool Staged::call(std::string_view collective, const CallArgs& args) {
  const std::size_t sent = sent_elements(collective, args) * sizeof(float);
  const std::size_t received = received_elements(collective, args) * sizeof(float);
  CallArgs staged = args;
  staged.send = send_;
  staged.recv = recv_;
  const sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  // The stream ends here, so what the call before has copied back may be written again.
  return cudaMemcpyAsync(send_, args.send, sent, cudaMemcpyDeviceToHost, stream_) == cudaSuccess &&
         cudaStreamSynchronize(stream_) == cudaSuccess &&
         call_sennit(collective, staged, options, comm_, nullptr) &&
         cudaMemcpyAsync(args.recv, recv_, received, cudaMemcpyHostToDevice, stream_) ==
             cudaSuccess;
}

}  // namespace sennit_bench
