// The front end for Open MPI.
#include "table.hpp"  // IWYU pragma: keep

namespace sennit_mpi {

template void start_front<OpenMpi>(Library library, Settings settings);
template void* function_named<OpenMpi>(const std::string& name);

}  // namespace sennit_mpi
