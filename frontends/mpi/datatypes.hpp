// Datatypes: what the types of an MPI are here.
//
// Ranks may describe the same data by different types: a call that moves data is made in bytes. The
// elements of a dense type follow each other in memory in the order of their signature, so that its
// buffers are used as they are; others are packed and unpacked by the MPI.
#pragma once

#include "abi.hpp"
#include "functions.hpp"
#include "handle_map.hpp"
#include "values.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace sennit_mpi {

enum class Kind : std::uint8_t {
  kMoved,
  kSigned,
  kUnsigned,
  kFloat,
  kComplex,
  kBool,
  kLogical,  // of Fortran
  kByte,
  kPair,  // a value and a place
};

// Whose an operator is, and of which kind.
enum class OpKind : std::uint8_t { kOfLibrary, kOfPlaces, kOfProgram, kNone };

struct Layout {
  std::size_t bytes = 0;      // of data in an element
  std::ptrdiff_t extent = 0;  // from one element to the next
  bool is_dense = false;      // extent == bytes, and memory has them in the signature's order
};

struct Extent {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t end = 0;
};

// A reduction as the library has it.
struct Reduction {
  sennit_dtype_t dtype = SENNIT_UINT8;
  sennit_redop_t op = SENNIT_SUM;
  std::size_t bytes = 0;  // of an element
};

// The library's type for a kind of so many bytes; nothing where it has none.
std::optional<sennit_dtype_t> dtype_of(Kind kind, std::size_t bytes);
// Whether MPI defines the operator for types of the kind.
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
        const std::int64_t bytes = Abi::bytes_in(type);
        const Layout layout = bytes > 0 ? Layout{.bytes = static_cast<std::size_t>(bytes),
                                                 .extent = bytes,
                                                 .is_dense = true}
                                        : measure(type, true);
        types_.add(type, {.layout = layout, .kind = kind, .dtype = dtype_of(kind, layout.bytes)});
      }
    };
