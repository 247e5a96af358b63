// Shadows: host memory in the place of a call's device buffers, for whoever runs it on the host,
// Sennit or the MPI. Inputs are copied there before the call, outputs back after it, byte for byte
// what the types describe: between those bytes the program may compute.
#pragma once

#include "buffers.hpp"
#include "cuda.hpp"
#include "datatypes.hpp"
#include "type_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sennit_mpi {

template <class Abi>
class Shadows {
 public:
  Shadows(const Cuda& cuda,
          TypeRows<Abi>& rows,
          const Datatypes<Abi>& datatypes,
          const Packer<Abi>& packer)
      : cuda_(&cuda), rows_(&rows), datatypes_(&datatypes), packer_(packer) {}

  // A buffer of the call, by the variable that has its address.
  class Buffer {
   public:
    Buffer(Shadows& shadows, std::size_t index) : shadows_(shadows), index_(index) {}
    Buffer reads(const Elements<Abi>& elements) const {
      shadows_.describe(shadows_.buffers_[index_], elements, true);
      return *this;
    }
    Buffer writes(const Elements<Abi>& elements) const {
      shadows_.describe(shadows_.buffers_[index_], elements, false);
      return *this;
    }

   private:
    Shadows& shadows_;
    std::size_t index_;
  };
  Buffer of(const void*& argument) { return of(const_cast<void*&>(argument)); }
  Buffer of(void*& argument) {
    buffers_.push_back({.argument = &argument, .own = static_cast<std::byte*>(argument)});
    return {*this, buffers_.size() - 1};
  }
  // Only the host can run the call, wherever the buffers are.
  void keep_to_host() { is_for_host_ = true; }

  [[nodiscard]] bool are_needed() const {
    return std::ranges::any_of(buffers_, [](const Part& part) { return part.is_on_device(); });
  }
  // The GPU that can run the call with these buffers as they are; -1: none.
  [[nodiscard]] int gpu() const {
    int device = -1;
    for (const Part& part : buffers_) {
      if (part.is_empty()) {
        continue;
      }
      const bool is_first = device < 0;
      if (!part.is_on_device() || !part.is_plain || (!is_first && part.place.device != device) ||
          meets_another(part) || !cuda_->is_primary(part.place)) {
        return -1;
      }
      device = part.place.device;
    }
    return is_for_host_ ? -1 : device;
  }

  // The variables have the addresses of the shadows from now on.
  void copy_in() {
    for (Part& part : buffers_) {
      if (part.is_on_device()) {
        const Cuda::Scope scope(*cuda_, part.place);
        part.memory = {*cuda_, static_cast<std::size_t>(part.end - part.begin)};
        *part.argument =
            reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(part.memory.data()) -
                                    static_cast<std::uintptr_t>(part.begin));
      }
    }
    copy_in_again();
  }
  // What is there now.
  void copy_in_again() const {
    each([&](const Cuda::Scope& scope, const Part& part) {
      for (const Rows& rows : part.reads) {
        scope.copy_in(part.shadow(), part.own, rows);
      }
    });
  }
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  // At most so many bytes of a buffer, in the order of its type.
  void copy_out(std::size_t most = kAll) const {
    each([&](const Cuda::Scope& scope, const Part& part) {
      std::size_t left = most;
      for (Rows rows : part.writes) {
        const std::size_t whole = std::min(rows.rows, left / rows.width);
        const std::size_t rest = whole < rows.rows ? left % rows.width : 0;
        const std::ptrdiff_t behind = rows.offset + static_cast<std::ptrdiff_t>(whole * rows.pitch);
        rows.rows = whole;
        if (whole > 0) {
          scope.copy_out(part.own, part.shadow(), rows);
        }
        if (rest > 0) {
          scope.copy_out(part.own, part.shadow(), {.offset = behind, .width = rest});
        }
        left -= whole * rows.width + rest;
      }
    });
  }

 private:
  struct Part {
    [[nodiscard]] bool is_empty() const { return begin == end; }
    [[nodiscard]] bool is_on_device() const { return place.device >= 0; }
    // Of the byte at `own`, which may be outside.
    [[nodiscard]] std::byte* shadow() const {
      return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory.data()) -
                                          static_cast<std::uintptr_t>(begin));
    }

    void** argument = nullptr;
    std::byte* own = nullptr;
    MemoryPlace place{};
    bool is_plain = true;
    // What the call uses, as offsets from `own`.
    std::ptrdiff_t begin = 0;
    std::ptrdiff_t end = 0;
    std::vector<Rows> reads{};
    std::vector<Rows> writes{};
    Cuda::Staging memory{};
  };

  void describe(Part& part, const Elements<Abi>& elements, bool is_read) {
    if (elements.bytes() == 0) {
      return;
    }
    const auto from = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(elements.place) -
                                                  reinterpret_cast<std::uintptr_t>(part.own));
    const Extent extent =
        elements.layout.is_dense
            ? Extent{.begin = 0, .end = static_cast<std::ptrdiff_t>(elements.bytes())}
            : datatypes_->extent_of(elements.type, elements.layout, elements.count);
    // Of a buffer on the host one look is enough.
    const bool is_first = part.is_empty();
    const MemoryPlace place = is_first || part.is_on_device()
                                  ? cuda_->place_of(reinterpret_cast<const void*>(
                                        reinterpret_cast<std::uintptr_t>(elements.place) +
                                        static_cast<std::uintptr_t>(extent.begin)))
                                  : part.place;
    if (is_first) {
      part.place = place;
      part.begin = from + extent.begin;
      part.end = from + extent.end;
    }
    part.begin = std::min(part.begin, from + extent.begin);
    part.end = std::max(part.end, from + extent.end);
    if (!part.is_on_device()) {
      return;
    }
    if (place.device != part.place.device) {
      throw std::invalid_argument("a buffer lies partly in the memory of a GPU, partly elsewhere");
    }
    part.is_plain = part.is_plain && elements.layout.is_dense;
    std::vector<Rows>& rows = is_read ? part.reads : part.writes;
    const std::size_t first = rows.size();
    rows_->add(packer_, elements, rows);
    for (std::size_t i = first; i < rows.size(); ++i) {
      rows[i].offset += from;
    }
  }

  [[nodiscard]] bool meets_another(const Part& part) const {
    const auto range_of = [](const Part& one) {
      return Range{one.own + one.begin, one.own + one.end};
    };
    return std::ranges::any_of(buffers_, [&](const Part& other) {
      return &other != &part && !other.is_empty() && range_of(other).meets(range_of(part));
    });
  }

  // Runs it for each buffer on a device, and waits for its copies.
  template <class Run>
  void each(Run&& run) const {
    for (const Part& part : buffers_) {
      if (part.is_on_device()) {
        const Cuda::Scope scope(*cuda_, part.place);
        scope.wait_for_program();
        try {
          run(scope, part);
        } catch (...) {
          scope.end_copies();  // the memory must not go back before
          throw;
        }
        scope.wait();
      }
    }
  }

  const Cuda* cuda_;
  TypeRows<Abi>* rows_;
  const Datatypes<Abi>* datatypes_;
  Packer<Abi> packer_;
  bool is_for_host_ = false;
  std::vector<Part> buffers_;
};

// The MPI's error of a call that has ended; without one, what it has received goes to the buffers.
template <class Abi>
int end_with(const std::optional<Shadows<Abi>>& shadows, int code) {
  if (shadows && code == 0) {
    shadows->copy_out();
  }
  return code;
}

}  // namespace sennit_mpi
