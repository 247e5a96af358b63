// The front end for MPIs of MPICH's ABI.
#include "table.hpp"  // IWYU pragma: keep

namespace sennit_mpi {

template void start_front<Mpich>(Library library, Settings settings);
template void* function_named<Mpich>(const std::string& name);

}  // namespace sennit_mpi
