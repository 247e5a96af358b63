// No exception leaves for the program or the MPI, which are in C.
#pragma once

#include <exception>
#include <new>

namespace sennit_mpi {

// `run`, and what was thrown in it to `report`, whose result it then has.
template <typename Run, typename Report>
auto guarded(Run&& run, Report&& report) -> decltype(run()) {
  try {
    return run();
  } catch (const std::bad_alloc& /*thrown*/) {
    return report("out of memory");
  } catch (const std::exception& thrown) {
    return report(thrown.what());
  } catch (...) {
    return report("an unknown exception");
  }
}

// Of a callback that the MPI calls, where nothing can be reported: 0, or 1 if something was thrown.
template <typename Run>
int guarded_callback(Run&& run) {
  return guarded(
      [&] {
        run();
        return 0;
      },
      [](const char* /*what*/) { return 1; });
}

}  // namespace sennit_mpi
