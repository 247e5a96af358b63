#include "types/types.hpp"

#include <fmt/ranges.h>

#include <vector>

namespace sennit {
namespace {

template <typename Row, std::size_t kSize>
Result<Row> parse_row(const std::array<Row, kSize>& rows, const char* what, std::string_view text) {
  std::vector<std::string_view> names;
  for (const Row row : rows) {
    if (name(row) == text) {
      return row;
    }
    names.push_back(name(row));
  }
  return fail(Code::kInvalidArgument,
              "there is no {} '{}'; there are: {}",
              what,
              text,
              fmt::join(names, ", "));
}

template <typename Row, std::size_t kSize>
Result<Row> row_from_value(const std::array<Row, kSize>& rows, const char* what, int value) {
  for (const Row row : rows) {
    if (static_cast<int>(row) == value) {
      return row;
    }
  }
  return fail(Code::kInvalidArgument, "there is no {} with the value {}", what, value);
}

}  // namespace

std::string_view name(Dtype dtype) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return #name;
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return "?";
}

std::string_view name(ReduceOp op) {
  switch (op) {
#define SENNIT_REDUCE_OP(name, value, enumerator, integers, bools, floats, complexes) \
  case ReduceOp::enumerator:                                                          \
    return #name;
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
  }
  return "?";
}

std::string_view name(Collective collective) {
  switch (collective) {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) \
  case Collective::enumerator:                                    \
    return #name;
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
  }
  return "?";
}

std::size_t size_bytes(Dtype dtype) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return sizeof(c_type);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return 0;
}

Status check_operator(Dtype dtype, ReduceOp op) {
  if (has_operator(dtype, op)) {
    return {};
  }
  std::vector<std::string_view> names;
  for (const ReduceOp known : kReduceOps) {
    if (has_operator(dtype, known)) {
      names.push_back(name(known));
    }
  }
  return fail(Code::kUnsupported,
              "there is no {} of {}; there are: {}",
              name(op),
              name(dtype),
              fmt::join(names, ", "));
}

bool scales_contributions(ReduceOp op) { return op == ReduceOp::kPremulSum; }

bool finishes_sum(ReduceOp op) { return op == ReduceOp::kAvg; }

bool is_rooted(Collective collective) {
  switch (collective) {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) \
  case Collective::enumerator:                                    \
    return rooted;
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
  }
  return false;
}

bool is_reduction(Collective collective) {
  switch (collective) {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) \
  case Collective::enumerator:                                    \
    return reduces;
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
  }
  return false;
}

bool is_cut(Collective collective) {
  switch (collective) {
#define SENNIT_COLLECTIVE(name, enumerator, rooted, reduces, cut) \
  case Collective::enumerator:                                    \
    return cut;
#include "types/collectives.def"
#undef SENNIT_COLLECTIVE
  }
  return false;
}

Result<Dtype> parse_dtype(std::string_view text) { return parse_row(kDtypes, "dtype", text); }
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  return parse_row(kReduceOps, "reduce operator", text);
}
Result<Collective> parse_collective(std::string_view text) {
  return parse_row(kCollectives, "collective", text);
}

Result<Dtype> dtype_from_value(int value) { return row_from_value(kDtypes, "dtype", value); }
Result<ReduceOp> reduce_op_from_value(int value) {
  if (value == static_cast<int>(ReduceOp::kPremulSum)) {
    return fail(Code::kInvalidArgument,
                "premul_sum needs a scalar; sennit_redop_create_premulsum makes the operator");
  }
  return row_from_value(kReduceOps, "reduce operator", value);
}

}  // namespace sennit
