#include "equal_calls.hpp"

#include "buffer.hpp"
#include "comm.hpp"
#include "dtypes.hpp"
#include "errors.hpp"
#include "work.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

using BufferPointer = std::shared_ptr<const Buffer>;

struct Operator {
  std::string_view name;
  sennit_redop_t value;
};
constexpr std::array<Operator, 11> kOperators{{{"sum", SENNIT_SUM},
                                               {"prod", SENNIT_PROD},
                                               {"min", SENNIT_MIN},
                                               {"max", SENNIT_MAX},
                                               {"avg", SENNIT_AVG},
                                               {"logical_and", SENNIT_LOGICAL_AND},
                                               {"logical_or", SENNIT_LOGICAL_OR},
                                               {"logical_xor", SENNIT_LOGICAL_XOR},
                                               {"bitwise_and", SENNIT_BITWISE_AND},
                                               {"bitwise_or", SENNIT_BITWISE_OR},
                                               {"bitwise_xor", SENNIT_BITWISE_XOR}}};

// What the Python half of the package does for a call. Looked up once.
struct PythonHalf {
  nb::handle premul_sum =
      nb::object(nb::module_::import_("sennit.elements").attr("PremulSum")).release();
  nb::handle new_output =
      nb::object(nb::module_::import_("sennit.calls").attr("new_output")).release();
};

const PythonHalf& python() {
  static const auto& both = *new PythonHalf;
  return both;
}

// What a program passes.
struct Request {
  nb::object comm;
  Collective collective;
  nb::object x;
  nb::object out;
  nb::object op;
  nb::object root;
  const CallOptions& options;
};

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::repr(object)); }

// A rank, or the peer of a message.
int rank_of(nb::handle root) {
  const nb::object number = nb::steal(PyNumber_Index(root.ptr()));
  if (!number.is_valid()) {
    throw nb::python_error();
  }
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || value > INT_MAX || value < -INT_MAX) {
    raise(SENNIT_INVALID_ARGUMENT, text_of(root) + " is no rank: a rank has at most 32 bits");
  }
  return static_cast<int>(value);
}

int operator_named(nb::handle name) {
  std::string names;
  if (nb::isinstance<nb::str>(name)) {
    const char* const asked = nb::cast<nb::str>(name).c_str();
    for (const Operator& known : kOperators) {
      if (known.name == asked) {
        return known.value;
      }
    }
  }
  for (const Operator& known : kOperators) {
    names.append(names.empty() ? "" : ", ").append(known.name);
  }
  raise(SENNIT_INVALID_ARGUMENT,
        "no reduce operator " + text_of(name) + "; there are " + names + " and premulsum(x)");
}

// The operator, or the element of a premultiplied sum.
void put_operator(nb::handle op, CallArguments& arguments) {
  if (!op.type().is(python().premul_sum)) {
    arguments.op = operator_named(op);
    return;
  }
  const nb::bytes element(nb::object(op.attr("element")(name_of(arguments.send->dtype()))));
  arguments.scalar.assign(element.c_str(), element.size());
}

BufferPointer read_from(const Request& call) {
  return std::make_shared<const Buffer>(buffer_of(call.x, "x", false, call.options.stream));
}

BufferPointer written_to(nb::handle object, const char* name, const Request& call) {
  return std::make_shared<const Buffer>(buffer_of(object, name, true, call.options.stream));
}

// How the output of a call relates to its input. A part is what one of the ranks has.
enum class Extent { kEqual, kAllParts, kOnePart };

// Shape of one rank's part: the first axis is cut, and vanishes when it is the ranks.
nb::tuple part_shape(const Buffer& x, int ranks) {
  const nb::tuple shape = x.shape();
  const std::size_t axes = nb::len(shape);
  const auto first = axes == 0 ? 0 : nb::cast<std::int64_t>(shape[0]);
  if (axes == 0 || first % ranks != 0) {
    raise(SENNIT_INVALID_ARGUMENT,
          "the first axis of x must be a multiple of the " + std::to_string(ranks) +
              " ranks, but x has shape " + text_of(shape));
  }
  nb::list part;
  if (first != ranks || axes == 1) {
    part.append(first / ranks);
  }
  for (std::size_t axis = 1; axis < axes; ++axis) {
    part.append(shape[axis]);
  }
  return nb::tuple(part);
}

nb::tuple output_shape(const Buffer& x, Extent extent, int ranks) {
  if (extent == Extent::kOnePart) {
    return part_shape(x, ranks);
  }
  return extent == Extent::kAllParts ? nb::tuple(nb::make_tuple(ranks) + x.shape()) : x.shape();
}

std::size_t output_count(const Buffer& x, Extent extent, int ranks) {
  const auto parts = static_cast<std::size_t>(ranks);
  if (extent == Extent::kEqual) {
    return x.count();
  }
  return extent == Extent::kAllParts ? x.count() * parts : x.count() / parts;
}

[[noreturn]] void refuse_count(std::size_t has, std::size_t needs, Extent extent, int ranks) {
  std::string rule = "as many as x";
  if (extent == Extent::kAllParts) {
    rule = std::to_string(ranks) + " times as many as x";
  } else if (extent == Extent::kOnePart) {
    rule = "1/" + std::to_string(ranks) + " of those of x";
  }
  raise(SENNIT_INVALID_ARGUMENT,
        "out has " + std::to_string(has) + " elements, but the call writes " +
            std::to_string(needs) + " (" + rule + ")");
}

