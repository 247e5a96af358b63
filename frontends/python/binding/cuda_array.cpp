#include "cuda_array.hpp"

#include "dtypes.hpp"
#include "errors.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>

namespace nb = nanobind;

namespace sennit::python {
namespace {

class Description {
 public:
  Description(nb::handle object, nb::handle fields, const std::string& name)
      : object_(object), fields_(fields), name_(name) {
    if (!nb::isinstance<nb::dict>(fields)) {
      refuse("is no dict");
    }
  }

  // None where it is missing or None.
  [[nodiscard]] nb::handle find(const char* key) const {
    PyObject* const value = PyDict_GetItemString(fields_.ptr(), key);
    return value == nullptr ? nb::handle(Py_None) : nb::handle(value);
  }
  [[nodiscard]] nb::handle get(const char* key) const {
    const nb::handle value = find(key);
    if (value.is_none()) {
      refuse(std::string("has no '") + key + "'");
    }
    return value;
  }
  [[nodiscard]] nb::tuple get_tuple(const char* key) const {
    const nb::handle value = get(key);
    if (!nb::isinstance<nb::tuple>(value)) {
      refuse(std::string("has no tuple as '") + key + "'");
    }
    return nb::borrow<nb::tuple>(value);
  }
  template <typename Number>
  [[nodiscard]] Number number(nb::handle value, const char* key) const {
    Number result{};
    if (!nb::try_cast(value, result)) {
      refuse(std::string("has '") + key + "' " + nb::cast<std::string>(nb::repr(value)));
    }
    return result;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    raise(SENNIT_INVALID_ARGUMENT,
          name_ + " (" + class_name(object_) + ") has a __cuda_array_interface__ that " + why);
  }

 private:
  nb::handle object_;
  nb::handle fields_;
  const std::string& name_;
};

nb::dlpack::dtype type_of(const Description& description, const std::string& name) {
  const auto typestr = description.number<std::string>(description.get("typestr"), "typestr");
  if (typestr.starts_with('>')) {
    raise(SENNIT_INVALID_ARGUMENT,
          name + " has elements in the byte order of other machines ('" + typestr + "')");
  }
  const std::optional<nb::dlpack::dtype> dtype = dtype_of_typestr(typestr);
  if (!dtype) {
    raise(SENNIT_UNSUPPORTED,
          name + " has elements of type '" + typestr + "'; this build knows " + known_dtypes());
  }
  return *dtype;
}

// Strides of the interface are in bytes.
bool is_contiguous(const Description& description, const MemoryView& view) {
  if (description.find("strides").is_none()) {
    return true;
  }
  const nb::tuple strides = description.get_tuple("strides");
  if (strides.size() != view.shape.size()) {
    description.refuse("has other numbers of 'shape' and 'strides'");
  }
  const int item_bytes = view.dtype.bits / 8;
  std::vector<std::int64_t> in_elements;
  for (const nb::handle stride : strides) {
    const auto bytes = description.number<std::int64_t>(stride, "strides");
    in_elements.push_back(bytes % item_bytes == 0 ? bytes / item_bytes : 0);
  }
  return is_c_contiguous(view.shape, in_elements.data());
}

}  // namespace

bool names_stream(nb::handle description) {
  PyObject* const stream = PyDict_Check(description.ptr()) != 0
                               ? PyDict_GetItemString(description.ptr(), "stream")
                               : nullptr;
  return stream != nullptr && stream != Py_None;
}

MemoryView view_cuda_array(nb::handle object, nb::handle fields, const MemoryRequest& request) {
  const Description description(object, fields, request.name);
  MemoryView view;
  view.object = nb::borrow(object);
  for (const nb::handle length : description.get_tuple("shape")) {
    view.shape.push_back(description.number<std::int64_t>(length, "shape"));
  }
  const nb::tuple data = description.get_tuple("data");
  if (data.size() != 2) {
    description.refuse("has no pair of address and read-only flag as 'data'");
  }
  // An array of no elements may have no address.
  const nb::object address = data[0];
  view.data = address.is_none()
                  ? nullptr
                  : reinterpret_cast<void*>(description.number<std::uintptr_t>(address, "data"));
  view.dtype = type_of(description, request.name);
  view.is_contiguous = is_contiguous(description, view);
  view.place = {.type = nb::device::cuda::value};
  if (!description.find("mask").is_none()) {
    raise(SENNIT_INVALID_ARGUMENT, request.name + " has a mask, which calls do not look at");
  }
  if (request.is_written && PyObject_IsTrue(nb::object(data[1]).ptr()) != 0) {
    refuse_writing(request.name);
  }
  if (!request.stream) {
    const nb::handle stream = description.find("stream");
    view.stream = ProducerStream(stream.is_none() ? kDefaultStream : stream_of(stream));
  }
  return view;
}

}  // namespace sennit::python
