// Calls whose blocks all have one length: their arguments as a program passes them, checked and
// made a Work in one step.
#pragma once

#include <nanobind/nanobind.h>

namespace sennit::python {

void bind_equal_calls(nanobind::module_& module);

}  // namespace sennit::python
