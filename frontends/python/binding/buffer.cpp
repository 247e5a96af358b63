#include "buffer.hpp"

#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

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

sennit_dtype_t dtype_of(nb::dlpack::dtype dtype, const std::string& name) {
  std::string known;
  for (const DtypeRow& row : kDtypes) {
    if (dtype.code == static_cast<std::uint8_t>(row.code) && dtype.bits == row.bits &&
        dtype.lanes == 1) {
      return row.dtype;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  raise(SENNIT_UNSUPPORTED,
        name + " has elements of type " + describe(dtype) + "; this build knows " + known);
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

nb::ndarray<nb::ro> import_array(nb::handle object, const std::string& name, bool writable) {
  nb::ndarray<nb::ro> readable;
  if (writable) {
    // Only a cast to the writable type tells whether the owner allows writing.
    nb::ndarray<> array;
    if (nb::try_cast(object, array)) {
      return nb::ndarray<nb::ro>(array.handle());
    }
  }
  if (!nb::try_cast(object, readable)) {
    const auto type = nb::cast<std::string>(object.type().attr("__name__"));
    raise(SENNIT_INVALID_ARGUMENT,
          name + " (" + type + ") is no array of numbers: pass a NumPy array, an object with the " +
              "buffer protocol, or one with DLPack");
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
  if (array_.device_type() != nb::device::cpu::value) {
    raise(SENNIT_UNSUPPORTED,
          name_ +
              " lies in device memory, and these calls move host memory only: copy it to the host "
              "first, or use the C library (docs/gpu.md)");
  }
  dtype_ = dtype ? dtype_named(*dtype, array_.dtype(), name_) : dtype_of(array_.dtype(), name_);
  if (!is_c_contiguous(array_)) {
    raise(SENNIT_INVALID_ARGUMENT,
          name_ + " is not C-contiguous; pass numpy.ascontiguousarray(" + name_ + ")");
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
