// Where UCX's headers are missing when Sennit is built.
#include "drivers/ucx/ucx.hpp"

namespace sennit {

Result<UcxDriver*> ucx_of_this_machine() {
  return fail(Code::kUnsupported,
              "this Sennit was built without UCX's headers, so it has no rails; install libucx-dev "
              "or run `make deps`, and build it again");
}

}  // namespace sennit
