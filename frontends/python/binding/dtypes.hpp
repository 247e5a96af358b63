// The element types of the C ABI, by the names and codes that Python libraries have for them.
#pragma once

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <string_view>

namespace sennit::python {

const char* name_of(sennit_dtype_t dtype);
nanobind::tuple dtype_names();

// Raises Unsupported, for the argument `name`, where the C ABI has no such type.
sennit_dtype_t dtype_of(nanobind::dlpack::dtype dtype, const std::string& name);

// Bits of the type `wanted` that are in an array of another: what NumPy has no type for. Raises
// InvalidArgument.
sennit_dtype_t dtype_named(const std::string& wanted,
                           nanobind::dlpack::dtype carrier,
                           const std::string& name);

// A type as __cuda_array_interface__ writes it, such as "<f4"; none where it is in another byte
// order or not a number.
std::optional<nanobind::dlpack::dtype> dtype_of_typestr(std::string_view typestr);

// All that this build knows, for messages.
std::string known_dtypes();

}  // namespace sennit::python
