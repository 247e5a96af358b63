// Datatypes: what the types of an MPI are here.
//
// Ranks may describe the same data by different types: a call that moves data is made in bytes. The
// elements of a dense type follow each other in memory in the order of their signature, so that its
// buffers are used as they are; others are packed and unpacked by the MPI.
#pragma once

#include "abi.hpp"
#include "functions.hpp"
#include "handle_map.hpp"

#include "sennit/sennit.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sennit_mpi {

enum class Kind : std::uint8_t { kMoved, kSigned, kUnsigned, kFloat, kComplex, kBool, kByte };

struct Layout {
  std::size_t bytes = 0;      // of data in an element
  std::ptrdiff_t extent = 0;  // from one element to the next
  bool is_dense = false;      // extent == bytes, and memory has them in the signature's order
};

// A reduction as the library has it.
struct Reduction {
  sennit_dtype_t dtype = SENNIT_UINT8;
  sennit_redop_t op = SENNIT_SUM;
  std::size_t bytes = 0;  // of an element
};

// The library's type for a kind of so many bytes; nothing where it has none.
std::optional<sennit_dtype_t> dtype_of(Kind kind, std::size_t bytes);
// Whether MPI defines the operator for types of the kind, and the library has it as well.
bool is_defined(Kind kind, sennit_redop_t op);

template <class Abi>
class Datatypes {
 public:
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;

  // After MPI_Init: the MPI is asked for the size of each type.
  Datatypes(const Abi& abi, const Library& library, const Functions<Abi>& functions)
      : abi_(abi), functions_(functions) {
    const auto add = [&](Type type, Kind kind) {
      if (type != Type{} && type != abi_.type_null()) {
        const Layout layout = measure(type, true);
        types_.add(type, {.layout = layout, .kind = kind, .dtype = dtype_of(kind, layout.bytes)});
      }
    };
#define SENNIT_MPI_TYPE(name, number, symbol, kind) \
  add(abi_.template predefined<Type>(library, static_cast<int>(number), #symbol), Kind::kind);
#define SENNIT_MPI_OP(name, number, symbol, op) \
  ops_.add(abi_.template predefined<Op>(library, static_cast<int>(number), #symbol), op);
#include "predefined.def"
    functions_.mpi.type_create_keyval(&never_copied, &nothing_to_remove, &key_, nullptr);
  }

  [[nodiscard]] Layout layout_of(Type type) const {
    const Predefined* const known = types_.find(type);
    return known != nullptr ? known->layout : derived_layout(type);
  }

  // Nothing where one of the two is not predefined, or the library does not have the pair. All
  // ranks have to pass the same type and operator, so all come to the same answer.
  [[nodiscard]] std::optional<Reduction> reduction_of(Type type, Op op) const {
    const Predefined* const known = types_.find(type);
    const sennit_redop_t* const redop = ops_.find(op);
    if (known == nullptr || redop == nullptr || !known->dtype || !is_defined(known->kind, *redop)) {
      return std::nullopt;
    }
    return Reduction{.dtype = *known->dtype, .op = *redop, .bytes = known->layout.bytes};
  }

 private:
  struct Predefined {
    Layout layout;
    Kind kind = Kind::kMoved;
    std::optional<sennit_dtype_t> dtype;
  };

  // What the attribute of a derived type says. An attribute's value is a pointer.
  static constexpr std::intptr_t kDense = 1;
  static constexpr std::intptr_t kPacked = 2;

  static int never_copied(
      Type /*type*/, int /*key*/, void* /*extra*/, void* /*from*/, void* /*to*/, int* flag) {
    *flag = 0;
    return 0;
  }
  static int nothing_to_remove(Type /*type*/, int /*key*/, void* /*value*/, void* /*extra*/) {
    return 0;
  }

  [[nodiscard]] Layout measure(Type type, bool is_dense) const {
    std::int64_t bytes = 0;
    std::intptr_t lower = 0;
    Layout layout;
    functions_.mpi.type_size_x(type, &bytes);
    functions_.mpi.type_get_extent(type, &lower, &layout.extent);
    layout.bytes = static_cast<std::size_t>(bytes);
    layout.is_dense = is_dense && lower == 0 && layout.extent == bytes;
    return layout;
  }

  [[nodiscard]] Layout derived_layout(Type type) const {
    void* value = nullptr;
    int is_set = 0;
    functions_.mpi.type_get_attr(type, key_, static_cast<void*>(&value), &is_set);
    if (is_set == 0) {
      value = reinterpret_cast<void*>(is_chain_of_dense(type) ? kDense : kPacked);
      functions_.mpi.type_set_attr(type, key_, value);
    }
    return measure(type, reinterpret_cast<std::intptr_t>(value) == kDense);
  }

  // Size and extent alone do not tell the order: a struct may permute its parts. What repeats one
  // dense type without gaps is dense.
  [[nodiscard]] bool is_chain_of_dense(Type type) const {
    int integers = 0;
    int addresses = 0;
    int parts = 0;
    int combiner = 0;
    functions_.mpi.type_get_envelope(type, &integers, &addresses, &parts, &combiner);
    if (const Predefined* const known = types_.find(type); known != nullptr) {
      return known->layout.is_dense;
    }
    const bool is_chain = combiner == Abi::kCombinerDup || combiner == Abi::kCombinerContiguous ||
                          combiner == Abi::kCombinerResized;
    if (!is_chain || parts != 1) {
      return false;
    }
    std::vector<int> integer(static_cast<std::size_t>(integers) + 1);
    std::vector<std::intptr_t> address(static_cast<std::size_t>(addresses) + 1);
    Type part{};
    functions_.mpi.type_get_contents(
        type, integers, addresses, parts, integer.data(), address.data(), &part);
    const bool is_dense =
        measure(type, true).is_dense && is_chain_of_dense(part) && measure(part, true).is_dense;
    functions_.mpi.type_get_envelope(part, &integers, &addresses, &parts, &combiner);
    if (combiner != Abi::kCombinerNamed) {
      functions_.mpi.type_free(&part);
    }
    return is_dense;
  }

  const Abi& abi_;
  const Functions<Abi>& functions_;
  HandleMap<Type, Predefined, 512> types_;
  HandleMap<Op, sennit_redop_t, 64> ops_;
  int key_ = 0;
};

}  // namespace sennit_mpi
