#include "operation.hpp"

#include "failures.hpp"

#include <utility>

namespace sennit::pytorch {

Calls::Calls(sennit_comm_t comm,
             void* stream,
             double deadline_s,
             const CallSettings& settings,
             std::vector<sennit_work_t>* works)
    : comm_(comm), stream_(stream), settings_(&settings), works_(works) {
  options_.deadline_s = deadline_s;
}

const sennit_call_options_t* Calls::options() {
  options_.algorithm = settings_->algorithm.empty() ? nullptr : settings_->algorithm.c_str();
  options_.codec = settings_->codec.empty() ? nullptr : settings_->codec.c_str();
  options_.reproducible = settings_->reproducible ? 1 : 0;
  return plain_options();
}

const sennit_call_options_t* Calls::plain_options() {
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
