// OwnComm: a communicator of this rank alone, for what the front end itself does in the MPI. It is
// never freed: callbacks within MPI_Finalize may still wait for requests, whose data is unpacked.
#pragma once

#include "abi.hpp"
#include "functions.hpp"

namespace sennit_mpi {

template <class Abi>
class OwnComm {
 public:
  // After MPI_Init. No copy of MPI_COMM_SELF, whose attributes and error handler are the program's.
  OwnComm(const Abi& abi, const Functions<Abi>& functions) : functions_(functions) {
    typename Abi::Group group{};
    functions_.mpi.comm_group(abi.self(), &group);
    functions_.mpi.comm_create(abi.self(), group, &comm_);
    functions_.mpi.group_free(&group);
    functions_.mpi.comm_set_errhandler(comm_, abi.errors_return());
  }

  [[nodiscard]] typename Abi::Comm get() const { return comm_; }

 private:
  const Functions<Abi>& functions_;
  typename Abi::Comm comm_{};
};

}  // namespace sennit_mpi
