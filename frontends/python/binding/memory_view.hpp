// The memory of a Python object, by whichever way the object has: NumPy, the buffer protocol,
// DLPack, DLPack's C interface, __cuda_array_interface__. Nothing is copied.
#pragma once

#include "streams.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sennit::python {

// Where memory is, in the numbers of DLPack.
struct Place {
  static constexpr int kAnyDevice = -1;

  int type = nanobind::device::cpu::value;
  int device = kAnyDevice;

  // Ordinary and pinned host memory; managed memory is the GPU's here.
  [[nodiscard]] bool is_host() const {
    return type == nanobind::device::cpu::value || type == nanobind::device::cuda_host::value;
  }
  [[nodiscard]] bool is_cuda() const {
    return type == nanobind::device::cuda::value || type == nanobind::device::cuda_managed::value;
  }
  // "host memory", "memory of cuda:1".
  [[nodiscard]] std::string text() const;
};

struct MemoryView {
  // The memory is valid as long as these are.
  nanobind::object object{};
  nanobind::ndarray<nanobind::ro> array{};

  void* data = nullptr;
  std::vector<std::int64_t> shape;
  nanobind::dlpack::dtype dtype;
  bool is_contiguous = true;  // in C order
  Place place;
  ProducerStream stream;

  [[nodiscard]] std::size_t count() const;
};

struct MemoryRequest {
  const std::string& name;       // of the argument, for messages
  bool is_written;               // by the call
  std::optional<Stream> stream;  // on which the program wants the call; none: the producer's
};

// Raises InvalidArgument or Unsupported, in terms of the argument. GPU memory of a library that has
// no current stream (JAX) is ordered before later work of the request's stream, the default stream
// where there is none; nothing else is synchronized.
MemoryView view_memory(nanobind::handle object, const MemoryRequest& request);

// Strides in elements, none: in C order.
bool is_c_contiguous(const std::vector<std::int64_t>& shape, const std::int64_t* strides);

std::string class_name(nanobind::handle object);
[[noreturn]] void refuse_strides(const std::string& name, const Place& place);
[[noreturn]] void refuse_writing(const std::string& name);

}  // namespace sennit::python
