#include "load.hpp"

#include "copy_load.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace sennit_bench {
namespace {

void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(3);
  }
}

// Of cublas_v2.h and library_types.h, which need not be installed.
using Handle = void*;
constexpr int kNoTranspose = 0;    // CUBLAS_OP_N
constexpr int kBfloat16 = 14;      // CUDA_R_16BF
constexpr int kComputeFloat = 68;  // CUBLAS_COMPUTE_32F
constexpr int kUsualAlgorithm = -1;

using Create = int (*)(Handle*);
using SetStream = int (*)(Handle, cudaStream_t);
using SetWorkspace = int (*)(Handle, void*, std::size_t);
using SetSms = int (*)(Handle, int);
using Multiply = int (*)(Handle,
                         int,
                         int,
                         int,
                         int,
                         int,
                         const void*,
                         const void*,
                         int,
                         int,
                         const void*,
                         int,
                         int,
                         const void*,
                         void*,
                         int,
                         int,
                         int,
                         int);

void* open_cublas(const std::string& path) {
  if (!path.empty()) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(library != nullptr, "--cublas: cannot load " + path);
    return library;
  }
  for (const char* const name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  require(false, "matmul needs cuBLAS: name libcublas.so with --cublas");
  return nullptr;
}

// bfloat16 of 4096 x 4096 x 4096, sums in float: about 0.2 ms on an H100. Operands have the sizes
// of random numbers, since a GPU computes faster with zeros.
class Matmul final : public Load {
 public:
  Matmul(const std::string& path, int sms) : library_(open_cublas(path)) {
    Handle handle = nullptr;
    require(function<Create>("cublasCreate_v2")(&handle) == 0, "cuBLAS has no handle to give");
    handle_ = handle;
    require(sms == 0 || function<SetSms>("cublasSetSmCountTarget")(handle, sms) == 0,
            "cuBLAS makes no products for " + std::to_string(sms) + " SMs");
    set_stream_ = function<SetStream>("cublasSetStream_v2");
    multiply_ = function<Multiply>("cublasGemmEx");
    require(cudaMalloc(&workspace_, kWorkspaceBytes) == cudaSuccess, "memory of cuBLAS");
    // Its own would be allocated in a capture.
    set_workspace_ = function<SetWorkspace>("cublasSetWorkspace_v2");
    std::vector<unsigned short> values(std::size_t{kSide} * kSide);
    unsigned state = 1;
    for (unsigned short& value : values) {
      state = state * 1664525U + 1013904223U;
      // Between 0.5 and 1, and their negatives: sign, exponent 126, 7 bits of fraction.
      value =
          static_cast<unsigned short>((state >> 31 << 15) | (126U << 7) | (state >> 20 & 0x7fU));
    }
    const std::size_t bytes = values.size() * sizeof(unsigned short);
    for (void** matrix : {&a_, &b_, &c_}) {
      require(cudaMalloc(matrix, bytes) == cudaSuccess &&
                  cudaMemcpy(*matrix, values.data(), bytes, cudaMemcpyDefault) == cudaSuccess,
              "memory of matrices");
    }
  }

  bool run(cudaStream_t stream) override {
    const float one = 1;
    const float zero = 0;
    // Setting the stream takes a workspace back.
    return set_stream_(handle_, stream) == 0 &&
           set_workspace_(handle_, workspace_, kWorkspaceBytes) == 0 &&
           multiply_(handle_,
                     kNoTranspose,
                     kNoTranspose,
                     kSide,
                     kSide,
                     kSide,
                     &one,
                     a_,
                     kBfloat16,
                     kSide,
                     b_,
                     kBfloat16,
                     kSide,
                     &zero,
                     c_,
                     kBfloat16,
                     kSide,
                     kComputeFloat,
                     kUsualAlgorithm) == 0;
  }

 private:
  static constexpr int kSide = 4096;
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

  template <typename Function>
  Function function(const char* name) {
    void* const found = dlsym(library_, name);
    require(found != nullptr, std::string("cuBLAS has no ") + name);
    return reinterpret_cast<Function>(found);
  }

  void* library_;
  Handle handle_ = nullptr;
  SetStream set_stream_ = nullptr;
  SetWorkspace set_workspace_ = nullptr;
  Multiply multiply_ = nullptr;
  void* workspace_ = nullptr;
  void* a_ = nullptr;
  void* b_ = nullptr;
  void* c_ = nullptr;
};

class Copies final : public Load {
 public:
  Copies() {
    for (void** buffer : {&from_, &to_}) {
      require(cudaMalloc(buffer, kBytes) == cudaSuccess &&
                  cudaMemset(*buffer, 0x5a, kBytes) == cudaSuccess,
              "memory of copies");
    }
  }
  bool run(cudaStream_t stream) override {
    return copy_by_all_sms(from_, to_, kBytes, stream) == cudaSuccess;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;  // more than caches hold
  void* from_ = nullptr;
  void* to_ = nullptr;
};

}  // namespace

std::unique_ptr<Load> load_of(const std::string& kind, const std::string& cublas, int sms) {
  if (kind == "copy") {
    return std::make_unique<Copies>();
  }
  return std::make_unique<Matmul>(cublas, sms);
}

}  // namespace sennit_bench
