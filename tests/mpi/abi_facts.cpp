// What the front end believes about the MPI that this is compiled with.
#include "../../frontends/mpi/abi.hpp"

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace sennit_mpi {
namespace {

#ifdef OMPI_MPI_H
using Abi = OpenMpi;
#elif defined(MPI_H_ABI)
using Abi = Standard;
#else
using Abi = Mpich;
#endif

int wrong = 0;

void expect(bool is_right, const char* what) {
  if (!is_right) {
    std::printf("%s differs\n", what);
    ++wrong;
  }
}

#define EQUAL(ours, theirs) expect((ours) == (theirs), #theirs)

template <class Ours, class Theirs>
void expect_handle() {
  expect(sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>,
         "a handle");
}

void compare() {
  expect_handle<Abi::Comm, MPI_Comm>();
  expect_handle<Abi::Type, MPI_Datatype>();
  expect_handle<Abi::Op, MPI_Op>();
  expect_handle<Abi::Group, MPI_Group>();
  expect_handle<Abi::Errhandler, MPI_Errhandler>();
  expect_handle<Abi::Message, MPI_Message>();
  expect_handle<Abi::Window, MPI_Win>();
  expect_handle<Abi::File, MPI_File>();
  expect(sizeof(MPI_Aint) == sizeof(std::int64_t), "MPI_Aint");
  expect(sizeof(MPI_Offset) == sizeof(std::int64_t), "MPI_Offset");
  expect(sizeof(MPI_Count) == sizeof(std::int64_t), "MPI_Count");
  EQUAL(Abi::kErrCount, MPI_ERR_COUNT);
  EQUAL(Abi::kErrTruncate, MPI_ERR_TRUNCATE);
  EQUAL(Abi::kErrOther, MPI_ERR_OTHER);
  EQUAL(Abi::kRoot, MPI_ROOT);
  EQUAL(0, MPI_THREAD_SINGLE);
  EQUAL(Abi::kAnySource, MPI_ANY_SOURCE);
  EQUAL(Abi::kUndefined, MPI_UNDEFINED);
  EQUAL(Abi::kCart, MPI_CART);
  EQUAL(Abi::kGraph, MPI_GRAPH);
  EQUAL(Abi::kDistGraph, MPI_DIST_GRAPH);
  EQUAL(Abi::kCombinerNamed, MPI_COMBINER_NAMED);
  EQUAL(Abi::kCombinerDup, MPI_COMBINER_DUP);
  EQUAL(Abi::kCombinerContiguous, MPI_COMBINER_CONTIGUOUS);
  EQUAL(Abi::kCombinerResized, MPI_COMBINER_RESIZED);
  EQUAL(Abi::in_place(), MPI_IN_PLACE);
  EQUAL(Abi::status_ignore(), MPI_STATUS_IGNORE);
#ifdef OMPI_MPI_H
#define SENNIT_MPI_TYPE(name, number, standard, symbol, kind) \
  expect(static_cast<void*>(MPI_##name) == static_cast<void*>(&symbol), #name);
#define SENNIT_MPI_OP(name, number, standard, symbol, ...) \
  expect(static_cast<void*>(MPI_##name) == static_cast<void*>(&symbol), #name);
#elif defined(MPI_H_ABI)
#define SENNIT_MPI_NUMBER(ours, theirs) \
  expect((ours) == reinterpret_cast<std::intptr_t>(theirs), #theirs)
#define SENNIT_MPI_TYPE(name, number, standard, symbol, kind) \
  SENNIT_MPI_NUMBER(standard, MPI_##name);
#define SENNIT_MPI_OP(name, number, standard, symbol, ...) SENNIT_MPI_NUMBER(standard, MPI_##name);
  SENNIT_MPI_NUMBER(Abi::kCommNull, MPI_COMM_NULL);
  SENNIT_MPI_NUMBER(Abi::kTypeNull, MPI_DATATYPE_NULL);
  SENNIT_MPI_NUMBER(Abi::kRequestNull, MPI_REQUEST_NULL);
  SENNIT_MPI_NUMBER(Abi::kWorld, MPI_COMM_WORLD);
  SENNIT_MPI_NUMBER(Abi::kSelf, MPI_COMM_SELF);
  SENNIT_MPI_NUMBER(Abi::kByte, MPI_BYTE);
  SENNIT_MPI_NUMBER(Abi::kInt, MPI_INT);
  SENNIT_MPI_NUMBER(Abi::kMin, MPI_MIN);
  SENNIT_MPI_NUMBER(Abi::kErrorsReturn, MPI_ERRORS_RETURN);
#else
#define SENNIT_MPI_TYPE(name, number, standard, symbol, kind) \
  expect(MPI_##name == static_cast<int>(number), #name);
#define SENNIT_MPI_OP(name, number, standard, symbol, ...) \
  expect(MPI_##name == static_cast<int>(number), #name);
  EQUAL(Abi::kCommNull, MPI_COMM_NULL);
  EQUAL(Abi::kTypeNull, MPI_DATATYPE_NULL);
  EQUAL(Abi::kRequestNull, MPI_REQUEST_NULL);
  EQUAL(Abi::kWorld, MPI_COMM_WORLD);
  EQUAL(Abi::kSelf, MPI_COMM_SELF);
  EQUAL(Abi::kByte, MPI_BYTE);
  EQUAL(Abi::kInt, MPI_INT);
  EQUAL(Abi::kMin, MPI_MIN);
  EQUAL(Abi::kErrorsReturn, MPI_ERRORS_RETURN);
  EQUAL(kMpichStreamNull, MPIX_STREAM_NULL);
#endif
  EQUAL(Abi::kStatusBytes, sizeof(MPI_Status));
#define SENNIT_MPI_PLACE_OP SENNIT_MPI_OP
#define SENNIT_MPI_NO_OP SENNIT_MPI_OP
#include "../../frontends/mpi/predefined.def"
}

}  // namespace
}  // namespace sennit_mpi

int main() {
  sennit_mpi::compare();
  return sennit_mpi::wrong == 0 ? 0 : 1;
}
