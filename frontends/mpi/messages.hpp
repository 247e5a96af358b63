// Messages: what the MPI carries, with shadows in the place of buffers in GPU memory.
#pragma once

#include "calls.hpp"
#include "device_roles.hpp"
#include "shadows.hpp"

#include <cstddef>
#include <optional>
#include <utility>

namespace sennit_mpi {

template <class Abi, class N, class D>
struct Messages {
  using Of = Calls<Abi, N, D>;
  using Roles = DeviceRoles<Abi, N, D>;
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Request = typename Abi::Request;

#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries)
#define SENNIT_MPI_MESSAGE(name, stem, form, parameters, arguments) \
  static int stem parameters {                                      \
    return Of::front().guard_message(comm, [&] {                    \
      const auto pass = [&] {                                       \
        return Of::pass_on(                                         \
            Of::same_width().stem,                                  \
            Of::front().functions.plain.stem,                       \
            [] { return std::size_t{0}; },                          \
            comm,                                                   \
            SENNIT_MPI_LIST arguments);                             \
      };                                                            \
      return form;                                                  \
    });                                                             \
  }
#define SENNIT_MPI_OTHER(name, stem, parameters)
#include "calls.def"

 private:
  static bool are_needed(const std::optional<Shadows<Abi>>& made) {
    return made && made->are_needed();
  }
  static void copy_in(Shadows<Abi>& made) {
    Of::front().share.copy();
    made.copy_in();
  }

  template <class Pass>
  static int sends(const Pass& pass, const void*& buffer, N count, Type type) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(buffer).reads(Roles::part_of(buffer, 0, count, type));
    }
    if (are_needed(made)) {
      copy_in(*made);
    }
    return pass();
  }
  template <class Pass>
  static int begins_send(
      const Pass& pass, const void*& buffer, N count, Type type, Comm comm, Request* request) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(buffer).reads(Roles::part_of(buffer, 0, count, type));
    }
    return begins(pass, std::move(made), comm, request);
  }
  template <class Pass>
  static int begins_receive(
      const Pass& pass, void*& buffer, N count, Type type, Comm comm, Request* request) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(buffer).writes(Roles::part_of(buffer, 0, count, type));
    }
    return begins(pass, std::move(made), comm, request);
  }
  template <class Pass>
  static int begins(const Pass& pass,
                    std::optional<Shadows<Abi>> made,
                    Comm comm,
                    Request* request) {
    if (!are_needed(made)) {
      return pass();
    }
    if (!Of::front().running()->requests.can_run()) {
      return Of::front().refuse_device_memory(comm);
    }
    copy_in(*made);
    const int code = pass();
    return code == 0 ? Of::front().follow(comm, std::move(*made), FollowedCall::kMessage, request)
                     : code;
  }
  // Persistent messages are refused: their request would be a receive of ours, whose status is that
  // of our own message.
  template <class Pass, class Pointer>
  static int refuses_or_makes(const Pass& pass, Pointer& buffer, N count, Type type, Comm comm) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(buffer).reads(Roles::part_of(buffer, 0, count, type));
    }
    return are_needed(made) ? Of::front().refuse_device_memory(comm) : pass();
  }
  template <class Pass>
  static int receives(const Pass& pass, void*& buffer, N count, Type type, void*& status) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(buffer).writes(Roles::part_of(buffer, 0, count, type));
    }
    return runs_and_copies_back(pass, std::move(made), status);
  }
  template <class Pass>
  static int exchanges(const Pass& pass,
                       const void*& send,
                       N send_count,
                       Type send_type,
                       void*& recv,
                       N recv_count,
                       Type recv_type,
                       void*& status) {
    auto made = Of::shadows_of_process();
    if (made) {
      made->of(send).reads(Roles::part_of(send, 0, send_count, send_type));
      made->of(recv).writes(Roles::part_of(recv, 0, recv_count, recv_type));
    }
    return runs_and_copies_back(pass, std::move(made), status);
  }
  template <class Pass>
  static int replaces(const Pass& pass, void*& buffer, N count, Type type, void*& status) {
    auto made = Of::shadows_of_process();
    if (made) {
      const Elements<Abi> elements = Roles::part_of(buffer, 0, count, type);
      made->of(buffer).reads(elements).writes(elements);
    }
    return runs_and_copies_back(pass, std::move(made), status);
  }
  // What has come goes to its place, and no more: a message may be shorter than its buffer.
  template <class Pass>
  static int runs_and_copies_back(const Pass& pass,
                                  std::optional<Shadows<Abi>> made,
                                  void*& status) {
    if (!are_needed(made)) {
      return pass();
    }
    Status<Abi> own;
    if (status == Abi::status_ignore()) {
      status = own.data();
    }
    copy_in(*made);
    const int code = pass();
    if (code == 0) {
      made->copy_out(bytes_of(Of::front().functions, Of::front().abi.byte(), status));
    }
    return code;
  }
};

}  // namespace sennit_mpi
