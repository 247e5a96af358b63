// Cuda: the CUDA driver of the process, for buffers that the MPI cannot read.
//
// It is never loaded from here: a process that has device memory has loaded it. Copies are in the
// order of the legacy default stream: behind what the program has put there, and in streams that
// wait for it. What is in others, the program has waited for, as with an MPI that knows CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
  // Null until the process has loaded the driver, which costs 20 ns to find out.
  static const Cuda* find();

  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  [[nodiscard]] MemoryPlace place_of(const void* memory) const;

  // These with the context of that memory, which a Scope has made current. They throw what CUDA
  // says. Copies have ended after wait().
  class Scope {
   public:
    Scope(const Cuda& cuda, const MemoryPlace& place);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Cuda& cuda_;
  };
  // The same rows of both, whose first bytes are `device` and `host`.
  void copy_in(std::byte* host, const std::byte* device, const Rows& rows) const;
  void copy_out(std::byte* device, const std::byte* host, const Rows& rows) const;
  void wait() const;
  // Whether wait() would return at once.
  [[nodiscard]] bool is_idle() const;

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

  explicit Cuda(std::unique_ptr<const Functions> functions);
  ~Cuda() = default;  // there is one, until the process ends

  void check(int code, const char* what) const;
  [[nodiscard]] void* primary_context(int device) const;
  void copy(std::byte* to, const std::byte* from, const Rows& rows, bool is_in) const;

  static constexpr std::size_t kSizeClasses = 27;  // of powers of two, up to 64 MiB

  std::unique_ptr<const Functions> functions_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> contexts_;  // primary ones, by device
  // Idle memory: the first block of each size, which holds the address of the next.
  mutable std::array<std::byte*, kSizeClasses> pinned_{};
};

}  // namespace sennit_mpi
