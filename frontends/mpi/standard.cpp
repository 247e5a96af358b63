// The front end for MPIs of the standard ABI.
#include "table.hpp"  // IWYU pragma: keep

namespace sennit_mpi {

template void start_front<Standard>(Library library, Settings settings);
template void* function_named<Standard>(const std::string& name);

}  // namespace sennit_mpi
