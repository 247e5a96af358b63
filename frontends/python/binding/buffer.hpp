// A buffer of the caller, checked: host memory, C-contiguous, of a type that the C ABI knows.
#pragma once

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <optional>
#include <string>

namespace sennit::python {

// Keeps the object that owns the memory alive. Takes NumPy arrays, anything with the buffer
// protocol and anything with DLPack; never copies.
class Buffer {
 public:
  // `name` is the argument's name in messages; `dtype`, where given, says of what type the bits
  // are, whatever the object calls them. Raises InvalidArgument or Unsupported.
  Buffer(nanobind::handle object,
         std::string name,
         bool writable,
         const std::optional<std::string>& dtype = std::nullopt);

  [[nodiscard]] void* data() const { return const_cast<void*>(array_.data()); }
  [[nodiscard]] std::size_t count() const { return array_.size(); }
  [[nodiscard]] std::size_t nbytes() const { return array_.nbytes(); }
  [[nodiscard]] sennit_dtype_t dtype() const { return dtype_; }
  [[nodiscard]] const char* dtype_name() const;
  [[nodiscard]] nanobind::tuple shape() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  nanobind::ndarray<nanobind::ro> array_;
  std::string name_;
  sennit_dtype_t dtype_;
};

void bind_buffer(nanobind::module_& module);

}  // namespace sennit::python
