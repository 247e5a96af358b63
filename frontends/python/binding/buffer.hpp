// A buffer of the caller, checked: C-contiguous, of a type that the C ABI knows.
#pragma once

#include "memory_view.hpp"

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>

namespace sennit::python {

// Keeps the object that owns the memory alive. Takes what view_memory takes, in host memory or in
// memory of a CUDA device; never copies.
class Buffer {
 public:
  // `name` is the argument's name in messages; `dtype`, where given, says of what type the bits
  // are, whatever the object calls them; `stream` is that of the call, where the program names one.
  // Raises InvalidArgument or Unsupported.
  Buffer(nanobind::handle object,
         std::string name,
         bool writable,
         const std::optional<std::string>& dtype = std::nullopt,
         std::optional<Stream> stream = std::nullopt);

  [[nodiscard]] void* data() const { return view_.data; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t nbytes() const { return count_ * (view_.dtype.bits / 8U); }
  [[nodiscard]] sennit_dtype_t dtype() const { return dtype_; }
  [[nodiscard]] nanobind::tuple shape() const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Place& place() const { return view_.place; }
  [[nodiscard]] const ProducerStream& stream() const { return view_.stream; }

  // Raises Unsupported unless the host can read the memory; `what` needs it, and `instead` says
  // what to do.
  void require_host(const std::string& what, const std::string& instead) const;

 private:
  std::string name_;
  MemoryView view_;
  std::size_t count_;
  sennit_dtype_t dtype_;
};

// The same of an argument of a call, which may also be bits that `sennit.typed` names, or an array
// of ml_dtypes.
Buffer buffer_of(nanobind::handle object,
                 std::string name,
                 bool writable,
                 std::optional<Stream> stream = std::nullopt);

// Raises for memory that ranks of a communicator cannot use, as far as that shows without CUDA;
// `device` is that of the rank, or negative for host ranks.
void require_place(const Buffer& buffer, int device);

void bind_buffer(nanobind::module_& module);

}  // namespace sennit::python
