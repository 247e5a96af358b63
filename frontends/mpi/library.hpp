// Library: the MPI of this process, as the loader has it.
#pragma once

#include <string>

namespace sennit_mpi {

class Library {
 public:
  // The object in this process that defines PMPI_Init and is not ours. Programs link it, or load it
  // at run time and out of everybody's sight, as Python does. Ends the process where there is none:
  // somebody called an MPI function, so there has to be one.
  static Library find();

  // A function of the MPI or of what it needs; null where there is none.
  [[nodiscard]] void* function(const std::string& name) const;
  // An object, in the program's copy where its executable has one.
  [[nodiscard]] void* object(const std::string& name) const;
  // The MPI_X between the program and this library: of a profiler, which calls PMPI_X in turn. Null
  // where there is none.
  [[nodiscard]] void* profiler(const std::string& name) const;

 private:
  Library(void* handle, const void* base) : handle_(handle), base_(base) {}

  void* handle_;
  const void* base_;
};

}  // namespace sennit_mpi
