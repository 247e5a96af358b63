// CodedCalls: calls with a codec on GPU ranks. A kernel encodes what leaves this rank, a call
// without codec moves the bytes, and another kernel decodes what has come. So all that moves bytes,
// over whatever path, and all that captures calls, serves calls with a codec, too.
//
//   all_reduce beyond 16 KB: encode the blocks of all ranks, all_to_all of bytes, decode those of
//   the own block and reduce them, encode the sum, all_gather of bytes, decode
//
// The results have the bits of those that host ranks get (docs/codecs.md).
#pragma once

#include "codec/codec.hpp"
#include "comm/device/codec_kernels.hpp"
#include "drivers/cuda/cuda.hpp"
#include "world/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sennit {

class CodedCalls {
 public:
  // Puts a call without codec into the stream of that of which it moves the bytes.
  using Move = std::function<Status(const Operation& of_bytes)>;

  // `driver` outlives the result.
  CodedCalls(CudaDriver& driver, int rank, int ranks, bool has_a_process_each)
      : driver_(driver),
        kernels_(driver),
        rank_(rank),
        ranks_(ranks),
        has_a_process_each_(has_a_process_each) {}
  ~CodedCalls();
  CodedCalls(const CodedCalls&) = delete;
  CodedCalls& operator=(const CodedCalls&) = delete;

  // Why GPU ranks cannot have the codec in this call, which it otherwise fits; the same on all
  // ranks.
  [[nodiscard]] Status check(const Operation& operation, Codec codec) const;

  // A collective. It fails before anything moves where memory is lacking, in a capture also where
  // it has to grow; that may be so on this rank alone.
  Status run(const Operation& operation, Codec codec, void* stream, const Move& move);

  // Ends of messages that go together. as_bytes() has the messages of bytes that are to be carried
  // in their place, in a stream between encode() and decode().
  struct Message {
    const Operation& operation;
    Codec codec;
    std::size_t index;  // in its group
  };
  Result<std::vector<Operation>> as_bytes(std::span<const Message> messages, void* stream);
  Status encode(std::span<const Message> messages, void* stream);
  Status decode(std::span<const Message> messages, void* stream);

 private:
  class Collective;

  // At least so many bytes, which calls share: they run one after the other. What a call has used
  // stays, as it may be captured in a graph.
  Result<std::byte*> memory_of(std::int64_t bytes, void* stream);

  CudaDriver& driver_;
  CodecKernels kernels_;
  int rank_;
  int ranks_;
  bool has_a_process_each_;
  std::vector<std::byte*> allocations_;
  std::int64_t bytes_ = 0;  // of the last
};

}  // namespace sennit
