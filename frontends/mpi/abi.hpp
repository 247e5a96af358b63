// The binary interfaces of MPIs: what a handle is, and the values that programs were compiled with.
// A test compares them with the mpi.h of each MPI that is there.
#pragma once

#include "library.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit_mpi {

// Of MPICH's extensions: all streams.
constexpr int kMpichStreamNull = 0x3c000000;

// The copy callback of attributes that belong to one object alone.
template <class Handle>
int never_copied(
    Handle /*object*/, int /*key*/, void* /*extra*/, void* /*from*/, void* /*to*/, int* flag) {
  *flag = 0;
  return 0;
}

// MPICH, Intel MPI and others of one ABI: handles are numbers.
struct Mpich {
  using Comm = int;
  using Type = int;
  using Op = int;
  using Group = int;
  using Errhandler = int;
  using Request = int;
  using Info = int;
  using Message = int;
  using Window = int;
  using File = void*;

  static constexpr Comm kCommNull = 0x04000000;
  static constexpr Request kRequestNull = 0x2c000000;
  static constexpr Type kTypeNull = 0x0c000000;
  static constexpr Comm kWorld = 0x44000000;
  static constexpr Comm kSelf = 0x44000001;
  static constexpr Type kByte = 0x4c00010d;
  static constexpr Type kInt = 0x4c000405;
  static constexpr Op kMin = 0x58000002;
  static constexpr Errhandler kErrorsReturn = 0x54000001;
  static constexpr std::size_t kStatusBytes = 20;
  static constexpr int kErrCount = 2;
  static constexpr int kErrTruncate = 14;
  static constexpr int kErrOther = 15;
  static constexpr int kRoot = -3;
  static constexpr int kAnySource = -2;
  static constexpr int kUndefined = -32766;
  static constexpr int kCart = 2;
  static constexpr int kGraph = 1;
  static constexpr int kDistGraph = 3;
  static constexpr int kCombinerNamed = 1;
  static constexpr int kCombinerDup = 2;
  static constexpr int kCombinerContiguous = 3;
  static constexpr int kCombinerResized = 18;
  static const void* in_place() { return reinterpret_cast<const void*>(std::intptr_t{-1}); }
  static void* status_ignore() { return reinterpret_cast<void*>(std::intptr_t{1}); }

  explicit Mpich(const Library& /*library*/) {}
  // NOLINTBEGIN(readability-convert-member-functions-to-static): another ABI has to look them up
  [[nodiscard]] Comm world() const { return kWorld; }
  [[nodiscard]] Comm self() const { return kSelf; }
  [[nodiscard]] Type byte() const { return kByte; }
  [[nodiscard]] Type integer() const { return kInt; }
  [[nodiscard]] Op min() const { return kMin; }
  [[nodiscard]] Errhandler errors_return() const { return kErrorsReturn; }
  [[nodiscard]] Comm comm_null() const { return kCommNull; }
  [[nodiscard]] Type type_null() const { return kTypeNull; }
  [[nodiscard]] Request request_null() const { return kRequestNull; }
  template <typename Handle>
  [[nodiscard]] Handle predefined(const Library& /*library*/,
                                  int number,
                                  int /*standard*/,
                                  const char* /*symbol*/) const {
    return number;
  }
  // NOLINTEND(readability-convert-member-functions-to-static)
  // The bytes of a predefined type that has no gaps, which its handle says; 0: it does not say. An
  // MPI that is older than the type ends the process when it is asked (LOGICAL8 came with MPICH
  // 4.1).
  static std::int64_t bytes_in(Type type) {
    constexpr int kBuiltIn = 0x4c;
    return (type >> 24) == kBuiltIn ? (type >> 8) & 0xff : 0;
  }
};

// Open MPI 4 and 5: handles are addresses of its objects.
struct OpenMpi {
  using Comm = void*;
  using Type = void*;
  using Op = void*;
  using Group = void*;
  using Errhandler = void*;
  using Request = void*;
  using Info = void*;
  using Message = void*;
  using Window = void*;
  using File = void*;

  static constexpr std::size_t kStatusBytes = 24;
  static constexpr int kErrCount = 2;
  static constexpr int kErrTruncate = 15;
  static constexpr int kErrOther = 16;
  static constexpr int kRoot = -4;
  static constexpr int kAnySource = -1;
  static constexpr int kUndefined = -32766;
  static constexpr int kCart = 1;
  static constexpr int kGraph = 2;
  static constexpr int kDistGraph = 3;
  static constexpr int kCombinerNamed = 0;
  static constexpr int kCombinerDup = 1;
  static constexpr int kCombinerContiguous = 2;
  static constexpr int kCombinerResized = 17;
  static const void* in_place() { return reinterpret_cast<const void*>(std::intptr_t{1}); }
  static void* status_ignore() { return nullptr; }

