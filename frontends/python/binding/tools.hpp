// The functions of tools.h, JSON text in, JSON text out.
#pragma once

#include <nanobind/nanobind.h>

namespace sennit::python {

void bind_tools(nanobind::module_& module);

}  // namespace sennit::python