#define SENNIT_MPI_TYPE(name, number, standard, symbol, kind)                               \
  add(abi_.template predefined<Type>(library, static_cast<int>(number), standard, #symbol), \
      Kind::kind);
    const auto add_op = [&](Op op, OpKind kind, sennit_redop_t redop) {
      if (op != Op{}) {
        ops_.add(op, {.kind = kind, .redop = redop});
      }
    };
#define SENNIT_MPI_ANY_OP(number, standard, symbol, kind, op)                                \
  add_op(abi_.template predefined<Op>(library, static_cast<int>(number), standard, #symbol), \
         OpKind::kind,                                                                       \
         op);
#define SENNIT_MPI_OP(name, number, standard, symbol, op) \
  SENNIT_MPI_ANY_OP(number, standard, symbol, kOfLibrary, op)
#define SENNIT_MPI_PLACE_OP(name, number, standard, symbol) \
  SENNIT_MPI_ANY_OP(number, standard, symbol, kOfPlaces, SENNIT_MIN)
#define SENNIT_MPI_NO_OP(name, number, standard, symbol) \
  SENNIT_MPI_ANY_OP(number, standard, symbol, kNone, SENNIT_MIN)
#include "predefined.def"
#undef SENNIT_MPI_ANY_OP
    for (int* const key : {&key_, &values_key_}) {
      functions_.mpi.type_create_keyval(&never_copied<Type>, &nothing_to_remove, key, nullptr);
    }
  }

  [[nodiscard]] Layout layout_of(Type type) const {
    const Predefined* const known = types_.find(type);
    return known != nullptr ? known->layout : derived_layout(type);
  }

  // The floats that a type consists of; bytes, if it has anything else.
  [[nodiscard]] Values values_of(Type type) const {
    const Predefined* const part = types_.find(leaf_of(type));
    const bool is_float =
        part != nullptr && (part->kind == Kind::kFloat || part->kind == Kind::kComplex);
    return is_float && part->dtype ? Values{*part->dtype, part->layout.bytes} : Values{};
  }

  // Nothing where one of the two is not predefined, or the library does not have the pair. All
  // ranks have to pass the same type and operator, so all come to the same answer.
  // Inline: it is on the way of the smallest calls.
  [[nodiscard, gnu::always_inline]] std::optional<Reduction> reduction_of(Type type, Op op) const {
    const Predefined* const known = types_.find(type);
    const PredefinedOp* const known_op = ops_.find(op);
    if (known == nullptr || known_op == nullptr || !known->dtype ||
        known_op->kind != OpKind::kOfLibrary || !is_defined(known->kind, known_op->redop)) {
      return std::nullopt;
    }
    return Reduction{.dtype = *known->dtype, .op = known_op->redop, .bytes = known->layout.bytes};
  }
  [[nodiscard]] OpKind kind_of(Op op) const {
    const PredefinedOp* const known = ops_.find(op);
    return known != nullptr ? known->kind : OpKind::kOfProgram;
  }
  // Whether MPI_Reduce_local has the pair; what it has not is for the MPI to refuse.
  [[nodiscard]] bool can_reduce(Type type, Op op) const {
    const PredefinedOp* const known_op = ops_.find(op);
    if (known_op == nullptr) {
      return true;
    }
    const Predefined* const known = types_.find(type);
    return known != nullptr &&
           ((known_op->kind == OpKind::kOfLibrary && is_defined(known->kind, known_op->redop)) ||
            (known_op->kind == OpKind::kOfPlaces && known->kind == Kind::kPair));
  }
  // The memory of `count` elements, as offsets from where they are said to be.
  [[nodiscard]] Extent extent_of(Type type, const Layout& layout, std::size_t count) const {
    std::intptr_t lower = 0;
    std::intptr_t bytes = 0;
    functions_.mpi.type_get_true_extent(type, &lower, &bytes);
    const std::ptrdiff_t last =
        count > 0 ? (static_cast<std::ptrdiff_t>(count) - 1) * layout.extent : 0;
    return {.begin = lower + std::min<std::ptrdiff_t>(last, 0),
            .end = lower + bytes + std::max<std::ptrdiff_t>(last, 0)};
  }

 private:
  struct Predefined {
    Layout layout;
    Kind kind = Kind::kMoved;
    std::optional<sennit_dtype_t> dtype;
  };

  struct PredefinedOp {
    OpKind kind = OpKind::kNone;
    sennit_redop_t redop = SENNIT_SUM;  // kOfLibrary
  };

  // What the attribute of a derived type says. An attribute's value is a pointer.
  static constexpr std::intptr_t kDense = 1;
  static constexpr std::intptr_t kPacked = 2;

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

  struct Envelope {
    std::int64_t integers = 0;
    std::int64_t addresses = 0;
    std::int64_t counts = 0;  // of the large ones of MPI 4
    std::int64_t parts = 0;
    int combiner = 0;
  };

  // MPIs of MPI 4 refuse the older query for types that were made with large counts.
  [[nodiscard]] Envelope envelope_of(Type type) const {
    Envelope found;
    if (functions_.mpi.type_get_envelope_c != nullptr) {
      functions_.mpi.type_get_envelope_c(
          type, &found.integers, &found.addresses, &found.counts, &found.parts, &found.combiner);
      return found;
    }
    int integers = 0;
    int addresses = 0;
    int parts = 0;
    functions_.mpi.type_get_envelope(type, &integers, &addresses, &parts, &found.combiner);
    found.integers = integers;
    found.addresses = addresses;
    found.parts = parts;
    return found;
  }
  // What a type was made of; types among them that are not predefined have to be freed.
  [[nodiscard]] std::vector<Type> parts_of(Type type, const Envelope& envelope) const {
    std::vector<int> integer(static_cast<std::size_t>(envelope.integers) + 1);
    std::vector<std::intptr_t> address(static_cast<std::size_t>(envelope.addresses) + 1);
    std::vector<std::int64_t> count(static_cast<std::size_t>(envelope.counts) + 1);
    std::vector<Type> parts(static_cast<std::size_t>(envelope.parts) + 1);
    if (functions_.mpi.type_get_contents_c != nullptr) {
      functions_.mpi.type_get_contents_c(type,
                                         envelope.integers,
                                         envelope.addresses,
                                         envelope.counts,
                                         envelope.parts,
                                         integer.data(),
                                         address.data(),
                                         count.data(),
                                         parts.data());
    } else {
      functions_.mpi.type_get_contents(type,
                                       static_cast<int>(envelope.integers),
                                       static_cast<int>(envelope.addresses),
                                       static_cast<int>(envelope.parts),
                                       integer.data(),
                                       address.data(),
                                       parts.data());
    }
    parts.pop_back();
    return parts;
  }
  void free_part(Type part) const {
    if (envelope_of(part).combiner != Abi::kCombinerNamed) {
      functions_.mpi.type_free(&part);
    }
  }

  // The one predefined type that all elements of a type have; the null type, if they differ. An
  // attribute keeps it, as a pointer.
  [[nodiscard]] Type leaf_of(Type type) const {
    if (types_.find(type) != nullptr) {
      return type;
    }
    const Envelope envelope = envelope_of(type);
    if (envelope.combiner == Abi::kCombinerNamed || envelope.parts == 0) {
      return abi_.type_null();
    }
    void* value = nullptr;
    int is_set = 0;
    functions_.mpi.type_get_attr(type, values_key_, static_cast<void*>(&value), &is_set);
    if (is_set != 0) {
      return from_pointer(value);
    }
    std::optional<Type> leaf;
    for (const Type part : parts_of(type, envelope)) {
      const Type own = leaf_of(part);
      leaf = !leaf || *leaf == own ? own : abi_.type_null();
      free_part(part);
    }
    functions_.mpi.type_set_attr(type, values_key_, to_pointer(*leaf));
    return *leaf;
  }
  // Handles are pointers or, of MPICH, integers.
  static void* to_pointer(Type type) {
    if constexpr (std::is_pointer_v<Type>) {
      return reinterpret_cast<void*>(type);
    } else {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): it is only kept
      return reinterpret_cast<void*>(static_cast<std::intptr_t>(type));
    }
  }
  static Type from_pointer(void* value) {
    if constexpr (std::is_pointer_v<Type>) {
      return reinterpret_cast<Type>(value);
    } else {
      return static_cast<Type>(reinterpret_cast<std::intptr_t>(value));
    }
  }

  // Size and extent alone do not give the order: a struct may permute its parts. What repeats one
  // dense type without gaps is dense.
  [[nodiscard]] bool is_chain_of_dense(Type type) const {
    if (const Predefined* const known = types_.find(type); known != nullptr) {
      return known->layout.is_dense;
    }
    const Envelope envelope = envelope_of(type);
    const int combiner = envelope.combiner;
    const bool is_chain = combiner == Abi::kCombinerDup || combiner == Abi::kCombinerContiguous ||
                          combiner == Abi::kCombinerResized;
    if (!is_chain || envelope.parts != 1) {
      return false;
    }
    const Type part = parts_of(type, envelope).front();
    const bool is_dense =
        measure(type, true).is_dense && is_chain_of_dense(part) && measure(part, true).is_dense;
    free_part(part);
    return is_dense;
  }

  const Abi& abi_;
  const Functions<Abi>& functions_;
  HandleMap<Type, Predefined, 512> types_;
  HandleMap<Op, PredefinedOp, 64> ops_;
  int key_ = 0;
  int values_key_ = 0;
};

}  // namespace sennit_mpi