// Input and output of a call that has both; `out` is made where the program gives none.
void put_both(Request& call, Extent extent, int ranks, CallArguments& arguments) {
  if (extent == Extent::kEqual && call.out.is(call.x)) {
    arguments.send = arguments.recv = written_to(call.x, "x", call);
    return;
  }
  arguments.send = read_from(call);
  const Buffer& x = *arguments.send;
  const nb::tuple shape = output_shape(x, extent, ranks);
  if (call.out.is_none()) {
    call.out = python().new_output(
        shape, name_of(x.dtype()), x.place().is_cuda(), call.x, call.options.stream);
  }
  arguments.recv = written_to(call.out, "out", call);
  const std::size_t count = output_count(x, extent, ranks);
  if (arguments.recv->count() != count) {
    refuse_count(arguments.recv->count(), count, extent, ranks);
  }
}

// Of a call to which every rank contributes x; has_output: whether this one gets a result.
void put_contribution(
    Request& call, Extent extent, bool has_output, int ranks, CallArguments& arguments) {
  if (has_output) {
    put_both(call, extent, ranks, arguments);
  } else {
    arguments.send = read_from(call);
    call.out = nb::none();
  }
  arguments.count = arguments.send->count();
}

void put_scattered(Request& call, CallArguments& arguments, const Comm& comm) {
  const std::string root = std::to_string(arguments.root);
  if (comm.rank() == arguments.root) {
    if (call.x.is_none()) {
      raise(SENNIT_INVALID_ARGUMENT, "scatter needs x on its root, rank " + root);
    }
    put_both(call, Extent::kOnePart, comm.size(), arguments);
  } else if (call.out.is_none()) {
    raise(SENNIT_INVALID_ARGUMENT,
          "scatter needs out on rank " + std::to_string(comm.rank()) + ": only the root " + root +
              " knows shape and type");
  } else {
    arguments.recv = written_to(call.out, "out", call);
  }
  arguments.count = arguments.recv->count();
}

// What the C function takes; `call.out` becomes what the blocking call returns.
CallArguments arguments_of(Request& call, const Comm& comm) {
  CallArguments arguments{.collective = call.collective, .options = call.options};
  arguments.root = rank_of(call.root);
  const bool is_root = comm.rank() == arguments.root;
  switch (call.collective) {
    case Collective::kAllReduce:
      put_contribution(call, Extent::kEqual, true, comm.size(), arguments);
      put_operator(call.op, arguments);
      break;
    case Collective::kReduce:
      put_contribution(call, Extent::kEqual, is_root, comm.size(), arguments);
      put_operator(call.op, arguments);
      break;
    case Collective::kReduceScatter:
      put_both(call, Extent::kOnePart, comm.size(), arguments);
      arguments.count = arguments.recv->count();
      put_operator(call.op, arguments);
      break;
    case Collective::kBroadcast:
      arguments.send = arguments.recv = is_root ? read_from(call) : written_to(call.x, "x", call);
      arguments.count = arguments.send->count();
      call.out = call.x;
      break;
    case Collective::kAllGather:
      put_contribution(call, Extent::kAllParts, true, comm.size(), arguments);
      break;
    case Collective::kGather:
      put_contribution(call, Extent::kAllParts, is_root, comm.size(), arguments);
      break;
    case Collective::kScatter:
      put_scattered(call, arguments, comm);
      break;
    case Collective::kAllToAll:
      put_both(call, Extent::kEqual, comm.size(), arguments);
      (void)part_shape(*arguments.send, comm.size());
      arguments.count = arguments.send->count() / static_cast<std::size_t>(comm.size());
      break;
    case Collective::kSend:
      arguments.send = read_from(call);
      arguments.count = arguments.send->count();
      call.out = nb::none();
      break;
    case Collective::kRecv:
      arguments.recv = written_to(call.out, "out", call);
      arguments.count = arguments.recv->count();
      break;
    default:
      break;  // a barrier has nothing else
  }
  return arguments;
}

// A function that makes a Work of its arguments; `finish` takes it and what the blocking call
// returns.
template <typename Finish>
void bind_call(nb::module_& module, const char* name, Finish finish) {
  module.def(
      name,
      [finish](nb::object comm,
               Collective collective,
               nb::object x,
               nb::object out,
               nb::object op,
               nb::object root,
               const CallOptions& options) {
        Request call{.comm = std::move(comm),
                     .collective = collective,
                     .x = std::move(x),
                     .out = std::move(out),
                     .op = std::move(op),
                     .root = std::move(root),
                     .options = options};
        CallArguments arguments = arguments_of(call, *nb::cast<const Comm*>(call.comm));
        auto work = std::make_unique<Work>(std::move(call.comm), std::move(arguments));
        return finish(std::move(work), std::move(call.out));
      },
      nb::arg("comm"),
      nb::arg("collective"),
      nb::arg("x").none(),
      nb::arg("out").none(),
      nb::arg("op").none(),
      nb::arg("root"),
      nb::arg("options"));
}

}  // namespace

void bind_equal_calls(nb::module_& module) {
  bind_call(module, "prepare", [](std::unique_ptr<Work> work, nb::object result) {
    return nb::make_tuple(nb::cast(work.release(), nb::rv_policy::take_ownership),
                          std::move(result));
  });
  bind_call(module, "run", [](const std::unique_ptr<Work>& work, nb::object result) {
    work->run();
    return result;
  });
  nb::list names;
  for (const Operator& known : kOperators) {
    names.append(nb::str(known.name.data(), known.name.size()));
  }
  module.attr("REDUCE_OPS") = nb::tuple(names);
}

}  // namespace sennit::python
