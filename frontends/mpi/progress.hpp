// Progress: lets the MPI move its messages while a rank is in a call of the library. Others may
// wait for these messages before they come to the call.
#pragma once

#include "abi.hpp"
#include "functions.hpp"
#include "library.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>

namespace sennit_mpi {

// So long a rank waits in a call before the MPI moves its messages: most calls end sooner.
inline constexpr std::chrono::microseconds kBeforeProgress{20};

template <class Abi>
class Progress {
 public:
  // After MPI_Init. `probed` has other ranks: to look for a message of theirs is what all MPIs take
  // as a reason to progress, while MPICH looks for this rank's own without.
  Progress(const Library& library, const Functions<Abi>& functions, typename Abi::Comm probed)
      : functions_(functions),
        of_openmpi_(reinterpret_cast<OfOpenMpi>(library.function("opal_progress"))),
        of_mpich_(reinterpret_cast<OfMpich>(library.function("MPIX_Stream_progress"))),
        probed_(probed),
        counts_events_(of_openmpi_ != nullptr && is_openmpi_5()) {}

  // True: something moved. False says nothing with MPIs that do not count events.
  bool poke() const {
    if (of_openmpi_ != nullptr) {
      const int events = of_openmpi_();
      return counts_events_ && events > 0;
    }
    if (of_mpich_ != nullptr) {
      of_mpich_(kMpichStreamNull);
    } else {
      int flag = 0;
      functions_.mpi.iprobe(Abi::kAnySource, kTag, probed_, &flag, Abi::status_ignore());
    }
    return false;
  }

  // In a loop that waits for another thread, which needs a core as well.
  void poke_or_rest() const {
    if (!poke()) {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }

 private:
  static constexpr std::chrono::microseconds kBetweenLooks{50};
  using OfOpenMpi = int (*)();
  using OfMpich = int (*)(int stream);
  // The largest that every MPI has, so hardly of a program. Its messages stay where they are.
  static constexpr int kTag = 32767;

  // Open MPI 4 has the function as well, without a result.
  [[nodiscard]] bool is_openmpi_5() const {
    constexpr std::string_view kName = "Open MPI v";
    constexpr std::size_t kMostText = 8192;  // MPICH's limit, the largest
    std::array<char, kMostText> text{};
    int length = 0;
    functions_.mpi.get_library_version(text.data(), &length);
    std::string_view version(text.data());
    if (!version.starts_with(kName)) {
      return false;
    }
    version.remove_prefix(kName.size());
    int major = 0;
    std::from_chars(version.data(), version.data() + version.size(), major);
    return major >= 5;
  }

  const Functions<Abi>& functions_;
  OfOpenMpi of_openmpi_;
  OfMpich of_mpich_;
  typename Abi::Comm probed_;
  bool counts_events_;
};

}  // namespace sennit_mpi
