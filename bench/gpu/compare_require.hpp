// What sennit-compare needs to go on; else it ends with a message.
#pragma once

#include "sennit/sennit.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace sennit_bench {

inline void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(3);
  }
}
inline void require(cudaError_t error, const char* what) {
  require(error == cudaSuccess, std::string(what) + ": " + cudaGetErrorString(error));
}
inline void require(sennit_status_t status, const char* what) {
  require(status == SENNIT_OK, std::string(what) + ": " + sennit_last_error_message());
}

}  // namespace sennit_bench
