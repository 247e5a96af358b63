// How a kernel that is launched early (drivers/cuda) keeps the order of its stream. What is before
// it may still run when its blocks begin: until they wait for that, they touch nothing that it
// could write, and each kernel of ours waits first of all. Before sm_90 nothing comes early.
#pragma once

namespace sennit {

// Waits until what is before this kernel in its stream has ended, and its stores can be seen. All
// blocks do, also those that have nothing to do: what comes behind this kernel waits for it alone.
__device__ __forceinline__ void await_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel of the stream begin once a thread of each block has said so. Only where all
// that the block still waits for is on its way: until then the room on this GPU belongs to others.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace sennit
