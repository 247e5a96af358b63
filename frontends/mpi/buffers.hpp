// Buffers of MPI calls as bytes in the order of their signature: the caller's own memory where the
// type is dense, else a copy that the MPI packs and unpacks.
#pragma once

#include "datatypes.hpp"
#include "functions.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sennit_mpi {

// Communicators with more ranks are passed on: each algorithm is proved for up to so many.
constexpr int kMostRanks = 64;

using Memory = std::unique_ptr<std::byte[]>;

inline Memory new_memory(std::size_t bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1));
}

// So many elements of a type in memory of the caller.
template <class Abi>
struct Elements {
  const void* place = nullptr;
  std::size_t count = 0;
  typename Abi::Type type{};
  Layout layout;

  [[nodiscard]] std::size_t bytes() const { return count * layout.bytes; }
  [[nodiscard]] bool is_plain() const { return layout.is_dense || bytes() == 0; }
};

// MPI_Pack and MPI_Unpack, whose sizes are ints, over any number of elements.
template <class Abi>
class Packer {
 public:
  using Type = typename Abi::Type;

  // Any communicator of ranks that see memory in one way will do; the program may free its own.
  Packer(const Functions<Abi>& functions, typename Abi::Comm comm)
      : mpi_(&functions.mpi), comm_(comm) {}

  void pack(const Elements<Abi>& from, std::byte* to) const {
    in_parts(from, [&](const void* part, int count, std::size_t offset, int bytes) {
      int position = 0;
      mpi_->pack(part, count, from.type, to + offset, bytes, &position, comm_);
    });
  }
  // The type for as long as the result lives, also if the program frees it meanwhile.
  [[nodiscard]] std::shared_ptr<const Type> keep(Type type) const {
    auto* const kept = new Type{};
    mpi_->type_dup(type, kept);
    return {kept, [mpi = mpi_](Type* ended) {
              mpi->type_free(ended);
              delete ended;
            }};
  }
  void unpack(const std::byte* from, const Elements<Abi>& to) const {
    in_parts(to, [&](const void* part, int count, std::size_t offset, int bytes) {
      int position = 0;
      mpi_->unpack(from + offset, bytes, &position, const_cast<void*>(part), count, to.type, comm_);
    });
  }

 private:
  template <typename Run>
  static void in_parts(const Elements<Abi>& elements, Run&& run) {
    constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
    if (elements.bytes() == 0) {
      return;
    }
    const std::size_t most = std::max<std::size_t>(kMostBytes / elements.layout.bytes, 1);
    for (std::size_t done = 0; done < elements.count;) {
      const std::size_t count = std::min(elements.count - done, most);
      // An element's displacements may be addresses, and its buffer MPI_BOTTOM.
      const auto place = reinterpret_cast<std::uintptr_t>(elements.place) +
                         done * static_cast<std::size_t>(elements.layout.extent);
      run(reinterpret_cast<const void*>(place),
          static_cast<int>(count),
          done * elements.layout.bytes,
          static_cast<int>(count * elements.layout.bytes));
      done += count;
    }
  }

  const typename Functions<Abi>::Needed* mpi_;
  typename Abi::Comm comm_;
};

