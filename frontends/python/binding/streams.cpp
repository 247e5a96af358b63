#include "streams.hpp"

#include "errors.hpp"

#include <nanobind/ndarray.h>

#include <string>

namespace nb = nanobind;

namespace sennit::python {
namespace {

std::string class_of(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

Stream stream_of_number(nb::handle number) {
  const nb::object index = nb::steal(PyNumber_Index(number.ptr()));
  if (!index.is_valid()) {
    throw nb::python_error();
  }
  int is_too_large = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &is_too_large);
  if (value < 0 || is_too_large != 0) {
    raise(SENNIT_INVALID_ARGUMENT,
          value == -1 && is_too_large == 0
              ? "stream=-1 names no stream: in DLPack it says that nobody is to synchronize. Pass "
                "the stream that the call shall be enqueued on, or leave stream out"
              : "stream=" + nb::cast<std::string>(nb::str(number)) +
                    " is no cudaStream_t: pass the address that the library of the stream gives, "
                    "or 0 for the default stream");
  }
  const auto stream = static_cast<Stream>(value);
  return stream == kDefaultStreamOfProtocols ? kDefaultStream : stream;
}

// Names under which libraries keep the cudaStream_t of their objects: PyTorch, CuPy, and Numba and
// PyCUDA.
constexpr const char* kHandleNames[] = {"cuda_stream", "ptr", "handle"};

}  // namespace

Stream stream_of(nb::handle object) {
  if (PyLong_Check(object.ptr()) != 0) {
    return stream_of_number(object);
  }
  if (nb::hasattr(object, "__cuda_stream__")) {
    nb::object answer = object.attr("__cuda_stream__");
    if (PyCallable_Check(answer.ptr()) != 0) {
      answer = answer();
    }
    nb::tuple pair;
    if (!nb::try_cast(answer, pair) || pair.size() != 2) {
      raise(SENNIT_INVALID_ARGUMENT,
            "stream (" + class_of(object) +
                ") has a __cuda_stream__ that gives no pair of version "
                "and handle");
    }
    return stream_of_number(pair[1]);
  }
  for (const char* const name : kHandleNames) {
    nb::object handle = nb::getattr(object, name, nb::none());
    if (nb::hasattr(handle, "value")) {  // a pointer of ctypes, whose NULL is None
      handle = handle.attr("value");
      handle = handle.is_none() ? nb::int_(0) : handle;
    }
    if (PyIndex_Check(handle.ptr()) != 0) {
      return stream_of_number(handle);
    }
  }
  if (PyIndex_Check(object.ptr()) != 0) {  // a number of NumPy
    return stream_of_number(object);
  }
  raise(SENNIT_INVALID_ARGUMENT,
        "stream (" + class_of(object) +
            ") is no CUDA stream: pass a stream of PyTorch, CuPy or "
            "Numba, an object with __cuda_stream__, or a cudaStream_t as a number");
}

Stream ProducerStream::get() const {
  if (api_ == nullptr) {
    return stream_.value_or(kDefaultStream);
  }
  void* stream = nullptr;
  if (api_->current_stream(nb::device::cuda::value, device_, &stream) != 0) {
    throw nb::python_error();
  }
  const auto number = reinterpret_cast<Stream>(stream);
  return number == kDefaultStreamOfProtocols ? kDefaultStream : number;
}

void bind_streams(nb::module_& module) { module.def("stream_of", &stream_of, nb::arg("stream")); }

}  // namespace sennit::python
