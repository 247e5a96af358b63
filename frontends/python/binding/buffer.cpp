#include "buffer.hpp"

#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

struct DtypeRow {
  const char* name;
  sennit_dtype_t dtype;
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
};

constexpr DtypeRow kDtypes[] = {
    {"float32", SENNIT_FLOAT32, nb::dlpack::dtype_code::Float, 32},
    {"float64", SENNIT_FLOAT64, nb::dlpack::dtype_code::Float, 64},
    {"int32", SENNIT_INT32, nb::dlpack::dtype_code::Int, 32},
    {"int64", SENNIT_INT64, nb::dlpack::dtype_code::Int, 64},
    {"uint8", SENNIT_UINT8, nb::dlpack::dtype_code::UInt, 8},
    {"int8", SENNIT_INT8, nb::dlpack::dtype_code::Int, 8},
    {"int16", SENNIT_INT16, nb::dlpack::dtype_code::Int, 16},
    {"uint16", SENNIT_UINT16, nb::dlpack::dtype_code::UInt, 16},
    {"uint32", SENNIT_UINT32, nb::dlpack::dtype_code::UInt, 32},
    {"uint64", SENNIT_UINT64, nb::dlpack::dtype_code::UInt, 64},
    {"bool", SENNIT_BOOL, nb::dlpack::dtype_code::Bool, 8},
    {"float16", SENNIT_FLOAT16, nb::dlpack::dtype_code::Float, 16},
    {"bfloat16", SENNIT_BFLOAT16, nb::dlpack::dtype_code::Bfloat, 16},
    {"float8_e4m3fn", SENNIT_FLOAT8_E4M3FN, nb::dlpack::dtype_code::Float8_E4M3FN, 8},
    {"float8_e5m2", SENNIT_FLOAT8_E5M2, nb::dlpack::dtype_code::Float8_E5M2, 8},
    {"complex64", SENNIT_COMPLEX64, nb::dlpack::dtype_code::Complex, 64},
    {"complex128", SENNIT_COMPLEX128, nb::dlpack::dtype_code::Complex, 128},
};

std::string describe(nb::dlpack::dtype dtype) {
  const char* kind = "unknown type ";
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
      kind = "int";
      break;
    case nb::dlpack::dtype_code::UInt:
      kind = "uint";
      break;
    case nb::dlpack::dtype_code::Float:
      kind = "float";
      break;
    case nb::dlpack::dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case nb::dlpack::dtype_code::Complex:
      kind = "complex";
      break;
    case nb::dlpack::dtype_code::Bool:
      return "bool of " + std::to_string(dtype.bits) + " bits";
    default:  // DLPack's own enumeration, which grows without us
      break;
  }
  return kind + std::to_string(dtype.bits);
}

std::string known_dtypes() {
  std::string known;
  for (const DtypeRow& row : kDtypes) {
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return known;
}

sennit_dtype_t dtype_of(nb::dlpack::dtype dtype, const std::string& name) {
  for (const DtypeRow& row : kDtypes) {
    if (dtype.code == static_cast<std::uint8_t>(row.code) && dtype.bits == row.bits &&
        dtype.lanes == 1) {
      return row.dtype;
    }
  }
  raise(SENNIT_UNSUPPORTED,
        name + " has elements of type " + describe(dtype) + "; this build knows " + known_dtypes());
}

// Bits of one type that lie in an array of another: what NumPy has no type for.
sennit_dtype_t dtype_named(const std::string& wanted,
                           nb::dlpack::dtype carrier,
                           const std::string& name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == wanted) {
      if (carrier.bits != row.bits || carrier.lanes != 1) {
        raise(SENNIT_INVALID_ARGUMENT,
              name + " is to hold " + wanted + ", but its elements have " +
                  std::to_string(carrier.bits) + " bits");
      }
      return row.dtype;
    }
  }
  raise(SENNIT_INVALID_ARGUMENT, "there is no element type '" + wanted + "'");
}

bool is_c_contiguous(const nb::ndarray<nb::ro>& array) {
  if (array.size() == 0) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    const auto length = static_cast<std::int64_t>(array.shape(axis));
    if (length != 1 && array.stride(axis) != expected) {
      return false;
    }
    expected *= length;
  }
  return true;
}

[[noreturn]] void refuse_device_memory(const std::string& name) {
  raise(SENNIT_UNSUPPORTED,
        name +
            " lies in device memory, and these calls move host memory only: copy it to the host "
            "first, or use the C library (docs/gpu.md) or the drop-in for NCCL (docs/nccl.md)");
}

[[noreturn]] void refuse_strides(const std::string& name) {
  raise(SENNIT_INVALID_ARGUMENT,
        name + " is not C-contiguous; pass numpy.ascontiguousarray(" + name + ")");
}

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

bool is_numpy_array(nb::handle object) {
  return nb::isinstance(object, nb::module_::import_("numpy").attr("ndarray"));
}

bool is_plain_numpy_array(nb::handle object) {
  static const nb::handle kType =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  return object.type().is(kType);
}

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
      refuse_strides(name);
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

