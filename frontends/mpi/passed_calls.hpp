// PassedCalls: what the MPI runs, with shadows in the place of buffers in GPU memory. Calls that
// keep their buffers when they have returned, and do not say when they no longer need them, are
// refused.
#pragma once

#include "calls.hpp"
#include "device_roles.hpp"
#include "shadows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace sennit_mpi {

template <class Pass, class Raise>
struct PassedCall {
  const char* name;
  Raise raise;
  Pass pass;
};
template <class Pass, class Raise>
PassedCall(const char*, Raise, Pass) -> PassedCall<Pass, Raise>;

template <class Abi, class N, class D>
struct PassedCalls {
  using Of = Calls<Abi, N, D>;
  using Roles = DeviceRoles<Abi, N, D>;
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;
  using Request = typename Abi::Request;
  using Info = typename Abi::Info;
  using Message = typename Abi::Message;
  using Window = typename Abi::Window;
  using File = typename Abi::File;

#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries)
#define SENNIT_MPI_PASSED(name, stem, form, errors, parameters, arguments) \
  static int stem parameters {                                             \
    const PassedCall call{"MPI_" #name, Of::front().errors, [&] {          \
                            return Of::pass_on(                            \
                                Of::same_width().stem,                     \
                                Of::front().functions.plain.stem,          \
                                [] { return ArrayLengths(0); },            \
                                Of::front().errors,                        \
                                SENNIT_MPI_LIST arguments);                \
                          }};                                              \
    return Of::front().guard_alone(call.raise, [&] { return form; });      \
  }
