#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <span>

namespace sennit::stream {

Status walk(CudaDriver& driver, const std::vector<WordStep>& steps, void* stream) {
  for (std::size_t at = 0; at < steps.size(); at += kMaxWordSteps) {
    const std::size_t count = std::min(kMaxWordSteps, steps.size() - at);
    SENNIT_RETURN_IF_ERROR(driver.walk_words(std::span(steps).subspan(at, count), stream));
  }
  return {};
}

}  // namespace sennit::stream
