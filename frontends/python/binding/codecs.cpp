#include "codecs.hpp"

#include "buffer.hpp"
#include "errors.hpp"

#include "sennit/tools.h"

#include <nanobind/stl/string.h>

#include <string>
#include <vector>

namespace nb = nanobind;

namespace sennit::python {
namespace {

constexpr const char* kWhat = "codecs work on";
constexpr const char* kInstead = "copy it to the host first";

nb::bytes encode(const std::string& codec, const Buffer& values) {
  values.require_host(kWhat, kInstead);
  std::size_t bytes = 0;
  check(sennit_tool_encode(
      codec.c_str(), values.dtype(), nullptr, values.count(), nullptr, 0, &bytes));
  std::vector<unsigned char> coded(bytes + 1);  // of nothing, too, it needs an address
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = sennit_tool_encode(
        codec.c_str(), values.dtype(), values.data(), values.count(), coded.data(), bytes, &bytes);
  }
  check(status);
  return nb::bytes(coded.data(), bytes);
}

void decode(const std::string& codec, const Buffer& coded, const Buffer& values) {
  coded.require_host(kWhat, kInstead);
  values.require_host(kWhat, kInstead);
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = sennit_tool_decode(
        codec.c_str(), values.dtype(), coded.data(), coded.nbytes(), values.data(), values.count());
  }
  check(status);
}

}  // namespace

void bind_codecs(nb::module_& module) {
  module.def("encode", &encode, nb::arg("codec"), nb::arg("values"));
  module.def("decode", &decode, nb::arg("codec"), nb::arg("coded"), nb::arg("values"));
}

}  // namespace sennit::python
