// CUDA streams as Python programs have them: objects of several libraries, numbers, and the current
// stream of the library that made a buffer.
#pragma once

#include "exchange_api.hpp"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

namespace sennit::python {

// A cudaStream_t as a number. CUDA's default stream is 0 here; DLPack and
// __cuda_array_interface__ call it 1. The per-thread default stream is 2.
using Stream = std::uintptr_t;
inline constexpr Stream kDefaultStream = 0;
inline constexpr Stream kDefaultStreamOfProtocols = 1;

// The stream that an object stands for: one with __cuda_stream__, a stream of PyTorch, CuPy, Numba
// or PyCUDA, or a number. Raises InvalidArgument for anything else, and for -1, by which DLPack
// means that nobody synchronizes.
Stream stream_of(nanobind::handle object);

// The stream on which the library that made a buffer works.
class ProducerStream {
 public:
  ProducerStream() = default;  // it has none: host memory
  explicit ProducerStream(Stream stream) : stream_(stream) {}
  ProducerStream(const ExchangeApi& api, int device) : api_(&api), device_(device) {}

  [[nodiscard]] bool exists() const { return stream_.has_value() || api_ != nullptr; }
  // As of now; the default stream where there is none. Raises what the library raises.
  [[nodiscard]] Stream get() const;
  // Whether the library can be asked at any time.
  [[nodiscard]] bool can_be_asked() const { return api_ != nullptr; }

 private:
  std::optional<Stream> stream_;
  const ExchangeApi* api_ = nullptr;
  int device_ = 0;
};

void bind_streams(nanobind::module_& module);

}  // namespace sennit::python
