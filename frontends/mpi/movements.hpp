// The calls that move data: in bytes, whatever the types are, or as the values that all ranks see
// there (values.hpp). Ranks may describe one block by different types and counts, so none of them,
// and no buffer, may decide whether a call is taken.
#pragma once

#include "buffers.hpp"
#include "calls.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sennit_mpi {

// A movement that is to run, with what it reads and writes. `start_of` gets these, the engine and
// the options.
template <class Input, class Output, class Start>
struct Moving {
  Input input;
  Output output;
  Start start_of;
  // Of a block that this rank both sends and receives.
  std::size_t sent = 0;
  std::size_t received = 0;

  [[nodiscard]] std::size_t bytes() const { return std::max(input.bytes(), output.bytes()); }
  [[nodiscard]] Trouble trouble() const { return {input.code(), sent, received}; }
  [[nodiscard]] bool may_return_before_its_end() const { return true; }
  sennit_status_t start(const Runner& on, const sennit_call_options_t* options) {
    return start_of(input, output, on, options);
  }
  [[nodiscard]] int keep() { return output.keep(); }
  [[nodiscard]] int keep_input() { return input.keep(); }
  [[nodiscard]] int read_again() { return input.read_again(); }
  [[nodiscard]] int finish() { return output.finish(); }
};

template <class Input, class Output, class Start>
Moving(Input, Output, Start) -> Moving<Input, Output, Start>;
template <class Input, class Output, class Start>
Moving(Input, Output, Start, std::size_t, std::size_t) -> Moving<Input, Output, Start>;

using Options = const sennit_call_options_t*;

