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
#include <mutex>
#include <type_traits>
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

// What keeps a call from running: the MPI's error where it refused to read or write a buffer, or
// lengths that MPI wants to be equal and this rank alone sees that they are not. 0: nothing.
struct Trouble {
  int code = 0;
  std::size_t sent = 0;      // bytes of a block
  std::size_t received = 0;  // bytes of the same block

  explicit operator bool() const { return code != 0 || sent != received; }
};

// A type for as long as this lives, also if the program frees it meanwhile.
template <class Abi>
class KeptType {
 public:
  using Type = typename Abi::Type;

  explicit KeptType(const typename Functions<Abi>::Needed& mpi) : mpi_(&mpi) {}
  ~KeptType() {
    if (type_ != Type{}) {
      mpi_->type_free(&type_);
    }
  }
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;
  KeptType(KeptType&& other) noexcept
      : mpi_(other.mpi_), type_(std::exchange(other.type_, Type{})) {}
  KeptType& operator=(KeptType&&) = delete;

  // From now on `type` is a copy of what it was. Returns the MPI's error.
  int keep(Type& type) {
    const int code = mpi_->type_dup(type, &type_);
    if (code == 0) {
      type = type_;
    }
    return code;
  }

 private:
  const typename Functions<Abi>::Needed* mpi_;
  Type type_{};
};

// MPI_Pack and MPI_Unpack over any number of elements. Their sizes are ints: an element that is
// larger goes by their forms with large counts, or, with an MPI that has none, by a message of this
// rank to itself. Both return the MPI's error.
template <class Abi>
class Packer {
 public:
  using Type = typename Abi::Type;

  // Any communicator of ranks that see memory in one way will do; the program may free its own. Its
  // error handler has to return errors.
  Packer(const Functions<Abi>& functions, Type byte, typename Abi::Comm comm)
      : mpi_(&functions.mpi), byte_(byte), comm_(comm) {}

  [[nodiscard]] const typename Functions<Abi>::Needed& mpi() const { return *mpi_; }

  [[nodiscard]] int pack(const Elements<Abi>& from, std::byte* to) const {
    if (needs_messages(from)) {
      return by_messages(from, [&](const void* element, std::size_t offset, Type bytes) {
        return send_to_self(element, from.type, to + offset, bytes);
      });
    }
    return in_parts(from, [&](const void* part, auto count, std::size_t offset, auto bytes) {
      decltype(bytes) position = 0;
      if constexpr (std::is_same_v<decltype(count), int>) {
        return mpi_->pack(part, count, from.type, to + offset, bytes, &position, comm_);
      } else {
        return mpi_->pack_c(part, count, from.type, to + offset, bytes, &position, comm_);
      }
    });
  }
  [[nodiscard]] int unpack(const std::byte* from, const Elements<Abi>& to) const {
    if (needs_messages(to)) {
      return by_messages(to, [&](const void* element, std::size_t offset, Type bytes) {
        return send_to_self(from + offset, bytes, const_cast<void*>(element), to.type);
      });
    }
    return in_parts(to, [&](const void* part, auto count, std::size_t offset, auto bytes) {
      decltype(bytes) position = 0;
      auto* const place = const_cast<void*>(part);
      if constexpr (std::is_same_v<decltype(count), int>) {
        return mpi_->unpack(from + offset, bytes, &position, place, count, to.type, comm_);
      } else {
        return mpi_->unpack_c(from + offset, bytes, &position, place, count, to.type, comm_);
      }
    });
  }

 private:
  template <typename Run>
  [[nodiscard]] int in_parts(const Elements<Abi>& elements, Run&& run) const {
    if (elements.bytes() == 0) {
      return 0;
    }
    if (elements.layout.bytes > kLargestElement) {
      return run(elements.place,
                 static_cast<std::int64_t>(elements.count),
                 std::size_t{0},
                 static_cast<std::int64_t>(elements.bytes()));
    }
    const std::size_t most = std::max<std::size_t>(kMostBytes / elements.layout.bytes, 1);
    for (std::size_t done = 0; done < elements.count;) {
      const std::size_t count = std::min(elements.count - done, most);
      const int code = run(place_of(elements, done),
                           static_cast<int>(count),
                           done * elements.layout.bytes,
                           static_cast<int>(count * elements.layout.bytes));
      if (code != 0) {
        return code;
      }
      done += count;
    }
    return 0;
  }

