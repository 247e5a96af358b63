#include "tools.hpp"

#include "errors.hpp"

#include "sennit/tools.h"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace sennit::python {
namespace {

using Tool = sennit_status_t (*)(const char* request, char** answer);

std::string ask(Tool tool, const std::string& request) {
  char* answer = nullptr;
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = tool(request.c_str(), &answer);
  }
  check(status);
  std::string text = answer;
  sennit_tool_free(answer);
  return text;
}

template <Tool tool>
void bind_tool(nb::module_& module, const char* name) {
  module.def(
      name, [](const std::string& request) { return ask(tool, request); }, nb::arg("request"));
}

}  // namespace

void bind_tools(nb::module_& module) {
  bind_tool<&sennit_tool_algorithms>(module, "tool_algorithms");
  bind_tool<&sennit_tool_verify>(module, "tool_verify");
  bind_tool<&sennit_tool_show>(module, "tool_show");
  bind_tool<&sennit_tool_schedule>(module, "tool_schedule");
  bind_tool<&sennit_tool_machine>(module, "tool_machine");
  bind_tool<&sennit_tool_machines>(module, "tool_machines");
  bind_tool<&sennit_tool_topology>(module, "tool_topology");
  bind_tool<&sennit_tool_simulate>(module, "tool_simulate");
  bind_tool<&sennit_tool_explain>(module, "tool_explain");
  bind_tool<&sennit_tool_reproduce>(module, "tool_reproduce");
  bind_tool<&sennit_tool_measured>(module, "tool_measured");
  bind_tool<&sennit_tool_tune>(module, "tool_tune");
  bind_tool<&sennit_tool_tune_check>(module, "tool_tune_check");
  bind_tool<&sennit_tool_explain_host>(module, "tool_explain_host");
  bind_tool<&sennit_tool_gpu_profiles>(module, "tool_gpu_profiles");
  bind_tool<&sennit_tool_codecs>(module, "tool_codecs");
  bind_tool<&sennit_tool_info>(module, "tool_info");
}

}  // namespace sennit::python