// A barrier, which moves nothing.
struct Meeting {
  [[nodiscard]] std::size_t bytes() const { return 0; }
  [[nodiscard]] Trouble trouble() const { return {}; }
  [[nodiscard]] bool may_return_before_its_end() const { return true; }
  sennit_status_t start(const Runner& on, Options options) {
    return sennit_barrier(on.comm, on.stream, options);
  }
  [[nodiscard]] int keep() { return 0; }
  [[nodiscard]] int keep_input() { return 0; }
  [[nodiscard]] int read_again() { return 0; }
  [[nodiscard]] int finish() { return 0; }
};

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_barrier(const Taken& taken, Comm /*comm*/) {
  return when(taken, true, not_known_to_all, [] { return Meeting(); });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_broadcast(
    const Taken& taken, void* buffer, N count, Type type, int root, Comm /*comm*/) {
  const bool is_right = is_valid(buffer, count, type) && is_rank(root, taken);
  const auto known = [&] { return elements(buffer, count, type).bytes(); };
  return when(taken, is_right, known, [&] {
    const bool is_root = taken.rank == root;
    const Elements<Abi> whole = elements(buffer, count, type);
    const Values values = values_of(whole);
    return Moving(is_root ? SendPiece<Abi>(packer(), whole) : SendPiece<Abi>(),
                  is_root ? RecvPiece<Abi>() : RecvPiece<Abi>(packer(), whole),
                  [=](auto& input, auto& output, const Runner& on, Options options) {
                    // The root's output is its input: nothing is written.
                    auto* const data =
                        is_root ? const_cast<std::byte*>(input.data()) : output.data();
                    return sennit_broadcast(data,
                                            data,
                                            values.count(whole.bytes()),
                                            values.dtype,
                                            root,
                                            on.comm,
                                            on.stream,
                                            options);
                  });
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_gather(const Taken& taken,
                                          const void* send,
                                          N send_count,
                                          Type send_type,
                                          void* recv,
                                          N recv_count,
                                          Type recv_type,
                                          Comm /*comm*/) {
  const bool in_place = is_in_place(send);
  const bool is_right =
      is_valid(recv, recv_count, recv_type) && (in_place || is_valid(send, send_count, send_type));
  const auto known = [&] { return all_blocks(taken, elements(recv, recv_count, recv_type)); };
  return when(taken, is_right, known, [&] {
    const std::int64_t count = recv_count;
    const Values values = values_of(elements(recv, recv_count, recv_type));
    SendPiece<Abi> input(packer(),
                         in_place ? elements_at(recv, taken.rank * count, count, recv_type)
                                  : elements(send, send_count, send_type));
    RecvPiece<Abi> output(packer(), elements(recv, taken.size * count, recv_type));
    const std::size_t sent = input.bytes();
    const std::size_t received = output.bytes() / static_cast<std::size_t>(taken.size);
    input.keep_off(output.range(), output.data() + static_cast<std::size_t>(taken.rank) * sent);
    return Moving(
        std::move(input),
        std::move(output),
        [values](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_all_gather(in.data(),
                                   out.data(),
                                   values.count(in.bytes()),
                                   values.dtype,
                                   on.comm,
                                   on.stream,
                                   options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_gather_v(const Taken& taken,
                                            const void* send,
                                            N send_count,
                                            Type send_type,
                                            void* recv,
                                            const N* recv_counts,
                                            const D* recv_displacements,
                                            Type recv_type,
                                            Comm /*comm*/) {
  const bool in_place = is_in_place(send);
  const bool is_right = are_valid(recv, recv_counts, recv_displacements, recv_type, taken) &&
                        (in_place || is_valid(send, send_count, send_type));
  const auto known = [&] {
    std::size_t bytes = 0;
    for (int rank = 0; rank < taken.size; ++rank) {
      bytes += elements(recv, recv_counts[rank], recv_type).bytes();
    }
    return bytes;
  };
  return when(taken, is_right, known, [&] {
    Blocks<Abi> output(packer());
    add_blocks(output, recv, recv_counts, recv_displacements, recv_type, taken);
    const N longest = *std::max_element(recv_counts, recv_counts + taken.size);
    const Values values = values_of(elements(recv, longest, recv_type));
    output.count_in(values);
    output.settle();
    SendPiece<Abi> input(
        packer(), in_place ? output.elements(taken.rank) : elements(send, send_count, send_type));
    input.keep_off(output.range(), output.block(taken.rank));
    const std::size_t sent = input.bytes();
    const std::size_t received = output.bytes_of(taken.rank);
    return Moving(
        std::move(input),
        std::move(output),
        [values](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_all_gather_v(in.data(),
                                     values.count(in.bytes()),
                                     out.data(),
                                     out.counts(),
                                     out.displacements(),
                                     values.dtype,
                                     on.comm,
                                     on.stream,
                                     options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_to_all(const Taken& taken,
                                          const void* send,
                                          N send_count,
                                          Type send_type,
                                          void* recv,
                                          N recv_count,
                                          Type recv_type,
                                          Comm /*comm*/) {
  const bool in_place = is_in_place(send);
  const bool is_right =
      is_valid(recv, recv_count, recv_type) && (in_place || is_valid(send, send_count, send_type));
  const auto known = [&] { return all_blocks(taken, elements(recv, recv_count, recv_type)); };
  return when(taken, is_right, known, [&] {
    const std::int64_t ranks = taken.size;
    const Values values = values_of(elements(recv, recv_count, recv_type));
    SendPiece<Abi> input(packer(),
                         in_place ? elements(recv, ranks * recv_count, recv_type)
                                  : elements(send, ranks * send_count, send_type));
    RecvPiece<Abi> output(packer(), elements(recv, ranks * recv_count, recv_type));
    input.keep_off(output.range(), output.data());
    const std::size_t sent = input.bytes() / static_cast<std::size_t>(ranks);
    const std::size_t received = output.bytes() / static_cast<std::size_t>(ranks);
    return Moving(
        std::move(input),
        std::move(output),
        [sent, values](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_all_to_all(
              in.data(), out.data(), values.count(sent), values.dtype, on.comm, on.stream, options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_gather(const Taken& taken,
                                      const void* send,
                                      N send_count,
                                      Type send_type,
                                      void* recv,
                                      N recv_count,
                                      Type recv_type,
                                      int root,
                                      Comm /*comm*/) {
  const bool is_root = taken.rank == root;
  const bool in_place = is_root && is_in_place(send);
  const bool is_right = is_rank(root, taken) &&
                        (!is_root || is_valid(recv, recv_count, recv_type)) &&
                        (in_place || is_valid(send, send_count, send_type));
  const auto block = [&] {
    return is_root ? elements(recv, recv_count, recv_type) : elements(send, send_count, send_type);
  };
  const auto known = [&] { return all_blocks(taken, block()); };
  return when(taken, is_right, known, [&] {
    const Values values = values_of(block());
    const std::int64_t count = recv_count;
    SendPiece<Abi> input(packer(),
                         in_place ? elements_at(recv, root * count, count, recv_type)
                                  : elements(send, send_count, send_type));
    RecvPiece<Abi> output =
        is_root ? RecvPiece<Abi>(packer(), elements(recv, taken.size * count, recv_type))
                : RecvPiece<Abi>();
    const std::size_t sent = input.bytes();
    if (is_root) {
      input.keep_off(output.range(), output.data() + static_cast<std::size_t>(root) * sent);
    }
    const std::size_t received =
        is_root ? output.bytes() / static_cast<std::size_t>(taken.size) : sent;
    return Moving(
        std::move(input),
        std::move(output),
        [root, values](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_gather(in.data(),
                               out.data(),
                               values.count(in.bytes()),
                               values.dtype,
                               root,
                               on.comm,
                               on.stream,
                               options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_gather_v(const Taken& taken,
                                        const void* send,
                                        N send_count,
                                        Type send_type,
                                        void* recv,
                                        const N* recv_counts,
                                        const D* recv_displacements,
                                        Type recv_type,
                                        int root,
                                        Comm /*comm*/) {
  const bool is_root = taken.rank == root;
  const bool in_place = is_root && is_in_place(send);
  const bool is_right =
      is_rank(root, taken) &&
      (!is_root || are_valid(recv, recv_counts, recv_displacements, recv_type, taken)) &&
      (in_place || is_valid(send, send_count, send_type));
  return when(taken, is_right, not_known_to_all, [&] {
    Blocks<Abi> output(packer());
    if (is_root) {
      add_blocks(output, recv, recv_counts, recv_displacements, recv_type, taken);
    }
    output.settle();
    SendPiece<Abi> input(packer(),
                         in_place ? output.elements(root) : elements(send, send_count, send_type));
    if (is_root) {
      input.keep_off(output.range(), output.block(root));
    }
    const std::size_t sent = input.bytes();
    const std::size_t received = is_root ? output.bytes_of(root) : sent;
    return Moving(
        std::move(input),
        std::move(output),
        [root](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_gather_v(in.data(),
                                 in.bytes(),
                                 out.data(),
                                 out.counts(),
                                 out.displacements(),
                                 SENNIT_UINT8,
                                 root,
                                 on.comm,
                                 on.stream,
                                 options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_scatter(const Taken& taken,
                                       const void* send,
                                       N send_count,
                                       Type send_type,
                                       void* recv,
                                       N recv_count,
                                       Type recv_type,
                                       int root,
                                       Comm /*comm*/) {
  const bool is_root = taken.rank == root;
  const bool in_place = is_root && is_in_place(recv);
  const bool is_right = is_rank(root, taken) &&
                        (!is_root || is_valid(send, send_count, send_type)) &&
                        (in_place || is_valid(recv, recv_count, recv_type));
  const auto each = [&] {
    return is_root ? elements(send, send_count, send_type) : elements(recv, recv_count, recv_type);
  };
  const auto known = [&] { return all_blocks(taken, each()); };
  return when(taken, is_right, known, [&] {
    const Values values = values_of(each());
    const std::int64_t ranks = taken.size;
    SendPiece<Abi> input(packer(),
                         is_root ? elements(send, ranks * send_count, send_type) : Elements<Abi>{});
    const std::size_t block = input.bytes() / static_cast<std::size_t>(ranks);
    const std::size_t own = static_cast<std::size_t>(root) * block;
    // In place the root's own block stays where it is, which is in place for the library as well.
    RecvPiece<Abi> output(
        packer(),
        in_place ? in_bytes(input.data() + own, block) : elements(recv, recv_count, recv_type));
    if (is_root && !in_place) {
      input.keep_off(output.range(), output.data() - own);
    }
    const std::size_t received = output.bytes();
    return Moving(
        std::move(input),
        std::move(output),
        [root, values](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_scatter(in.data(),
                                out.data(),
                                values.count(out.bytes()),
                                values.dtype,
                                root,
                                on.comm,
                                on.stream,
                                options);
        },
        is_root ? block : received,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_scatter_v(const Taken& taken,
                                         const void* send,
                                         const N* send_counts,
                                         const D* send_displacements,
                                         Type send_type,
                                         void* recv,
                                         N recv_count,
                                         Type recv_type,
                                         int root,
                                         Comm /*comm*/) {
  const bool is_root = taken.rank == root;
  const bool in_place = is_root && is_in_place(recv);
  const bool is_right =
      is_rank(root, taken) &&
      (!is_root || are_valid(send, send_counts, send_displacements, send_type, taken)) &&
      (in_place || is_valid(recv, recv_count, recv_type));
  return when(taken, is_right, not_known_to_all, [&] {
    Blocks<Abi> input(packer());
    if (is_root) {
      add_blocks(input, send, send_counts, send_displacements, send_type, taken);
    }
    input.settle_and_pack();
    RecvPiece<Abi> output(packer(),
                          in_place ? in_bytes(input.block(root), input.bytes_of(root))
                                   : elements(recv, recv_count, recv_type));
    if (is_root && output.data() != input.block(root)) {
      input.keep_off(output.range());
    }
    const std::size_t received = output.bytes();
    const std::size_t sent = is_root ? input.bytes_of(root) : received;
    return Moving(
        std::move(input),
        std::move(output),
        [root](auto& in, auto& out, const Runner& on, Options options) {
          return sennit_scatter_v(in.data(),
                                  in.counts(),
                                  in.displacements(),
                                  out.data(),
                                  out.bytes(),
                                  SENNIT_UINT8,
                                  root,
                                  on.comm,
                                  on.stream,
                                  options);
        },
        sent,
        received);
  });
}

}  // namespace sennit_mpi
