#include "memory_view.hpp"

#include "cuda_array.hpp"
#include "errors.hpp"
#include "host_memory.hpp"

#include <nanobind/stl/string.h>

#include <unordered_map>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

// What a class of arrays can be asked for; found once a class.
struct ArrayClass {
  nb::object type;  // keeps the class, and so its address, from going
  bool is_numpy = false;
  const ExchangeApi* exchange = nullptr;
  bool has_dlpack = false;
  bool has_cuda_array = false;
  bool is_torch = false;
  bool is_immutable = false;
  // Whether instances may be lazy: their values are not what is in their memory.
  bool may_be_lazy = false;
};

// Names of attributes, made once: looking one up by a C string makes a new one each time.
struct Names {
  nb::handle requires_grad = nb::str("requires_grad").release();
  nb::handle is_conj = nb::str("is_conj").release();
  nb::handle is_neg = nb::str("is_neg").release();
  nb::handle is_zero = nb::str("_is_zerotensor").release();
  nb::handle cuda_array = nb::str("__cuda_array_interface__").release();
};

const Names& names() {
  static const auto& all = *new Names;
  return all;
}

bool is_of_module(nb::handle type, const char* package) {
  const auto name = nb::cast<std::string>(nb::str(nb::getattr(type, "__module__", nb::str(""))));
  const std::string prefix = package;
  return name == prefix || name.starts_with(prefix + ".");
}

bool is_torch_tensor(nb::handle type) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object torch = modules.attr("get")("torch");
  if (torch.is_none() || !nb::hasattr(torch, "Tensor")) {
    return false;
  }
  return PyObject_IsSubclass(type.ptr(), nb::object(torch.attr("Tensor")).ptr()) == 1;
}

// Classes of JAX; a Tracer has a module of JAX, too.
bool is_jax_array(nb::handle type) {
  return is_of_module(type, "jax") || is_of_module(type, "jaxlib");
}

// The C interface, where it knows instances of this very class: one that a class inherits knows
// nothing of what the class changes, such as tensors of PyTorch without memory of their own.
const ExchangeApi* exchange_of(nb::handle type, bool is_torch) {
  constexpr const char* kName = "__dlpack_c_exchange_api__";
  const nb::object capsule = nb::getattr(type, kName, nb::none());
  if (capsule.is_none()) {
    return nullptr;
  }
  bool is_its_own = nb::cast<bool>(nb::object(type.attr("__dict__")).attr("__contains__")(kName));
  if (!is_its_own && is_torch) {
    constexpr const char* kDispatch = "__torch_dispatch__";
    const nb::object tensor = nb::module_::import_("torch").attr("Tensor");
    is_its_own =
        nb::getattr(type, kDispatch, nb::none()).is(nb::getattr(tensor, kDispatch, nb::none()));
  }
  return is_its_own ? exchange_api_of(capsule) : nullptr;
}

ArrayClass examine(nb::handle type, nb::handle object) {
  ArrayClass found;
  found.type = nb::borrow(type);
  found.is_numpy = is_plain_numpy_array(object);
  if (found.is_numpy) {
    return found;
  }
  found.is_torch = is_torch_tensor(type);
  found.exchange = exchange_of(type, found.is_torch);
  // NumPy knows more of its own arrays than DLPack can say.
  found.has_dlpack = nb::hasattr(type, "__dlpack__") && !is_numpy_array(object);
  found.has_cuda_array = nb::hasattr(type, "__cuda_array_interface__") ||
                         (!found.has_dlpack && nb::hasattr(object, "__cuda_array_interface__"));
  found.is_immutable = is_jax_array(type);
  found.may_be_lazy = nb::hasattr(type, "is_conj");
  return found;
}

const ArrayClass& class_of(nb::handle object) {
  static auto& classes = *new std::unordered_map<PyObject*, ArrayClass>;
  const nb::handle type = object.type();
  const auto known = classes.find(type.ptr());
  if (known != classes.end()) {
    return known->second;
  }
  return classes.emplace(type.ptr(), examine(type, object)).first->second;
}

