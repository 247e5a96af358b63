// What every call of the C ABI comes to.
#pragma once

#include "sennit/sennit.h"
#include "world/operation.hpp"

namespace sennit {

// One call: into this thread's open group, or made now; waited for unless the caller took a work.
// `operation` may be what was wrong with the arguments.
Status make_call(Result<Operation>&& operation,
                 sennit_comm_t comm,
                 void* stream,
                 const sennit_call_options_t* options);

}  // namespace sennit