#define SENNIT_MPI_OTHER(name, stem, parameters)
#include "calls.def"

 private:
  friend struct NeighbourCalls<Abi, N, D>;

  static constexpr const char* kUseHostMemory = "use host memory";

  static Elements<Abi> part(const void* buffer, std::int64_t count, Type type) {
    return Roles::part_of(buffer, 0, count, type);
  }
  // What `describe` says of the call; nothing: no buffer of it is in GPU memory.
  template <class Describe>
  static std::optional<Shadows<Abi>> shadows_by(Describe&& describe) {
    auto made = Of::shadows_of_process();
    if (made) {
      describe(*made);
      if (!made->are_needed()) {
        made.reset();
      }
    }
    return made;
  }
  static void copy_in(Shadows<Abi>& made) {
    Of::front().share.copy();
    made.copy_in();
  }

  template <class Call, class Describe>
  static int runs(const Call& call, Describe&& describe) {
    auto made = shadows_by(describe);
    if (!made) {
      return call.pass();
    }
    copy_in(*made);
    const int code = call.pass();
    if (code == 0) {
      made->copy_out();
    }
    return code;
  }
  // What has come goes to its place, and no more: a message may be shorter than its buffer.
  template <class Call, class Describe>
  static int runs(const Call& call, Describe&& describe, void*& status) {
    auto made = shadows_by(describe);
    if (!made) {
      return call.pass();
    }
    Status<Abi> own;
    if (status == Abi::status_ignore()) {
      status = own.data();
    }
    copy_in(*made);
    const int code = call.pass();
    if (code == 0) {
      made->copy_out(bytes_of(Of::front().functions, Of::front().abi.byte(), status));
    }
    return code;
  }
  template <class Call, class Describe>
  static int begins(const Call& call, Describe&& describe, Request* request, RequestKind kind) {
    auto made = shadows_by(describe);
    if (!made) {
      return call.pass();
    }
    if (!Of::front().running()->requests.can_run()) {
      return Of::front().refuse_device_memory(
          call.raise, call.name, "use its blocking form, or host memory");
    }
    copy_in(*made);
    const int code = call.pass();
    return code == 0 ? Of::front().follow(call.raise, std::move(*made), kind, request) : code;
  }

  template <class Call>
  static int sends(const Call& call, const void*& buffer, N count, Type type) {
    return runs(call, [&](auto& made) { made.of(buffer).reads(part(buffer, count, type)); });
  }
  template <class Call>
  static int receives(const Call& call, void*& buffer, N count, Type type, void*& status) {
    return runs(
        call, [&](auto& made) { made.of(buffer).writes(part(buffer, count, type)); }, status);
  }
  template <class Call>
  static int begins_send(
      const Call& call, const void*& buffer, N count, Type type, Request* request) {
    return begins(call,
                  [&](auto& made) { made.of(buffer).reads(part(buffer, count, type)); },
                  request,
                  {.is_message = true});
  }
  template <class Call>
  static int begins_receive(const Call& call, void*& buffer, N count, Type type, Request* request) {
    return begins(call,
                  [&](auto& made) { made.of(buffer).writes(part(buffer, count, type)); },
                  request,
                  {.is_message = true});
  }
  template <class Call>
  static int makes_send(
      const Call& call, const void*& buffer, N count, Type type, Request* request) {
    return begins(call,
                  [&](auto& made) { made.of(buffer).reads(part(buffer, count, type)); },
                  request,
                  {.is_message = true, .is_persistent = true});
  }
  template <class Call>
  static int makes_receive(const Call& call, void*& buffer, N count, Type type, Request* request) {
    return begins(call,
                  [&](auto& made) { made.of(buffer).writes(part(buffer, count, type)); },
                  request,
                  {.is_message = true, .is_persistent = true});
  }

  static auto exchange(
      const void*& send, N send_count, Type send_type, void*& recv, N recv_count, Type recv_type) {
    return [=, &send, &recv](auto& made) {
      made.of(send).reads(part(send, send_count, send_type));
      made.of(recv).writes(part(recv, recv_count, recv_type));
    };
  }
  template <class Call>
  static int exchanges(const Call& call,
                       const void*& send,
                       N send_count,
                       Type send_type,
                       void*& recv,
                       N recv_count,
                       Type recv_type,
                       void*& status) {
    return runs(call, exchange(send, send_count, send_type, recv, recv_count, recv_type), status);
  }
  template <class Call>
  static int begins_exchange(const Call& call,
                             const void*& send,
                             N send_count,
                             Type send_type,
                             void*& recv,
                             N recv_count,
                             Type recv_type,
                             Request* request) {
    return begins(call,
                  [&](auto& made) {
                    made.of(send).reads(part(send, send_count, send_type));
                    replacement(recv, recv_count, recv_type)(made);
                  },
                  request,
                  {.is_message = true, .is_whole = true});
  }
  static auto replacement(void*& buffer, N count, Type type) {
    return [=, &buffer](auto& made) {
      const Elements<Abi> elements = part(buffer, count, type);
      made.of(buffer).reads(elements).writes(elements);
    };
  }
  template <class Call>
  static int replaces(const Call& call, void*& buffer, N count, Type type, void*& status) {
    return runs(call, replacement(buffer, count, type), status);
  }
  template <class Call>
  static int begins_replace(const Call& call, void*& buffer, N count, Type type, Request* request) {
    return begins(
        call, replacement(buffer, count, type), request, {.is_message = true, .is_whole = true});
  }
  template <class Call>
  static int reduces(const Call& call, const void*& in, void*& in_out, N count, Type type) {
    return runs(call, [&](auto& made) {
      made.of(in).reads(part(in, count, type));
      replacement(in_out, count, type)(made);
    });
  }

  // From the position on, which the call moves.
  template <class Size>
  static Elements<Abi> packed_part(const void* packed, const Size* position, std::int64_t bytes) {
    const std::int64_t from = position != nullptr ? *position : 0;
    return from >= 0 && bytes > from
               ? Of::in_bytes(Of::moved(packed, from), static_cast<std::size_t>(bytes - from))
               : Elements<Abi>{};
  }
  template <class Call, class Size>
  static int packs(const Call& call,
                   const void*& from,
                   N count,
                   Type type,
                   void*& to,
                   Size bytes,
                   const Size* position) {
    auto made = shadows_by([&](auto& shadows) {
      shadows.of(from).reads(part(from, count, type));
      shadows.of(to).writes(packed_part(to, position, bytes));
    });
    if (!made) {
      return call.pass();
    }
    copy_in(*made);
    const Size before = *position;
    const int code = call.pass();
    if (code == 0) {
      made->copy_out(static_cast<std::size_t>(*position - before));
    }
    return code;
  }
  template <class Call, class Size>
  static int unpacks(const Call& call,
                     const void*& from,
                     Size bytes,
                     const Size* position,
                     void*& to,
                     N count,
                     Type type) {
    return runs(call, [&](auto& made) {
      made.of(from).reads(packed_part(from, position, bytes));
      made.of(to).writes(part(to, count, type));
    });
  }

  struct Place {
    const void* buffer;
    std::int64_t count;
    std::optional<Type> type;  // nothing: bytes
  };
  static Place at(const void* buffer, std::int64_t count, Type type) {
    return {buffer, count, type};
  }
  static Place at(const void* buffer, std::int64_t bytes) { return {buffer, bytes, std::nullopt}; }
  template <class Call, class... Places>
  static int refuses(const Call& call, const Places&... places) {
    const auto made = shadows_by([&](auto& shadows) { (describe(shadows, places), ...); });
    return made ? Of::front().refuse_device_memory(call.raise, call.name, kUseHostMemory)
                : call.pass();
  }
  static void describe(Shadows<Abi>& shadows, const Place& place) {
    const void* buffer = place.buffer;
    shadows.of(buffer).reads(
        part(buffer, place.count, place.type.value_or(Of::front().abi.byte())));
  }
};

}  // namespace sennit_mpi
