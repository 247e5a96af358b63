// Alltoallv and Alltoallw.
#pragma once

#include "buffers.hpp"
#include "calls.hpp"
#include "movements.hpp"
#include "values.hpp"

#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sennit_mpi {

// Each rank knows its own blocks alone. Where a rule may give the call a codec, ranks ask each
// other whether all blocks are of one type, and how long they are.
template <class Abi, class N, class D>
Exchange Calls<Abi, N, D>::ask_others(const Taken& taken,
                                      const Blocks<Abi>& input,
                                      const Blocks<Abi>& output) {
  ExchangeWords words;
  for (const Blocks<Abi>* const blocks : {&input, &output}) {
    for (int rank = 0; rank < taken.size; ++rank) {
      words.add(values_of(blocks->elements(rank)), blocks->bytes_of(rank));
    }
    words.set_buffer(blocks->bytes());
  }
  sennit_call_options_t exact = SENNIT_CALL_OPTIONS_INITIALIZER;
  exact.codec = "none";
  Exchange found;
  if (sennit_all_reduce(words.data(),
                        words.data(),
                        words.size(),
                        SENNIT_UINT64,
                        SENNIT_MAX,
                        taken.engine,
                        nullptr,
                        &exact) != SENNIT_OK) {
    taken.abort();  // the call itself says why, and no rank goes to the MPI alone
    return found;
  }
  const Values values = words.values();
  found.bytes = words.buffer();
  if (sennit_tool_codec_by_rule(
          taken.engine, "all_to_all", words.largest_block(), values.dtype, &found.codec) ==
          SENNIT_OK &&
      found.codec != nullptr) {
    found.values = values;
  }
  return found;
}

// Alltoallv and Alltoallw. In place, what is sent are the blocks that are received.
template <class Abi, class N, class D>
template <class Types>
auto Calls<Abi, N, D>::prepare_exchange(const Taken& taken,
                                        const void* send,
                                        const N* send_counts,
                                        const D* send_displacements,
                                        Types send_types,
                                        void* recv,
                                        const N* recv_counts,
                                        const D* recv_displacements,
                                        Types recv_types) {
  const bool in_place = is_in_place(send);
  const bool is_right =
      are_valid(recv, recv_counts, recv_displacements, recv_types, taken) &&
      (in_place || are_valid(send, send_counts, send_displacements, send_types, taken));
  const auto add_inputs = [&](Blocks<Abi>& input) {
    if (in_place) {
      add_blocks(input, recv, recv_counts, recv_displacements, recv_types, taken);
    } else {
      add_blocks(input, send, send_counts, send_displacements, send_types, taken);
    }
  };
  Exchange exchange;
  if (is_right && taken.may_wait && front().settings.has_codecs) {
    Blocks<Abi> input(packer());
    Blocks<Abi> output(packer());
    add_inputs(input);
    add_blocks(output, recv, recv_counts, recv_displacements, recv_types, taken);
    exchange = ask_others(taken, input, output);
  }
  const auto known = [&] { return exchange.bytes; };
  return when(taken, is_right, known, [&] {
    Blocks<Abi> input(packer());
    Blocks<Abi> output(packer());
    input.count_in(exchange.values);
    output.count_in(exchange.values);
    add_blocks(output, recv, recv_counts, recv_displacements, recv_types, taken);
    output.settle();
    add_inputs(input);
    input.settle_and_pack();
    input.keep_off(output.range());
    const std::size_t sent = input.bytes_of(taken.rank);
    const std::size_t received = output.bytes_of(taken.rank);
    return Moving(
        std::move(input),
        std::move(output),
        [exchange](auto& in, auto& out, const Runner& on, Options options) {
          sennit_call_options_t own = SENNIT_CALL_OPTIONS_INITIALIZER;
          own = options != nullptr ? *options : own;
          own.codec = exchange.codec;
          return sennit_all_to_all_v(in.data(),
                                     in.counts(),
                                     in.displacements(),
                                     out.data(),
                                     out.counts(),
                                     out.displacements(),
                                     exchange.values.dtype,
                                     on.comm,
                                     on.stream,
                                     exchange.codec != nullptr ? &own : options);
        },
        sent,
        received);
  });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_to_all_v(const Taken& taken,
                                            const void* send,
                                            const N* send_counts,
                                            const D* send_displacements,
                                            Type send_type,
                                            void* recv,
                                            const N* recv_counts,
                                            const D* recv_displacements,
                                            Type recv_type,
                                            Comm /*comm*/) {
  return prepare_exchange(taken,
                          send,
                          send_counts,
                          send_displacements,
                          send_type,
                          recv,
                          recv_counts,
                          recv_displacements,
                          recv_type);
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_to_all_w(const Taken& taken,
                                            const void* send,
                                            const N* send_counts,
                                            const D* send_displacements,
                                            const Type* send_types,
                                            void* recv,
                                            const N* recv_counts,
                                            const D* recv_displacements,
                                            const Type* recv_types,
                                            Comm /*comm*/) {
  return prepare_exchange(taken,
                          send,
                          send_counts,
                          send_displacements,
                          send_types,
                          recv,
                          recv_counts,
                          recv_displacements,
                          recv_types);
}

}  // namespace sennit_mpi