  explicit OpenMpi(const Library& library)
      : world_(library.object("ompi_mpi_comm_world")),
        self_(library.object("ompi_mpi_comm_self")),
        byte_(library.object("ompi_mpi_byte")),
        integer_(library.object("ompi_mpi_int")),
        min_(library.object("ompi_mpi_op_min")),
        errors_return_(library.object("ompi_mpi_errors_return")),
        comm_null_(library.object("ompi_mpi_comm_null")),
        type_null_(library.object("ompi_mpi_datatype_null")),
        request_null_(library.object("ompi_request_null")) {}
  [[nodiscard]] Comm world() const { return world_; }
  [[nodiscard]] Comm self() const { return self_; }
  [[nodiscard]] Type byte() const { return byte_; }
  [[nodiscard]] Type integer() const { return integer_; }
  [[nodiscard]] Op min() const { return min_; }
  [[nodiscard]] Errhandler errors_return() const { return errors_return_; }
  [[nodiscard]] Comm comm_null() const { return comm_null_; }
  [[nodiscard]] Type type_null() const { return type_null_; }
  [[nodiscard]] Request request_null() const { return request_null_; }
  template <typename Handle>
  [[nodiscard]] Handle predefined(const Library& library,
                                  int /*number*/,
                                  int /*standard*/,
                                  const char* symbol) const {
    return library.object(symbol);
  }
  static std::int64_t bytes_in(Type /*type*/) { return 0; }

 private:
  void* world_;
  void* self_;
  void* byte_;
  void* integer_;
  void* min_;
  void* errors_return_;
  void* comm_null_;
  void* type_null_;
  void* request_null_;
};

// The standard ABI of MPI 5: handles are numbers as wide as pointers.
struct Standard {
  using Comm = void*;
  using Type = void*;
  using Op = void*;
  using Group = void*;
  using Errhandler = void*;
  using Request = void*;
  using Info = void*;
  using Message = void*;
  using Window = void*;
  using File = void*;

  static constexpr std::size_t kStatusBytes = 32;
  static constexpr int kErrCount = 2;
  static constexpr int kErrTruncate = 15;
  static constexpr int kErrOther = 16;
  static constexpr int kRoot = -4;
  static constexpr int kAnySource = -1;
  static constexpr int kUndefined = -32766;
  static constexpr int kCart = 211;
  static constexpr int kGraph = 212;
  static constexpr int kDistGraph = 213;
  static constexpr int kCombinerNamed = 101;
  static constexpr int kCombinerDup = 102;
  static constexpr int kCombinerContiguous = 103;
  static constexpr int kCombinerResized = 116;
  static constexpr std::intptr_t kCommNull = 0x100;
  static constexpr std::intptr_t kWorld = 0x101;
  static constexpr std::intptr_t kSelf = 0x102;
  static constexpr std::intptr_t kErrorsReturn = 0x143;
  static constexpr std::intptr_t kTypeNull = 0x200;
  static constexpr std::intptr_t kRequestNull = 0x180;
  static constexpr std::intptr_t kInt = 0x209;
  static constexpr std::intptr_t kByte = 0x247;
  static constexpr std::intptr_t kMin = 0x22;
  static const void* in_place() { return handle(1); }
  static void* status_ignore() { return nullptr; }

  explicit Standard(const Library& /*library*/) {}
  // NOLINTBEGIN(readability-convert-member-functions-to-static): another ABI has to look them up
  [[nodiscard]] Comm world() const { return handle(kWorld); }
  [[nodiscard]] Comm self() const { return handle(kSelf); }
  [[nodiscard]] Type byte() const { return handle(kByte); }
  [[nodiscard]] Type integer() const { return handle(kInt); }
  [[nodiscard]] Op min() const { return handle(kMin); }
  [[nodiscard]] Errhandler errors_return() const { return handle(kErrorsReturn); }
  [[nodiscard]] Comm comm_null() const { return handle(kCommNull); }
  [[nodiscard]] Type type_null() const { return handle(kTypeNull); }
  [[nodiscard]] Request request_null() const { return handle(kRequestNull); }
  template <typename Handle>
  [[nodiscard]] Handle predefined(const Library& /*library*/,
                                  int /*number*/,
                                  int standard,
                                  const char* /*symbol*/) const {
    return handle(standard);
  }
  // NOLINTEND(readability-convert-member-functions-to-static)
  static std::int64_t bytes_in(Type /*type*/) { return 0; }

 private:
  static void* handle(std::intptr_t value) { return reinterpret_cast<void*>(value); }
};

}  // namespace sennit_mpi
