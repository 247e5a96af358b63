// Encoding and decoding by the codecs of tools.h.
#pragma once

#include <nanobind/nanobind.h>

namespace sennit::python {

void bind_codecs(nanobind::module_& module);

}  // namespace sennit::python
