// How many SMs a captured call takes.
#pragma once

#include <cuda_runtime.h>

namespace sennit_bench {

// The thread blocks of its largest kernel, as many as there are SMs at most; 0 where copy engines
// do all of it. Ends the program with a message where CUDA does not say.
int sms_of(cudaGraph_t graph, int device);

}  // namespace sennit_bench
