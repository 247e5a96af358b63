// For tests: operation lists as the queue check reads them.
#pragma once

#include "exec/stream/operation_list.hpp"
#include "verify/queues.hpp"

#include <functional>
#include <string>
#include <vector>

namespace sennit::stream {

// What the caller's kernels wait for and signal, in their order.
using KernelSteps = std::function<std::vector<StreamStep>()>;

// Appends the operations of one rank. Words that hosts alone read are no flags.
void append_steps(const OperationList& list,
                  IssuedSteps& issued,
                  const KernelSteps& kernels = nullptr);

// As append_steps() numbers them.
std::string flag_name(std::int64_t flag);

}  // namespace sennit::stream