bool is_true(nb::handle object, nb::handle method) {
  const nb::object answer =
      nb::steal(PyObject_CallMethodObjArgs(object.ptr(), method.ptr(), nullptr));
  if (!answer.is_valid()) {
    throw nb::python_error();
  }
  return answer.ptr() == Py_True;
}

// Tensors of PyTorch whose values are not what is in their memory. Their own DLPack refuses some
// of them, and gives the memory of others.
void refuse_lazy(nb::handle object, const std::string& name) {
  struct Kind {
    nb::handle method;
    const char* what;
    const char* remedy;
  };
  static const Kind kKinds[] = {
      {names().is_conj, "is conjugated lazily", ".resolve_conj()"},
      {names().is_neg, "is negated lazily", ".resolve_neg()"},
      {names().is_zero, "has no memory, since it is known to be zero", ".clone()"},
  };
  for (const Kind& kind : kKinds) {
    if (is_true(object, kind.method)) {
      raise(SENNIT_INVALID_ARGUMENT,
            name + " " + kind.what + ", so its memory does not hold its values; pass " + name +
                kind.remedy);
    }
  }
}

// `why` is the exception of the object's library, which the message repeats.
[[noreturn]] void refuse_as_its_library(nb::handle object,
                                        const std::string& name,
                                        const nb::python_error& why) {
  raise(SENNIT_INVALID_ARGUMENT,
        name + " (" + class_name(object) + ") does not export its memory: " +
            nb::cast<std::string>(nb::str(why.value())) + ". Pass a plain copy of it");
}

// Whether the values may be others than those in the memory, of a tensor that has some: what is
// known to be zero has none, and only complex numbers are conjugated.
bool is_lazy(nb::handle object, nb::dlpack::dtype dtype) {
  return is_true(object, names().is_neg) ||
         (dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex) &&
          is_true(object, names().is_conj));
}

// None where the object has no memory that its class's C interface could describe, or DLPack says
// better why not.
std::optional<MemoryView> view_by_exchange(nb::handle object,
                                           const ArrayClass& its,
                                           const MemoryRequest& request) {
  if (its.is_torch) {
    const nb::object needs_gradient = nb::getattr(object, names().requires_grad);
    if (needs_gradient.ptr() == Py_True) {
      return std::nullopt;
    }
  }
  nb::dlpack::dltensor tensor;
  if (its.exchange->tensor_from_object(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  MemoryView view;
  view.object = nb::borrow(object);
  view.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  view.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.data == nullptr && view.count() != 0) {
    return std::nullopt;
  }
  if (its.may_be_lazy && is_lazy(object, tensor.dtype)) {
    return std::nullopt;
  }
  view.dtype = tensor.dtype;
  view.is_contiguous = is_c_contiguous(view.shape, tensor.strides);
  view.place = {.type = tensor.device.device_type, .device = tensor.device.device_id};
  if (view.place.is_cuda() && !request.stream) {
    view.stream = ProducerStream(*its.exchange, view.place.device);
  }
  return view;
}

Place dlpack_place_of(nb::handle object) {
  const nb::object ask = nb::getattr(object, "__dlpack_device__", nb::none());
  if (ask.is_none()) {
    return {};  // older than the question, and of the host then
  }
  const nb::object answer = ask();
  return {.type = nb::cast<int>(nb::int_(answer[0])), .device = nb::cast<int>(nb::int_(answer[1]))};
}

// The capsule, for a version that nanobind knows.
nb::object call_dlpack(nb::handle object, const nb::kwargs& arguments) {
  const nb::object ask = object.attr("__dlpack__");
  try {
    const auto versioned = nb::steal<nb::kwargs>(PyDict_Copy(arguments.ptr()));
    versioned["max_version"] = nb::make_tuple(nb::dlpack::major_version, 0);
    return ask(**versioned);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) {
      throw;
    }
  }
  return ask(**arguments);  // older than versions
}

// The current stream of PyTorch, where it has no C interface to ask.
Stream torch_stream(int device) {
  return stream_of(nb::module_::import_("torch").attr("cuda").attr("current_stream")(device));
}

