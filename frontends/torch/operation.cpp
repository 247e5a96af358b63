#include "operation.hpp"

#include "failures.hpp"

#include <utility>

namespace sennit::pytorch {

Calls::Calls(sennit_comm_t comm,
             void* stream,
             double deadline_s,
             std::vector<sennit_work_t>* works,
             SharedSettings settings)
    : comm_(comm), stream_(stream), works_(works), settings_(std::move(settings)) {
  options_.deadline_s = deadline_s;
  if (settings_) {
    apply(*settings_, options_);
  }
}

const sennit_call_options_t* Calls::options(int tag) {
  options_.tag = tag;
  if (works_ != nullptr) {
    options_.work = &works_->emplace_back(nullptr);
  }
  return &options_;
}

CallGroup::CallGroup(std::size_t calls) : is_open_(calls > 1) {
  if (is_open_) {
    check(sennit_group_start());
  }
}

CallGroup::~CallGroup() {
  if (is_open_) {
    sennit_group_end();
  }
}

void CallGroup::end() {
  if (std::exchange(is_open_, false)) {
    check(sennit_group_end());
  }
}

}  // namespace sennit::pytorch