// A range of memory.
struct Range {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  [[nodiscard]] bool meets(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

// One piece to send.
template <class Abi>
class SendPiece {
 public:
  SendPiece(const Packer<Abi>& packer, const Elements<Abi>& elements) : bytes_(elements.bytes()) {
    if (elements.is_plain()) {
      data_ = static_cast<const std::byte*>(elements.place);
      return;
    }
    memory_ = new_memory(bytes_);
    packer.pack(elements, memory_.get());
    data_ = memory_.get();
  }

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Range range() const { return {data_, data_ + bytes_}; }

  // The library refuses outputs that meet an input other than in place. MPI forbids most of what
  // does, but programs do it, and get what they expect from other MPIs.
  void keep_off(const Range& output, const std::byte* in_place) {
    if (data_ != in_place && range().meets(output)) {
      Memory copy = new_memory(bytes_);
      std::memcpy(copy.get(), data_, bytes_);
      memory_ = std::move(copy);
      data_ = memory_.get();
    }
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_;
  Memory memory_;
};

// One piece to receive: in place, or unpacked by finish().
template <class Abi>
class RecvPiece {
 public:
  RecvPiece(const Packer<Abi>& packer, const Elements<Abi>& elements)
      : packer_(packer), elements_(elements) {
    if (elements.is_plain()) {
      data_ = const_cast<std::byte*>(static_cast<const std::byte*>(elements.place));
    } else {
      memory_ = new_memory(elements.bytes());
      data_ = memory_.get();
    }
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return elements_.bytes(); }
  [[nodiscard]] Range range() const { return {data_, data_ + bytes()}; }
  // The call goes on after it has returned.
  void keep() {
    if (memory_ != nullptr) {
      type_ = packer_.keep(elements_.type);
      elements_.type = *type_;
    }
  }
  void finish() const {
    if (memory_ != nullptr) {
      packer_.unpack(memory_.get(), elements_);
    }
  }

 private:
  Packer<Abi> packer_;
  Elements<Abi> elements_;
  std::shared_ptr<const typename Abi::Type> type_;
  std::byte* data_ = nullptr;
  Memory memory_;
};

// What a rank without bytes points to.
inline std::byte nothing{};

// A block for each rank, as the v-forms of the library take them: one address, and lengths and
// displacements in bytes that are not negative. MPI's displacements may be.
template <class Abi>
class Blocks {
 public:
  explicit Blocks(const Packer<Abi>& packer) : packer_(packer) {}

  // Of the next rank.
  void add(const Elements<Abi>& block) {
    elements_[size_] = block;
    counts_[size_] = block.bytes();
    is_plain_ = is_plain_ && block.is_plain();
    ++size_;
  }
  // All blocks are there, and lie where the program has them.
  void settle() { is_plain_ ? settle_plain() : settle_packed(); }
  // All blocks are there; their bytes are read now.
  void settle_and_pack() {
    settle();
    for (std::size_t i = 0; i < size_ && !is_plain_; ++i) {
      packer_.pack(elements_[i], memory_.get() + displacements_[i]);
    }
  }
  // The call goes on after it has returned.
  void keep() {
    for (std::size_t i = 0; i < size_ && !is_plain_; ++i) {
      if (elements_[i].bytes() > 0) {
        types_.push_back(packer_.keep(elements_[i].type));
        elements_[i].type = *types_.back();
      }
    }
  }
  void finish() const {
    for (std::size_t i = 0; i < size_ && !is_plain_; ++i) {
      packer_.unpack(memory_.get() + displacements_[i], elements_[i]);
    }
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] const std::size_t* counts() const { return counts_.data(); }
  [[nodiscard]] const std::size_t* displacements() const { return displacements_.data(); }
  [[nodiscard]] std::byte* block(int rank) const {
    return data_ + displacements_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t bytes_of(int rank) const {
    return counts_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Elements<Abi>& elements(int rank) const {
    return elements_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Range range() const { return {data_, data_ + span_}; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      sum += counts_[i];
    }
    return sum;
  }

  // As SendPiece::keep_off: blocks that are sent may lie between blocks that are received, which
  // MPI allows and the library does not.
  void keep_off(const Range& output) {
    if (!range().meets(output)) {
      return;
    }
    Memory copy = new_memory(span_);
    for (std::size_t i = 0; i < size_; ++i) {
      std::memcpy(copy.get() + displacements_[i], data_ + displacements_[i], counts_[i]);
    }
    memory_ = std::move(copy);
    data_ = memory_.get();
  }

 private:
  void settle_plain() {
    constexpr std::uintptr_t kNone = std::numeric_limits<std::uintptr_t>::max();
    std::uintptr_t first = kNone;
    for (std::size_t i = 0; i < size_; ++i) {
      if (counts_[i] > 0) {
        first = std::min(first, reinterpret_cast<std::uintptr_t>(elements_[i].place));
      }
    }
    data_ = first == kNone ? &nothing : reinterpret_cast<std::byte*>(first);
    for (std::size_t i = 0; i < size_; ++i) {
      // Where an empty block lies says nothing.
      displacements_[i] =
          counts_[i] > 0 ? reinterpret_cast<std::uintptr_t>(elements_[i].place) - first : 0;
      span_ = std::max(span_, displacements_[i] + counts_[i]);
    }
  }
  void settle_packed() {
    for (std::size_t i = 0; i < size_; ++i) {
      displacements_[i] = span_;
      span_ += counts_[i];
    }
    memory_ = new_memory(span_);
    data_ = memory_.get();
  }

  Packer<Abi> packer_;
  std::size_t size_ = 0;
  bool is_plain_ = true;
  std::vector<std::shared_ptr<const typename Abi::Type>> types_;
  std::byte* data_ = nullptr;
  std::size_t span_ = 0;
  Memory memory_;
  std::array<Elements<Abi>, kMostRanks> elements_;
  std::array<std::size_t, kMostRanks> counts_;
  std::array<std::size_t, kMostRanks> displacements_;
};

}  // namespace sennit_mpi