MemoryView view_by_dlpack(nb::handle object, const ArrayClass& its, const MemoryRequest& request) {
  if (its.may_be_lazy) {
    refuse_lazy(object, request.name);
  }
  nb::object capsule;
  Place place;
  try {
    place = dlpack_place_of(object);
    const auto arguments = nb::steal<nb::kwargs>(PyDict_New());
    if (place.is_cuda() && its.is_torch) {
      arguments["stream"] =
          -1;  // its current stream is the call's, or the program has ordered them
    } else if (place.is_cuda()) {
      const Stream stream = request.stream.value_or(kDefaultStream);
      arguments["stream"] = stream == kDefaultStream ? kDefaultStreamOfProtocols : stream;
    }
    capsule = call_dlpack(object, arguments);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) {
      throw;
    }
    refuse_as_its_library(object, request.name, error);
  }
  MemoryView view = view_array(capsule, object, request);
  if (view.place.is_cuda() && !request.stream) {
    view.stream = ProducerStream(its.is_torch ? torch_stream(view.place.device) : kDefaultStream);
  }
  return view;
}

// What the object has as __cuda_array_interface__, if it has one: tensors in host memory have not,
// though their class has.
nb::object cuda_array_of(nb::handle object) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), names().cuda_array.ptr()));
  if (!found.is_valid()) {
    PyErr_Clear();
    return nb::none();
  }
  return found;
}

MemoryView view_by_class(nb::handle object, const ArrayClass& its, const MemoryRequest& request) {
  if (its.is_numpy) {
    return view_array(object, object, request);
  }
  if (its.exchange != nullptr) {
    std::optional<MemoryView> view = view_by_exchange(object, its, request);
    if (view) {
      return *std::move(view);
    }
  }
  if (its.has_cuda_array && !its.is_torch) {
    const nb::object description = cuda_array_of(object);
    // Where DLPack is there, too, it does better unless this names a stream.
    if (!description.is_none() && (!its.has_dlpack || names_stream(description))) {
      return view_cuda_array(object, description, request);
    }
  }
  if (its.has_dlpack) {
    return view_by_dlpack(object, its, request);
  }
  return view_host_memory(object, request);
}

}  // namespace

std::string Place::text() const {
  if (is_host()) {
    return type == nb::device::cpu::value ? "host memory" : "pinned host memory";
  }
  if (is_cuda()) {
    return device == kAnyDevice ? "memory of a CUDA device"
                                : "memory of cuda:" + std::to_string(device);
  }
  return "memory of a device of DLPack's type " + std::to_string(type);
}

std::size_t MemoryView::count() const {
  std::size_t count = 1;
  for (const std::int64_t length : shape) {
    count *= static_cast<std::size_t>(length);
  }
  return count;
}

MemoryView view_memory(nb::handle object, const MemoryRequest& request) {
  const ArrayClass& its = class_of(object);
  MemoryView view = view_by_class(object, its, request);
  if (request.is_written && its.is_immutable) {
    refuse_writing(request.name);
  }
  return view;
}

bool is_c_contiguous(const std::vector<std::int64_t>& shape, const std::int64_t* strides) {
  if (strides == nullptr) {
    return true;
  }
  std::int64_t expected = 1;
  bool is_in_order = true;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) {
      return true;
    }
    is_in_order = is_in_order && (shape[axis] == 1 || strides[axis] == expected);
    expected *= shape[axis];
  }
  return is_in_order;
}

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

void refuse_strides(const std::string& name, const Place& place) {
  raise(SENNIT_INVALID_ARGUMENT,
        name + " is not C-contiguous; pass " +
            (place.is_host() ? "numpy.ascontiguousarray(" + name + ")"
                             : "a contiguous copy of it (of PyTorch " + name +
                                   ".contiguous(), of CuPy cupy.ascontiguousarray(" + name + "))"));
}

void refuse_writing(const std::string& name) {
  raise(SENNIT_INVALID_ARGUMENT,
        name + " is read-only, but the call writes to it; pass an array that can be written");
}

}  // namespace sennit::python
