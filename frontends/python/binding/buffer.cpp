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
namespace {

// Looked up once: a call takes hardly more than a microsecond.
struct PythonNames {
  nb::handle elements = nb::module_::import_("sennit.elements").release();
  nb::handle typed = nb::object(elements.attr("Typed")).release();
  nb::handle numpy_array = nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  nb::handle dtype = nb::str("dtype").release();
  nb::handle is_builtin = nb::str("isbuiltin").release();
};

const PythonNames& python() {
  static const auto& all = *new PythonNames;
  return all;
}

// Whether the elements may be of a type that NumPy has not got: its own types are built in.
bool may_be_bits(nb::handle object) {
  const nb::handle type = object.type();
  if (type.is(python().typed)) {
    return true;
  }
  return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()),
                          reinterpret_cast<PyTypeObject*>(python().numpy_array.ptr())) != 0 &&
         !nb::getattr(nb::getattr(object, python().dtype), python().is_builtin).equal(nb::int_(1));
}

}  // namespace

Buffer buffer_of(nb::handle object, std::string name, bool writable, std::optional<Stream> stream) {
  if (may_be_bits(object)) {
    const nb::object bits = python().elements.attr("bits_of")(object);
    if (!bits.is_none()) {
      const auto dtype = nb::cast<std::string>(nb::object(bits.attr("dtype")));
      return {nb::object(bits.attr("array")), std::move(name), writable, dtype, stream};
    }
  }
  return {object, std::move(name), writable, std::nullopt, stream};
}

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

void require_place(const Buffer& buffer, int device) {
  if (device < 0) {
    buffer.require_host("the ranks of this communicator are host ranks, whose calls work on",
                        "copy it to the host, or join GPU ranks by sennit.init(device=\"cuda\") "
                        "(docs/python.md)");
  } else if (buffer.place().type == nb::device::cuda::value &&
             buffer.place().device != Place::kAnyDevice && buffer.place().device != device) {
    raise(SENNIT_INVALID_ARGUMENT,
          buffer.name() + " is in " + buffer.place().text() +
              ", but this rank works on cuda:" + std::to_string(device));
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
  module.def("buffer_of",
             &buffer_of,
             nb::arg("object"),
             nb::arg("name"),
             nb::arg("writable"),
             nb::arg("stream") = nb::none());
  module.attr("DTYPES") = dtype_names();
}

}  // namespace sennit::python