  // An element's displacements may be addresses, and its buffer MPI_BOTTOM.
  static const void* place_of(const Elements<Abi>& elements, std::size_t index) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(elements.place) +
                                         index * static_cast<std::size_t>(elements.layout.extent));
  }
  [[nodiscard]] bool needs_messages(const Elements<Abi>& elements) const {
    return elements.layout.bytes > kLargestElement && mpi_->pack_c == nullptr;
  }
  // Calls run(element, its offset among the packed bytes, the type of these bytes) for each.
  template <typename Run>
  [[nodiscard]] int by_messages(const Elements<Abi>& elements, Run&& run) const {
    std::vector<int> lengths;
    std::vector<std::intptr_t> offsets;
    for (std::size_t done = 0; done < elements.layout.bytes; done += kMostBytes) {
      lengths.push_back(static_cast<int>(std::min(elements.layout.bytes - done, kMostBytes)));
      offsets.push_back(static_cast<std::intptr_t>(done));
    }
    Type bytes{};
    int code = mpi_->type_create_hindexed(
        static_cast<int>(lengths.size()), lengths.data(), offsets.data(), byte_, &bytes);
    if (code != 0) {
      return code;
    }
    code = mpi_->type_commit(&bytes);
    for (std::size_t i = 0; i < elements.count && code == 0; ++i) {
      code = run(place_of(elements, i), i * elements.layout.bytes, bytes);
    }
    mpi_->type_free(&bytes);
    return code;
  }
  int send_to_self(const void* from, Type from_type, void* to, Type to_type) const {
    // Threads share the communicator, and would receive what another one sends.
    static std::mutex one_message;
    const std::scoped_lock lock(one_message);
    constexpr int kTag = 0;
    return mpi_->send_recv(
        from, 1, from_type, 0, kTag, to, 1, to_type, 0, kTag, comm_, Abi::status_ignore());
  }

  static constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
  static constexpr auto kLargestElement = static_cast<std::size_t>(std::numeric_limits<int>::max());

  const typename Functions<Abi>::Needed* mpi_;
  Type byte_;
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

// The bytes of elements that the MPI packs and unpacks, and what that takes. Elements without gaps
// have none: they are in the smallest calls, whose time counts.
template <class Abi>
struct Packed {
  Packed(const Packer<Abi>& with, const Elements<Abi>& of)
      : packer(with), elements(of), memory(new_memory(of.bytes())) {}

  // All return the MPI's error.
  [[nodiscard]] int keep() { return type.keep(elements.type); }
  [[nodiscard]] int pack() const { return packer.pack(elements, memory.get()); }
  [[nodiscard]] int unpack() const { return packer.unpack(memory.get(), elements); }

  Packer<Abi> packer;
  Elements<Abi> elements;
  KeptType<Abi> type{packer.mpi()};
  Memory memory;
};

// One piece to send, by default nothing.
template <class Abi>
class SendPiece {
 public:
  SendPiece() = default;
  SendPiece(const Packer<Abi>& packer, const Elements<Abi>& elements)
      : data_(static_cast<const std::byte*>(elements.place)), bytes_(elements.bytes()) {
    if (!elements.is_plain()) {
      packed_ = std::make_unique<Packed<Abi>>(packer, elements);
      code_ = packed_->pack();
      data_ = packed_->memory.get();
    }
  }

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] Range range() const { return {data_, data_ + bytes_}; }

  // The call may be started again, with what the program then has there. Both return the MPI's
  // error.
  [[nodiscard]] int keep() { return packed_ != nullptr ? packed_->keep() : 0; }
  [[nodiscard]] int read_again() {
    if (packed_ != nullptr) {
      return packed_->pack();
    }
    if (copy_ != nullptr) {
      std::memcpy(copy_.get(), copied_, bytes_);
    }
    return 0;
  }

  // The library refuses outputs that meet an input other than in place. MPI forbids most of what
  // does, but programs do it, and get what they expect from other MPIs. Packed bytes meet nothing.
  void keep_off(const Range& output, const std::byte* in_place) {
    if (packed_ == nullptr && data_ != in_place && range().meets(output)) {
      copy_ = new_memory(bytes_);
      copied_ = std::exchange(data_, copy_.get());
      std::memcpy(copy_.get(), copied_, bytes_);
    }
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int code_ = 0;
  std::unique_ptr<Packed<Abi>> packed_;
  Memory copy_;
  const std::byte* copied_ = nullptr;
};

