// __cuda_array_interface__, versions 0 to 3, as CuPy, Numba, PyCUDA and others have it.
#pragma once

#include "memory_view.hpp"

namespace sennit::python {

// Whether the description names the stream on which the array's library works.
bool names_stream(nanobind::handle description);

// The memory that a description of `object` names. Raises InvalidArgument or Unsupported.
MemoryView view_cuda_array(nanobind::handle object,
                           nanobind::handle description,
                           const MemoryRequest& request);

}  // namespace sennit::python
