// Progress: lets the MPI move its messages while a rank is in a call of the library. Others may
// wait for these messages before they come to the call.
#pragma once

#include "abi.hpp"
#include "functions.hpp"
#include "library.hpp"

#include <cstdint>

namespace sennit_mpi {

template <class Abi>
class Progress {
 public:
  // After MPI_Init.
  Progress(const Abi& abi, const Library& library, const Functions<Abi>& functions)
      : functions_(functions),
        of_openmpi_(reinterpret_cast<OfOpenMpi>(library.function("opal_progress"))),
        of_mpich_(reinterpret_cast<OfMpich>(library.function("MPIX_Stream_progress"))) {
    if (of_openmpi_ == nullptr && of_mpich_ == nullptr) {
      // No message ever comes on it; to look for one is what all MPIs take as a reason to progress.
      functions_.mpi.comm_dup(abi.self(), &probed_);
    }
  }

  void poke() const {
    if (of_openmpi_ != nullptr) {
      of_openmpi_();
    } else if (of_mpich_ != nullptr) {
      of_mpich_(kStreamNull);
    } else {
      int flag = 0;
      functions_.mpi.iprobe(Abi::kAnySource, Abi::kAnyTag, probed_, &flag, Abi::status_ignore());
    }
  }
  void finish() {
    if (of_openmpi_ == nullptr && of_mpich_ == nullptr) {
      functions_.mpi.comm_free(&probed_);
    }
  }

 private:
  using OfOpenMpi = int (*)();
  using OfMpich = int (*)(int stream);
  static constexpr int kStreamNull = 0x3c000000;  // MPIX_STREAM_NULL: all of them

  const Functions<Abi>& functions_;
  OfOpenMpi of_openmpi_;
  OfMpich of_mpich_;
  typename Abi::Comm probed_{};
};

}  // namespace sennit_mpi
