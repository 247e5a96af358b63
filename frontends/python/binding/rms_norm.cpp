#include "rms_norm.hpp"

#include "dtypes.hpp"
#include "errors.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <string>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

void require(const Buffer* buffer, std::size_t count, sennit_dtype_t dtype, int device) {
  if (buffer == nullptr) {
    return;
  }
  require_place(*buffer, device);
  if (buffer->count() != count || buffer->dtype() != dtype) {
    raise(SENNIT_INVALID_ARGUMENT,
          buffer->name() + " of rms_norm has " + std::to_string(buffer->count()) + " elements of " +
              name_of(buffer->dtype()) + ", not " + std::to_string(count) + " of " +
              name_of(dtype));
  }
}

void* data_of(const Buffer* buffer) { return buffer == nullptr ? nullptr : buffer->data(); }

}  // namespace

void RmsNorm::require_fit(const Buffer& out, int device) const {
  require(residual.get(), out.count(), out.dtype(), device);
  require(weight.get(), row_elements, out.dtype(), device);
  require(quantized.get(), out.count(), SENNIT_FLOAT8_E4M3FN, device);
  require(scale.get(), 1, SENNIT_FLOAT32, device);
}

sennit_rms_norm_t RmsNorm::in_c() const {
  sennit_rms_norm_t norm = SENNIT_RMS_NORM_INITIALIZER;
  norm.row_elements = row_elements;
  norm.epsilon = epsilon;
  norm.residual = data_of(residual.get());
  norm.weight = data_of(weight.get());
  norm.quantized = data_of(quantized.get());
  norm.scale = static_cast<const float*>(data_of(scale.get()));
  return norm;
}

void bind_rms_norm(nb::module_& module) {
  using Given = std::shared_ptr<const Buffer>;
  nb::class_<RmsNorm>(module, "RmsNorm")
      .def(
          "__init__",
          [](RmsNorm* self,
             std::size_t row_elements,
             double epsilon,
             Given residual,
             Given weight,
             Given quantized,
             Given scale) {
            new (self) RmsNorm{row_elements,
                               epsilon,
                               std::move(residual),
                               std::move(weight),
                               std::move(quantized),
                               std::move(scale)};
          },
          nb::arg("row_elements"),
          nb::arg("epsilon"),
          nb::arg("residual").none(),
          nb::arg("weight").none(),
          nb::arg("quantized").none(),
          nb::arg("scale").none());
}

}  // namespace sennit::python
