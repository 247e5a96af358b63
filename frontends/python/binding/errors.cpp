#include "errors.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace sennit::python {
namespace {

struct CodeRow {
  sennit_status_t status;
  const char* c_name;
  const char* python_name;
  const char* text;
};

constexpr CodeRow kCodes[] = {
#define SENNIT_CODE(c_name, value, cpp_name, python_name, text) \
  {c_name, #c_name, #python_name, text},
#include "sennit/codes.def"
#undef SENNIT_CODE
};

// The module whose attributes the exception classes are; it lives as long as the interpreter.
nb::handle classes_of;

nb::object class_for(sennit_status_t status) {
  for (const CodeRow& row : kCodes) {
    if (row.status == status && status != SENNIT_OK) {
      return classes_of.attr(row.python_name);
    }
  }
  return classes_of.attr("Error");
}

// Names of hosts, files and communicators may hold any bytes; those that are no UTF-8 become
// "\xff".
nb::object text_of(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(
      bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
}

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

// The values that a field has on an error that did not come from a call.
nb::dict default_fields() {
  nb::dict fields;
  for (const char* name : {"comm", "op", "dtype", "reduce_op", "evidence", "next"}) {
    fields[name] = "";
  }
  for (const char* name : {"sequence", "count", "size"}) {
    fields[name] = 0;
  }
  fields["root"] = nb::none();
  fields["rank"] = nb::none();
  fields["blamed_ranks"] = nb::tuple();
  fields["elapsed_s"] = 0.0;
  fields["code"] = static_cast<int>(SENNIT_INTERNAL_ERROR);
  return fields;
}

nb::object new_exception(const char* name, const char* text, nb::handle base, nb::dict fields) {
  const std::string qualified = std::string("sennit.") + name;
  return nb::steal(PyErr_NewExceptionWithDoc(qualified.c_str(), text, base.ptr(), fields.ptr()));
}

nb::object exception_of(const ErrorRecord& record) {
  nb::object error = class_for(record.status)(text_of(record.message));
  nb::list blamed;
  for (const std::int32_t rank : record.blamed_ranks) {
    blamed.append(rank);
  }
  error.attr("comm") = text_of(record.comm);
  error.attr("op") = text_of(record.op);
  error.attr("sequence") = record.sequence;
  error.attr("count") = record.count;
  error.attr("dtype") = text_of(record.dtype);
  error.attr("reduce_op") = text_of(record.reduce_op);
  error.attr("root") = record.root < 0 ? nb::object(nb::none()) : nb::object(nb::int_(record.root));
  error.attr("rank") = record.rank < 0 ? nb::object(nb::none()) : nb::object(nb::int_(record.rank));
  error.attr("size") = record.size;
  error.attr("blamed_ranks") = nb::tuple(blamed);
  error.attr("evidence") = text_of(record.evidence);
  error.attr("elapsed_s") = record.elapsed_s;
  error.attr("next") = text_of(record.next);
  return error;
}

}  // namespace

ErrorRecord record_of(sennit_status_t status) {
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  if (sennit_last_error(&error) != SENNIT_OK || error.status != status) {
    ErrorRecord bare;
    bare.status = status;
    bare.message = sennit_status_text(status);
    return bare;
  }
  return record_of(error);
}

ErrorRecord record_of(const sennit_error_t& error) {
  ErrorRecord record;
  record.status = error.status;
  record.message = text_or_empty(error.message);
  record.comm = text_or_empty(error.comm);
  record.op = text_or_empty(error.op);
  record.sequence = error.sequence;
  record.count = error.count;
  record.dtype = text_or_empty(error.dtype);
  record.reduce_op = text_or_empty(error.reduce_op);
  record.root = error.root;
  record.rank = error.rank;
  record.size = error.size;
  record.blamed_ranks.assign(error.blamed_ranks, error.blamed_ranks + error.blamed_count);
  record.evidence = text_or_empty(error.evidence);
  record.elapsed_s = error.elapsed_s;
  record.next = text_or_empty(error.next);
  return record;
}

void raise(const ErrorRecord& record) {
  const nb::object error = exception_of(record);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void raise(sennit_status_t status, const std::string& message) {
  ErrorRecord record;
  record.status = status;
  record.message = message;
  raise(record);
}

void check(sennit_status_t status) {
  if (status != SENNIT_OK) {
    raise(record_of(status));
  }
}

void bind_errors(nb::module_& module) {
  classes_of = module;
  const nb::object base =
      new_exception("Error",
                    "Any failure that Sennit reports; the subclass says of what kind.",
                    PyExc_Exception,
                    default_fields());
  module.attr("Error") = base;
  nb::list codes;
  for (const CodeRow& row : kCodes) {
    codes.append(nb::make_tuple(row.python_name, static_cast<int>(row.status), row.c_name));
    if (row.status == SENNIT_OK) {
      continue;
    }
    nb::dict fields;
    fields["code"] = static_cast<int>(row.status);
    module.attr(row.python_name) = new_exception(row.python_name, row.text, base, fields);
  }
  module.attr("STATUS_CODES") = nb::tuple(codes);
  module.def(
      "last_error",
      [](int status) { return exception_of(record_of(static_cast<sennit_status_t>(status))); },
      nb::arg("status"));
}

}  // namespace sennit::python
