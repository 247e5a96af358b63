// TypeRows: where in memory the bytes of a type are, for memory that the MPI cannot read.
//
// The MPI itself says so, whatever the type was made of: an element of numbered bytes is packed,
// and the numbers that come out are the places.
#pragma once

#include "abi.hpp"
#include "buffers.hpp"
#include "cuda.hpp"
#include "datatypes.hpp"
#include "functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace sennit_mpi {

template <class Abi>
class TypeRows {
 public:
  using Type = typename Abi::Type;

  explicit TypeRows(const Functions<Abi>& functions) : functions_(functions) {
    functions_.mpi.type_create_keyval(&never_copied<Type>, &remove, &key_, nullptr);
  }

  // Adds the rows of the elements; offsets are from where the elements are said to be.
  void add(const Packer<Abi>& packer, const Elements<Abi>& elements, std::vector<Rows>& rows) {
    if (elements.bytes() == 0) {
      return;
    }
    if (elements.layout.is_dense) {
      rows.push_back({.width = elements.bytes()});
      return;
    }
    const std::vector<Rows>& element = of_element(packer, elements);
    const std::ptrdiff_t extent = elements.layout.extent;
    if (element.size() == 1 && element.front().rows == 1 && can_be_pitch(extent, element.front())) {
      rows.push_back(element.front());
      rows.back().pitch = static_cast<std::size_t>(extent);
      rows.back().rows = elements.count;
      return;
    }
    for (std::size_t i = 0; i < elements.count; ++i) {
      for (const Rows& part : element) {
        rows.push_back(part);
        rows.back().offset += static_cast<std::ptrdiff_t>(i) * extent;
      }
    }
  }

 private:
  static int remove(Type /*type*/, int /*key*/, void* value, void* /*extra*/) {
    delete static_cast<std::vector<Rows>*>(value);
    return 0;
  }
  static bool can_be_pitch(std::ptrdiff_t distance, const Rows& row) {
    return distance >= static_cast<std::ptrdiff_t>(row.width);
  }

  // Kept with the type, until it is freed.
  const std::vector<Rows>& of_element(const Packer<Abi>& packer, const Elements<Abi>& elements) {
    const std::scoped_lock lock(measuring_);
    void* value = nullptr;
    int is_set = 0;
    functions_.mpi.type_get_attr(elements.type, key_, static_cast<void*>(&value), &is_set);
    if (is_set == 0) {
      auto made = std::make_unique<std::vector<Rows>>(measure(packer, elements));
      value = made.get();
      if (functions_.mpi.type_set_attr(elements.type, key_, value) != 0) {
        throw std::runtime_error("MPI_Type_set_attr failed");
      }
      static_cast<void>(made.release());
    }
    return *static_cast<const std::vector<Rows>*>(value);
  }

  std::vector<Rows> measure(const Packer<Abi>& packer, const Elements<Abi>& elements) const {
    std::intptr_t lower = 0;
    std::intptr_t extent = 0;
    functions_.mpi.type_get_true_extent(elements.type, &lower, &extent);
    const auto span = static_cast<std::size_t>(extent);
    const std::size_t bytes = elements.layout.bytes;
    const Memory numbered = new_memory(span);
    const Memory packed = new_memory(bytes);
    std::vector<std::size_t> places(bytes);
    Elements<Abi> one = elements;
    one.count = 1;
    one.place = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(numbered.get()) -
                                              static_cast<std::uintptr_t>(lower));
    // A byte has room for eight bits of a number.
    for (unsigned shift = 0; shift == 0 || (span - 1) >> shift != 0; shift += 8) {
      for (std::size_t i = 0; i < span; ++i) {
        numbered[i] = static_cast<std::byte>(i >> shift);
      }
      if (packer.pack(one, packed.get()) != 0) {
        throw std::runtime_error("MPI_Pack failed");
      }
      for (std::size_t i = 0; i < bytes; ++i) {
        places[i] |= std::to_integer<std::size_t>(packed[i]) << shift;
      }
    }
    std::vector<Rows> rows;
    for (std::size_t begin = 0; begin < bytes;) {
      std::size_t end = begin + 1;
      while (end < bytes && places[end] == places[end - 1] + 1) {
        ++end;
      }
      append(rows, lower + static_cast<std::ptrdiff_t>(places[begin]), end - begin);
      begin = end;
    }
    return rows;
  }

  // One row more, which may continue the last rows.
  static void append(std::vector<Rows>& rows, std::ptrdiff_t offset, std::size_t width) {
    if (!rows.empty() && rows.back().width == width) {
      Rows& last = rows.back();
      const std::ptrdiff_t distance =
          offset - (last.offset + static_cast<std::ptrdiff_t>((last.rows - 1) * last.pitch));
      if (can_be_pitch(distance, last) &&
          (last.rows == 1 || distance == static_cast<std::ptrdiff_t>(last.pitch))) {
        last.pitch = static_cast<std::size_t>(distance);
        ++last.rows;
        return;
      }
    }
    rows.push_back({.offset = offset, .width = width});
  }

  const Functions<Abi>& functions_;
  std::mutex measuring_;  // threads may use a type for the first time at once
  int key_ = 0;
};

}  // namespace sennit_mpi
