// Cuda: the CUDA driver of the process, for buffers that the MPI cannot read.
//
// It is not loaded for calls: a process that has device memory has loaded it. Copies have streams
// that wait for no stream of the program, as calls of two threads would wait for each other there.
// Instead, a call first waits until the default stream has ended what the program has put there,
// and in streams that it waits for. What is in others, the program has waited for, as with an MPI
// that knows CUDA. Calls that GPUs run are in the default stream where the process has one thread.
#pragma once

#include <link.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sennit_mpi {

// `rows` times `width` bytes, from one row to the next `pitch` bytes, the first at `offset`.
struct Rows {
  std::ptrdiff_t offset = 0;
  std::size_t width = 0;
  std::size_t pitch = 0;
  std::size_t rows = 1;
};

// Where memory lies.
struct MemoryPlace {
  int device = -1;          // -1: on the host, as managed memory, which both may use
  void* context = nullptr;  // of CUDA; null: the device's primary one
};

class Cuda {
 public:
  // False: the process has not loaded the driver, nor any library since find() looked for it.
  static bool may_be_there() {
    link_map* const* const next = next_library.load(std::memory_order_relaxed);
    return next == nullptr || *static_cast<link_map* const volatile*>(next) != nullptr;
  }
  // Null where the process has not loaded the driver, which takes 20 ns to find out.
  static const Cuda* find();

  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  [[nodiscard]] MemoryPlace place_of(const void* memory) const;
  // Whether it is of the device's primary context, which the library uses.
  [[nodiscard]] bool is_primary(const MemoryPlace& place) const {
    return place.context == nullptr || place.context == primary_context(place.device);
  }

  // The context of some memory, as the current one of this thread. What fails throws what CUDA
  // says.
  class Scope {
   public:
    Scope(const Cuda& cuda, const MemoryPlace& place);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // Before the program's buffers are read or written.
    void wait_for_program() const;
    // The same rows of both; they have ended after wait().
    void copy_in(std::byte* host, const std::byte* device, const Rows& rows) const;
    void copy_out(std::byte* device, const std::byte* host, const Rows& rows) const;
    void wait() const;
    // After an error: as wait(), whatever else fails.
    void end_copies() const noexcept;
    // One more stream, never taken down; and whether all in it, or in the default one, has ended.
    [[nodiscard]] void* stream_for_calls() const;
    [[nodiscard]] bool is_idle(void* stream) const;

   private:
    void copy(std::byte* to, const std::byte* from, const Rows& rows, bool is_in) const;

    const Cuda& cuda_;
    void* stream_ = nullptr;  // of copies
  };

  // Host memory that copies are fast with, and that goes back to be used again.
  class Staging {
   public:
    Staging() = default;
    // Under a Scope.
    Staging(const Cuda& cuda, std::size_t bytes);
    ~Staging() { give_back(); }
    Staging(Staging&& other) noexcept;
    Staging& operator=(Staging&& other) noexcept;

    [[nodiscard]] std::byte* data() const { return data_; }

   private:
    void give_back();

    const Cuda* cuda_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_class_ = 0;
    std::unique_ptr<std::byte[]> pageable_;
  };

 private:
  struct Functions;

  // Where the loader puts what is loaded next; null: before the first find(), and once it is there.
  static inline std::atomic<link_map* const*> next_library{nullptr};

  explicit Cuda(std::unique_ptr<const Functions> functions);
  ~Cuda() = default;  // there is one, until the process ends

  void check(int code, const char* what) const;
  [[nodiscard]] void* primary_context(int device) const;
  [[nodiscard]] void* make_stream() const;
  // Of the context, which is the current one.
  [[nodiscard]] void* stream_of_copies(void* context) const;

  static constexpr std::size_t kSizeClasses = 27;  // of powers of two, up to 64 MiB

  std::unique_ptr<const Functions> functions_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> contexts_;                   // primary ones, by device
  mutable std::vector<std::pair<void*, void*>> streams_;  // contexts, and their streams of copies
  // Idle memory: the first block of each size, which holds the address of the next.
  mutable std::array<std::byte*, kSizeClasses> pinned_{};
};

}  // namespace sennit_mpi
