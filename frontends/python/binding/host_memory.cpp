#include "host_memory.hpp"

#include "dtypes.hpp"
#include "errors.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

// Whether the elements of an array of NumPy, or what memoryview calls its format, are in the other
// order of bytes.
bool has_foreign_byte_order(nb::handle array) {
  if (nb::hasattr(array, "dtype")) {
    return !nb::cast<bool>(array.attr("dtype").attr("isnative"));
  }
  const auto format = nb::cast<std::string>(array.attr("format"));
  return format.starts_with('>') || format.starts_with('!');
}

// Elements that have an order of bytes and a size, and so might be numbers: no objects, texts,
// times or structures.
bool has_numbers(nb::handle array) {
  constexpr std::string_view kOther = "OSUMm";
  const nb::object dtype = array.attr("dtype");
  const auto kind = nb::cast<std::string>(dtype.attr("kind"));
  return kOther.find(kind.front()) == std::string_view::npos && dtype.attr("fields").is_none() &&
         !text_of(dtype.attr("name")).starts_with("void");
}

// Why an array of NumPy, or a memoryview, has not been taken.
[[noreturn]] void refuse(nb::handle array, nb::handle object, const std::string& name) {
  const bool is_numpy = nb::hasattr(array, "dtype");
  const auto what = name + " (" + class_name(object) + ")";
  if (has_foreign_byte_order(array)) {
    const std::string source = is_numpy ? name : "numpy.asarray(" + name + ")";
    raise(SENNIT_INVALID_ARGUMENT,
          what + " has elements in the byte order of other machines; pass " + source + ".astype(" +
              source + ".dtype.newbyteorder('='))");
  }
  const auto item_bytes = nb::cast<std::int64_t>(array.attr("itemsize"));
  for (const nb::handle stride : array.attr("strides")) {
    if (item_bytes > 0 && nb::cast<std::int64_t>(stride) % item_bytes != 0) {
      refuse_strides(name, {});
    }
  }
  if (is_numpy && has_numbers(array)) {
    raise(SENNIT_UNSUPPORTED,
          name + " has elements of type " + text_of(array.attr("dtype").attr("name")) +
              "; this build knows " + known_dtypes());
  }
  raise(SENNIT_INVALID_ARGUMENT,
        what + " is no array of numbers: its elements are of " +
            (is_numpy ? "type " + text_of(array.attr("dtype"))
                      : "format '" + nb::cast<std::string>(array.attr("format")) + "'"));
}

nb::ndarray<nb::ro> import_array(nb::handle form, nb::handle object, const MemoryRequest& request) {
  nb::ndarray<nb::ro> readable;
  if (request.is_written) {
    // Only a cast to the writable type shows whether the owner allows writing.
    nb::ndarray<> array;
    if (nb::try_cast(form, array)) {
      return nb::ndarray<nb::ro>(array.handle());
    }
  }
  if (!nb::try_cast(form, readable)) {
    if (PyCapsule_CheckExact(form.ptr()) != 0) {
      raise(SENNIT_INVALID_ARGUMENT,
            request.name + " (" + class_name(object) +
                ") exports its memory in a form of DLPack that this build does not know");
    }
    refuse(form, object, request.name);
  }
  if (request.is_written) {
    refuse_writing(request.name);
  }
  return readable;
}

}  // namespace

bool is_numpy_array(nb::handle object) {
  return nb::isinstance(object, nb::module_::import_("numpy").attr("ndarray"));
}

bool is_plain_numpy_array(nb::handle object) {
  static const nb::handle kType =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  return object.type().is(kType);
}

MemoryView view_array(nb::handle form, nb::handle object, const MemoryRequest& request) {
  nb::ndarray<nb::ro> array = import_array(form, object, request);
  MemoryView view;
  view.data = const_cast<void*>(array.data());
  view.shape.assign(array.shape_ptr(), array.shape_ptr() + array.ndim());
  view.dtype = array.dtype();
  view.is_contiguous = is_c_contiguous(view.shape, array.stride_ptr());
  view.place = {.type = array.device_type(), .device = array.device_id()};
  view.array = std::move(array);
  return view;
}

MemoryView view_host_memory(nb::handle object, const MemoryRequest& request) {
  if (is_numpy_array(object)) {
    if (nb::isinstance(object, nb::module_::import_("numpy.ma").attr("MaskedArray"))) {
      raise(SENNIT_INVALID_ARGUMENT,
            request.name + " has a mask, which calls do not look at; pass " + request.name +
                ".filled(...) or " + request.name + ".data");
    }
    return view_array(object, object, request);
  }
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    if (PyObject* view = PyMemoryView_FromObject(object.ptr())) {
      return view_array(nb::steal(view), object, request);
    }
    PyErr_Clear();
  }
  raise(SENNIT_INVALID_ARGUMENT,
        request.name + " (" + class_name(object) +
            ") is no array of numbers: pass a NumPy array, " +
            "an object with the buffer protocol, or one with DLPack or __cuda_array_interface__");
}

}  // namespace sennit::python
