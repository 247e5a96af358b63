#include "hand.hpp"

namespace sennit_bench {
namespace {

// A unit is what one thread moves: two elements. It travels as two words of an element and a flag.
constexpr int kUnitElements = 2;
constexpr int kMostUnits = 8192;
constexpr int kThreads = 512;

// An element and its flag are one word, stored and loaded whole. Partner: await.
__device__ __forceinline__ void store(ulonglong2* to, float2 unit, std::uint32_t flag) {
  const unsigned long long x = std::uint64_t{flag} << 32 | __float_as_uint(unit.x);
  const unsigned long long y = std::uint64_t{flag} << 32 | __float_as_uint(unit.y);
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(x), "l"(y) : "memory");
}

// Without a bound: the alarm of sennit-compare ends a process that stands still. Partner: store.
__device__ __forceinline__ float2 await(const ulonglong2* from, std::uint32_t flag) {
  unsigned long long x = 0;
  unsigned long long y = 0;
  do {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(x), "=l"(y)
                 : "l"(from)
                 : "memory");
  } while (x >> 32 != flag || y >> 32 != flag);
  return {__uint_as_float(static_cast<std::uint32_t>(x)),
          __uint_as_float(static_cast<std::uint32_t>(y))};
}

// All send to all. A rank that has received from all in a call knows that their last kernels,
// which read what came in it, have ended, so two sets of slots in turn are enough.
template <int kRanks, bool kSums>
__global__ void __launch_bounds__(kThreads) exchange(
    const float2* send, float2* recv, int units, HandSlots slots, int rank, std::uint32_t* calls) {
  const int at = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const std::uint32_t call = calls[blockIdx.x] + 1;
  if (at < units) {
    const float2 own = send[at];
    const std::size_t set = (call & 1U) * kRanks;
#pragma unroll
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) {
        store(slots.of[peer] + (set + rank) * kMostUnits + at, own, call);
      }
    }
    float2 sum = {};
#pragma unroll
    for (int source = 0; source < kRanks; ++source) {
      const float2 unit =
          source == rank ? own : await(slots.of[rank] + (set + source) * kMostUnits + at, call);
      if (kSums) {
        sum = {sum.x + unit.x, sum.y + unit.y};
      } else {
        recv[source * units + at] = unit;
      }
    }
    if (kSums) {
      recv[at] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    calls[blockIdx.x] = call;
  }
}

}  // namespace

bool Hand::is_for_these_ranks() const {
  if (ranks_ != 2 && ranks_ != kMostHandRanks) {
    return false;
  }
  for (int from = 0; from < ranks_; ++from) {
    for (int to = 0; to < ranks_; ++to) {
      int reaches = 0;
      if (from != to &&
          (cudaDeviceCanAccessPeer(&reaches, from, to) != cudaSuccess || reaches == 0)) {
        return false;
      }
    }
  }
  return true;
}

bool Hand::can_run(const std::string& collective, std::size_t count) {
  return count % kUnitElements == 0 && count / kUnitElements <= kMostUnits &&
         (collective == "all_reduce" || collective == "all_gather");
}

cudaError_t Hand::allocate(cudaIpcMemHandle_t* handle) {
  const std::size_t slot_bytes =
      std::size_t{2} * kMostHandRanks * kMostUnits * sizeof(ulonglong2);
  const std::size_t call_bytes = kMostUnits / kThreads * sizeof(std::uint32_t);
  void* memory = nullptr;
  if (const cudaError_t error = cudaMalloc(&memory, slot_bytes + call_bytes);
      error != cudaSuccess) {
    return error;
  }
  slots_.of[rank_] = static_cast<ulonglong2*>(memory);
  calls_ = reinterpret_cast<std::uint32_t*>(static_cast<char*>(memory) + slot_bytes);
  if (const cudaError_t error = cudaMemset(memory, 0, slot_bytes + call_bytes);
      error != cudaSuccess) {
    return error;
  }
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
    return error;
  }
  return cudaIpcGetMemHandle(handle, memory);
}

cudaError_t Hand::open(const cudaIpcMemHandle_t* handles) {
  for (int peer = 0; peer < ranks_; ++peer) {
    void* memory = nullptr;
    if (peer == rank_) {
      continue;
    }
    if (const cudaError_t error =
            cudaIpcOpenMemHandle(&memory, handles[peer], cudaIpcMemLazyEnablePeerAccess);
        error != cudaSuccess) {
      return error;
    }
    slots_.of[peer] = static_cast<ulonglong2*>(memory);
  }
  return cudaSuccess;
}

cudaError_t Hand::call(const std::string& collective,
                       const float* send,
                       float* recv,
                       std::size_t count,
                       cudaStream_t stream) const {
  const int units = static_cast<int>(count / kUnitElements);
  const bool sums = collective == "all_reduce";
  const auto kernel = ranks_ == 2 ? (sums ? exchange<2, true> : exchange<2, false>)
                                  : (sums ? exchange<4, true> : exchange<4, false>);
  kernel<<<(units + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      reinterpret_cast<const float2*>(send),
      reinterpret_cast<float2*>(recv),
      units,
      slots_,
      rank_,
      calls_);
  return cudaGetLastError();
}

}  // namespace sennit_bench
