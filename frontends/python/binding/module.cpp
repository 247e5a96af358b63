// The extension module sennit._core: the C ABI as Python objects. What Python code can decide as
// well is decided there, but for what every call needs: a call takes a few microseconds.
#include "buffer.hpp"
#include "codecs.hpp"
#include "comm.hpp"
#include "errors.hpp"
#include "streams.hpp"
#include "tools.hpp"
#include "work.hpp"

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

NB_MODULE(_core, module) {
  // A program may well end with a communicator in a global variable; that is no leak worth a
  // report.
  nanobind::set_leak_warnings(false);
  sennit::python::bind_errors(module);
  sennit::python::bind_buffer(module);
  sennit::python::bind_streams(module);
  sennit::python::bind_codecs(module);
  sennit::python::bind_comm(module);
  sennit::python::bind_work(module);
  sennit::python::bind_tools(module);
  module.def("version_string", [] { return sennit_version_string(); });
}
