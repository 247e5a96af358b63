// Element types, reduce operators and collectives as tables. Everything that can be said about one
// of them stands in its row (dtypes.def, reduce_ops.def, collectives.def).
#pragma once

#include "base/status.hpp"
#include "types/tables.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sennit {

enum class Collective : std::uint8_t {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) enumerator,
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
};

inline constexpr std::array kDtypes = {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) Dtype::enumerator,
#include "types/dtypes.def"
#undef SENNIT_DTYPE
};
inline constexpr std::array kReduceOps = {
#define SENNIT_REDUCE_OP(name, value, enumerator, integers, bools, floats, complexes) \
  ReduceOp::enumerator,
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
};
inline constexpr std::array kCollectives = {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) Collective::enumerator,
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
};

std::string_view name(Dtype dtype);
std::string_view name(ReduceOp op);
std::string_view name(Collective collective);

// Size of one element in bytes.
std::size_t size_bytes(Dtype dtype);

// kUnsupported, by name, for a pair that the tables do not have.
Status check_operator(Dtype dtype, ReduceOp op);

// The operator multiplies each contribution by a scalar of its rank before anything is reduced.
bool scales_contributions(ReduceOp op);
// The operator does something to the sum of all contributions.
bool finishes_sum(ReduceOp op);

bool is_rooted(Collective collective);
bool is_reduction(Collective collective);
bool is_cut(Collective collective);

// The row with this name; a failure lists the names there are.
Result<Dtype> parse_dtype(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);
Result<Collective> parse_collective(std::string_view text);

// The row with this ABI value; kInvalidArgument for a value without a row. premul_sum comes with a
// scalar, so it has no value of its own there.
Result<Dtype> dtype_from_value(int value);
Result<ReduceOp> reduce_op_from_value(int value);

}  // namespace sennit
