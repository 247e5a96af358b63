// What to do about errors of CUDA's Multi-Process Service. Its processes share what fails, so that
// most of them mean more than one process.
#pragma once

#include <string>

namespace sennit::cuda {

// For the end of a message: ". Next: ..."; empty for errors about anything else.
std::string mps_advice(int error);

}  // namespace sennit::cuda
