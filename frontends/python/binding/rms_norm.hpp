// What an all_reduce goes on to do with its sum: sennit_rms_norm_t, with the buffers it names.
#pragma once

#include "buffer.hpp"

#include "sennit/sennit.h"

#include <cstddef>
#include <memory>

namespace sennit::python {

struct RmsNorm {
  std::size_t row_elements = 0;
  double epsilon = 0;
  std::shared_ptr<const Buffer> residual{};  // null: none, as the others
  std::shared_ptr<const Buffer> weight{};
  std::shared_ptr<const Buffer> quantized{};
  std::shared_ptr<const Buffer> scale{};

  // Raises InvalidArgument where a buffer does not suit a call with this output on this device.
  void require_fit(const Buffer& out, int device) const;
  // Points into this object.
  [[nodiscard]] sennit_rms_norm_t in_c() const;
};

void bind_rms_norm(nanobind::module_& module);

}  // namespace sennit::python
