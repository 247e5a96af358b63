#include "buffer.hpp"

#include "dtypes.hpp"
#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {

Buffer::Buffer(nb::handle object,
               std::string name,
               bool writable,
               const std::optional<std::string>& dtype,
               std::optional<Stream> stream)
    : name_(std::move(name)),
      view_(view_memory(object, {.name = name_, .is_written = writable, .stream = stream})),
      count_(view_.count()),
      dtype_(SENNIT_UINT8) {
  if (!view_.place.is_host() && !view_.place.is_cuda()) {
    raise(SENNIT_UNSUPPORTED,
          name_ + " is in " + view_.place.text() +
              "; calls work on memory of the host or of a "
              "CUDA device");
  }
  dtype_ = dtype ? dtype_named(*dtype, view_.dtype, name_) : dtype_of(view_.dtype, name_);
  if (!view_.is_contiguous) {
    refuse_strides(name_, view_.place);
  }
}

nb::tuple Buffer::shape() const {
  nb::list lengths;
  for (const std::int64_t length : view_.shape) {
    lengths.append(length);
  }
  return nb::tuple(lengths);
}

void Buffer::require_host(const std::string& what, const std::string& instead) const {
  if (!view_.place.is_host()) {
    raise(SENNIT_UNSUPPORTED,
          name_ + " is in " + view_.place.text() + ", but " + what + " host memory: " + instead);
  }
}

void bind_buffer(nb::module_& module) {
  nb::class_<Buffer>(module, "Buffer")
      .def(nb::init<nb::handle,
                    std::string,
                    bool,
                    std::optional<std::string>,
                    std::optional<Stream>>(),
           nb::arg("object"),
           nb::arg("name"),
           nb::arg("writable"),
           nb::arg("dtype") = nb::none(),
           nb::arg("stream") = nb::none())
      .def_prop_ro("shape", &Buffer::shape)
      .def_prop_ro("dtype", [](const Buffer& buffer) { return name_of(buffer.dtype()); })
      .def_prop_ro("count", &Buffer::count)
      .def_prop_ro("nbytes", &Buffer::nbytes)
      .def_prop_ro("is_on_gpu", [](const Buffer& buffer) { return buffer.place().is_cuda(); })
      .def_prop_ro("stream",
                   [](const Buffer& buffer) {
                     return buffer.stream().exists() ? std::optional<Stream>(buffer.stream().get())
                                                     : std::nullopt;
                   })
      .def_prop_ro("address", [](const Buffer& buffer) {
        return reinterpret_cast<std::uintptr_t>(buffer.data());
      });
  module.attr("DTYPES") = dtype_names();
}

}  // namespace sennit::python
