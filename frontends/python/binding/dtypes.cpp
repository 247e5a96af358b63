#include "dtypes.hpp"

#include "errors.hpp"

#include <charconv>
#include <cstdint>

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

// Kinds of numbers by the letters of NumPy.
struct KindRow {
  char letter;
  nb::dlpack::dtype_code code;
};

constexpr KindRow kKinds[] = {
    {'f', nb::dlpack::dtype_code::Float},
    {'i', nb::dlpack::dtype_code::Int},
    {'u', nb::dlpack::dtype_code::UInt},
    {'b', nb::dlpack::dtype_code::Bool},
    {'c', nb::dlpack::dtype_code::Complex},
};

std::string describe(nb::dlpack::dtype dtype) {
  const char* kind = "";
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
      return "number " + std::to_string(dtype.code) + " of DLPack, of " +
             std::to_string(dtype.bits) + " bits";
  }
  return kind + std::to_string(dtype.bits);
}

}  // namespace

const char* name_of(sennit_dtype_t dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) {
      return row.name;
    }
  }
  return "";
}

nb::tuple dtype_names() {
  nb::list names;
  for (const DtypeRow& row : kDtypes) {
    names.append(row.name);
  }
  return nb::tuple(names);
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

std::optional<nb::dlpack::dtype> dtype_of_typestr(std::string_view typestr) {
  constexpr std::size_t kShortest = 3;  // byte order, kind, bytes
  if (typestr.size() < kShortest || (typestr[0] != '<' && typestr[0] != '|')) {
    return std::nullopt;
  }
  int bytes = 0;
  const char* const end = typestr.data() + typestr.size();
  const auto [rest, error] = std::from_chars(typestr.data() + 2, end, bytes);
  constexpr int kMostBytes = 16;
  if (error != std::errc() || rest != end || bytes < 1 || bytes > kMostBytes) {
    return std::nullopt;
  }
  for (const KindRow& row : kKinds) {
    if (row.letter == typestr[1]) {
      return nb::dlpack::dtype{
          static_cast<std::uint8_t>(row.code), static_cast<std::uint8_t>(bytes * 8), 1};
    }
  }
  return std::nullopt;
}

}  // namespace sennit::python
