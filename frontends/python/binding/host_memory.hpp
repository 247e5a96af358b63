// Memory of NumPy arrays, of objects with the buffer protocol, and of capsules of DLPack.
#pragma once

#include "memory_view.hpp"

namespace sennit::python {

bool is_numpy_array(nanobind::handle object);
// Of the class itself: no mask, nothing that a derived class may have changed.
bool is_plain_numpy_array(nanobind::handle object);

// `form` is an array of NumPy, a memoryview or a capsule of DLPack, that `object` has given.
MemoryView view_array(nanobind::handle form, nanobind::handle object, const MemoryRequest& request);

// Of an array of NumPy, or an object with the buffer protocol. Raises for anything else.
MemoryView view_host_memory(nanobind::handle object, const MemoryRequest& request);

}  // namespace sennit::python