// One piece to receive, by default nothing: in place, or unpacked by finish().
template <class Abi>
class RecvPiece {
 public:
  RecvPiece() = default;
  RecvPiece(const Packer<Abi>& packer, const Elements<Abi>& elements)
      : data_(const_cast<std::byte*>(static_cast<const std::byte*>(elements.place))),
        bytes_(elements.bytes()) {
    if (!elements.is_plain()) {
      packed_ = std::make_unique<Packed<Abi>>(packer, elements);
      data_ = packed_->memory.get();
    }
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Range range() const { return {data_, data_ + bytes_}; }
  // The call goes on after it has returned. As finish(), returns the MPI's error.
  [[nodiscard]] int keep() { return packed_ != nullptr ? packed_->keep() : 0; }
  [[nodiscard]] int finish() const { return packed_ != nullptr ? packed_->unpack() : 0; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<Packed<Abi>> packed_;
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
  // counts() and displacements() are to be in these values; of bytes that is so anyway.
  void count_in(const Values& values) { value_bytes_ = values.bytes; }
  // All blocks are there, and lie where the program has them. The library takes displacements in
  // values: blocks that lie between those are packed.
  void settle() {
    if (is_plain_) {
      settle_plain();
      is_plain_ = std::all_of(displacements_.begin(),
                              displacements_.begin() + size_,
                              [&](auto one) { return one % value_bytes_ == 0; });
    }
    if (!is_plain_) {
      settle_packed();
    }
  }
  // All blocks are there; their bytes are read now.
  void settle_and_pack() {
    settle();
    for (std::size_t i = 0; i < size_ && !is_plain_ && code_ == 0; ++i) {
      code_ = packer_.pack(elements_[i], memory_.get() + displacements_[i]);
    }
  }
  // The call goes on after it has returned. As finish(), returns the MPI's error.
  [[nodiscard]] int keep() {
    int code = 0;
    for (std::size_t i = 0; i < size_ && !is_plain_ && code == 0; ++i) {
      if (elements_[i].bytes() > 0) {
        code = types_.emplace_back(packer_.mpi()).keep(elements_[i].type);
      }
    }
    return code;
  }
  // The call is started again: as SendPiece::read_again().
  [[nodiscard]] int read_again() {
    int code = 0;
    for (std::size_t i = 0; i < size_ && memory_ != nullptr && code == 0; ++i) {
      std::byte* const to = memory_.get() + displacements_[i];
      if (!is_plain_) {
        code = packer_.pack(elements_[i], to);
      } else if (counts_[i] > 0) {
        std::memcpy(to, elements_[i].place, counts_[i]);
      }
    }
    return code;
  }
  [[nodiscard]] int finish() const {
    int code = 0;
    for (std::size_t i = 0; i < size_ && !is_plain_ && code == 0; ++i) {
      code = packer_.unpack(memory_.get() + displacements_[i], elements_[i]);
    }
    return code;
  }

  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] const std::size_t* counts() { return in_values(counts_, value_counts_); }
  [[nodiscard]] const std::size_t* displacements() {
    return in_values(displacements_, value_displacements_);
  }
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
    if (code_ != 0 || !range().meets(output)) {
      return;
    }
    // One behind the other: there may be far more memory between them.
    Memory copy = new_memory(bytes());
    span_ = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      std::memcpy(copy.get() + span_, data_ + displacements_[i], counts_[i]);
      displacements_[i] = span_;
      span_ += counts_[i];
    }
    memory_ = std::move(copy);
    data_ = memory_.get();
  }

 private:
  using Lengths = std::array<std::size_t, kMostRanks>;

  const std::size_t* in_values(const Lengths& bytes, Lengths& values) const {
    if (value_bytes_ == 1) {
      return bytes.data();
    }
    std::transform(bytes.begin(), bytes.begin() + size_, values.begin(), [&](std::size_t one) {
      return one / value_bytes_;
    });
    return values.data();
  }
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
    span_ = 0;
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
  int code_ = 0;
  std::vector<KeptType<Abi>> types_;
  std::byte* data_ = nullptr;
  std::size_t span_ = 0;
  Memory memory_;
  std::size_t value_bytes_ = 1;
  std::array<Elements<Abi>, kMostRanks> elements_;
  Lengths counts_;
  Lengths displacements_;
  Lengths value_counts_;
  Lengths value_displacements_;
};

}  // namespace sennit_mpi
