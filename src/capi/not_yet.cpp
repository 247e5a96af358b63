// Functions of the C ABI that have their final form, but no implementation yet. Each refuses by
// name.
#include "capi/guard.hpp"

namespace sennit {
namespace {

sennit_status_t unsupported(const char* function) {
  return guard([&]() -> Status {
    return fail(Code::kUnsupported, "{} is not available in this version of Sennit", function);
  });
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_all_gather_v(const void* /*send*/,
                                    size_t /*send_count*/,
                                    void* /*recv*/,
                                    const size_t* /*recv_counts*/,
                                    const size_t* /*recv_displacements*/,
                                    sennit_dtype_t /*dtype*/,
                                    sennit_comm_t /*comm*/,
                                    void* /*stream*/,
                                    const sennit_call_options_t* /*options*/) {
  return unsupported("sennit_all_gather_v");
}

sennit_status_t sennit_all_to_all_v(const void* /*send*/,
                                    const size_t* /*send_counts*/,
                                    const size_t* /*send_displacements*/,
                                    void* /*recv*/,
                                    const size_t* /*recv_counts*/,
                                    const size_t* /*recv_displacements*/,
                                    sennit_dtype_t /*dtype*/,
                                    sennit_comm_t /*comm*/,
                                    void* /*stream*/,
                                    const sennit_call_options_t* /*options*/) {
  return unsupported("sennit_all_to_all_v");
}

sennit_status_t sennit_gather_v(const void* /*send*/,
                                size_t /*send_count*/,
                                void* /*recv*/,
                                const size_t* /*recv_counts*/,
                                const size_t* /*recv_displacements*/,
                                sennit_dtype_t /*dtype*/,
                                int /*root*/,
                                sennit_comm_t /*comm*/,
                                void* /*stream*/,
                                const sennit_call_options_t* /*options*/) {
  return unsupported("sennit_gather_v");
}

sennit_status_t sennit_scatter_v(const void* /*send*/,
                                 const size_t* /*send_counts*/,
                                 const size_t* /*send_displacements*/,
                                 void* /*recv*/,
                                 size_t /*recv_count*/,
                                 sennit_dtype_t /*dtype*/,
                                 int /*root*/,
                                 sennit_comm_t /*comm*/,
                                 void* /*stream*/,
                                 const sennit_call_options_t* /*options*/) {
  return unsupported("sennit_scatter_v");
}

}  // extern "C"