// Tensors of PyTorch whose values are not what lies in their memory. Their own DLPack refuses some
// of them, and hands out the memory of others.
void refuse_lazy_tensors(nb::handle object, const std::string& name) {
  struct Kind {
    const char* is_so;
    const char* what;
    const char* remedy;
  };
  constexpr Kind kKinds[] = {
      {"is_conj", "is conjugated lazily", ".resolve_conj()"},
      {"is_neg", "is negated lazily", ".resolve_neg()"},
      {"_is_zerotensor", "has no memory, since it is known to be zero", ".clone()"},
  };
  const nb::handle type = object.type();
  for (const Kind& kind : kKinds) {
    if (nb::hasattr(type, kind.is_so) && nb::cast<bool>(object.attr(kind.is_so)())) {
      raise(SENNIT_INVALID_ARGUMENT,
            name + " " + kind.what + ", so its memory does not hold its values; pass " + name +
                kind.remedy);
    }
  }
}

// What `object` says of its memory through DLPack, unless it refuses.
nb::object dlpack_of(nb::handle object, const std::string& name) {
  constexpr int kMajor = 1;
  refuse_lazy_tensors(object, name);
  const nb::object lend = object.attr("__dlpack__");
  try {
    try {
      return lend(nb::arg("max_version") = nb::make_tuple(kMajor, 0));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) {
        throw;
      }
      return lend();  // older than versions
    }
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) {
      throw;
    }
    raise(SENNIT_INVALID_ARGUMENT,
          name + " (" + class_name(object) + ") does not lend its memory: " +
              text_of(error.value()) + ". Pass a plain copy of it");
  }
}

// The object in a form whose memory nanobind reads right: an array of NumPy, a capsule of DLPack or
// a memoryview. Others it would ask in turn, also by ways that look at nothing, and it expects
// strides, which only a memoryview always has.
nb::object lent_by(nb::handle object, const std::string& name) {
  if (is_plain_numpy_array(object)) {
    return nb::borrow(object);
  }
  if (is_numpy_array(object)) {
    if (nb::isinstance(object, nb::module_::import_("numpy.ma").attr("MaskedArray"))) {
      raise(SENNIT_INVALID_ARGUMENT,
            name + " has a mask, which calls do not look at; pass " + name + ".filled(...) or " +
                name + ".data");
    }
    return nb::borrow(object);
  }
  if (nb::hasattr(object.type(), "__dlpack__")) {
    return dlpack_of(object, name);
  }
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    if (PyObject* view = PyMemoryView_FromObject(object.ptr())) {
      return nb::steal(view);
    }
    PyErr_Clear();
  }
  if (nb::hasattr(object, "__cuda_array_interface__")) {
    refuse_device_memory(name);
  }
  raise(SENNIT_INVALID_ARGUMENT,
        name + " (" + class_name(object) + ") is no array of numbers: pass a NumPy array, an " +
            "object with the buffer protocol, or one with DLPack");
}

nb::ndarray<nb::ro> import_array(nb::handle object, const std::string& name, bool writable) {
  const nb::object lent = lent_by(object, name);
  nb::ndarray<nb::ro> readable;
  if (writable) {
    // Only a cast to the writable type tells whether the owner allows writing.
    nb::ndarray<> array;
    if (nb::try_cast(lent, array)) {
      return nb::ndarray<nb::ro>(array.handle());
    }
  }
  if (!nb::try_cast(lent, readable)) {
    if (PyCapsule_CheckExact(lent.ptr()) != 0) {
      raise(SENNIT_INVALID_ARGUMENT,
            name + " (" + class_name(object) + ") lends its memory in a form of DLPack that this " +
                "build does not know");
    }
    refuse(lent, object, name);
  }
  if (writable) {
    raise(SENNIT_INVALID_ARGUMENT, name + " is read-only, but the call writes to it");
  }
  return readable;
}

}  // namespace

Buffer::Buffer(nb::handle object,
               std::string name,
               bool writable,
               const std::optional<std::string>& dtype)
    : array_(import_array(object, name, writable)), name_(std::move(name)), dtype_(SENNIT_UINT8) {
  const int device = array_.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
    refuse_device_memory(name_);
  }
  dtype_ = dtype ? dtype_named(*dtype, array_.dtype(), name_) : dtype_of(array_.dtype(), name_);
  if (!is_c_contiguous(array_)) {
    refuse_strides(name_);
  }
}

const char* Buffer::dtype_name() const {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype_) {
      return row.name;
    }
  }
  return "";
}

nb::tuple Buffer::shape() const {
  nb::list lengths;
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    lengths.append(array_.shape(axis));
  }
  return nb::tuple(lengths);
}

void bind_buffer(nb::module_& module) {
  nb::class_<Buffer>(module, "Buffer")
      .def(nb::init<nb::handle, std::string, bool, std::optional<std::string>>(),
           nb::arg("object"),
           nb::arg("name"),
           nb::arg("writable"),
           nb::arg("dtype") = nb::none())
      .def_prop_ro("shape", &Buffer::shape)
      .def_prop_ro("dtype", &Buffer::dtype_name)
      .def_prop_ro("count", &Buffer::count)
      .def_prop_ro("nbytes", &Buffer::nbytes)
      .def_prop_ro("address", [](const Buffer& buffer) {
        return reinterpret_cast<std::uintptr_t>(buffer.data());
      });
  nb::list names;
  for (const DtypeRow& row : kDtypes) {
    names.append(row.name);
  }
  module.attr("DTYPES") = nb::tuple(names);
}

}  // namespace sennit::python
