#include "exec/sm/put_program.hpp"

#include <algorithm>

namespace sennit::sm {
namespace {

bool holds(std::uint32_t set, int rank) { return ((set >> rank) & 1U) != 0; }
std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// Bytes of the buffer.
ByteRange range_of(const Problem& problem, Elements elements, int block) {
  if (block < 0) {
    return {};
  }
  const ElementRange range = block_range(problem, elements.count, elements.bytes, block);
  return {range.begin * elements.bytes, range.length * elements.bytes};
}

int shift_of(const void* address) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % 16);
}

std::int64_t chunks_in(const Transfer& put) { return chunks_of(shift_of(put.from), put.bytes); }

// What the peer does with what this rank sends it, which is not more than one block.
Status take(const DirectProgram& theirs, int rank, int peer, PutProgram& program) {
  const int first = theirs.arrive.of[at(rank)];
  const int second = theirs.collect.of[at(rank)];
  if (first >= 0 && second >= 0) {
    return fail(Code::kUnsupported, "rank {} puts two blocks into rank {}'s output", rank, peer);
  }
  program.target.of[at(peer)] = first >= 0 ? first : second;
  const bool passes_on = theirs.arrival == Arrival::kStore && theirs.forward_to != 0;
  if (passes_on && first >= 0) {
    program.passed_on_by |= std::uint32_t{1} << peer;
  }
  return {};
}

void bind_own(const DirectProgram& own,
              Elements elements,
              const PutBuffers& buffers,
              Transfer& put) {
  const std::byte* const input = buffers.input;
  std::byte* const output = buffers.outputs[at(own.rank)];
  put.from = input + range_of(own.problem, elements, own.own_from).begin;
  put.to = output + range_of(own.problem, elements, own.own_to).begin;
  for (int i = 0; i < own.own_blocks; ++i) {
    put.bytes += range_of(own.problem, elements, own.own_from + i).length;
  }
  if (put.from == put.to) {
    put.bytes = 0;  // in place
  }
}

// Every block to whom it is meant for, the own one as well.
void bind_puts(const PutProgram& program,
               Elements elements,
               const PutBuffers& buffers,
               PutCall& call) {
  const DirectProgram& own = program.own;
  bool is_one_range = true;
  const Transfer* any = nullptr;
  for (int peer = 0; peer < own.problem.ranks; ++peer) {
    Transfer& put = call.puts[at(peer)];
    if (peer == own.rank) {
      continue;
    }
    if (const int block = own.push.of[at(peer)]; block >= 0) {
      const ByteRange from = range_of(own.problem, elements, block);
      const ByteRange to = range_of(own.problem, elements, program.target.of[at(peer)]);
      put = {buffers.input + from.begin, buffers.outputs[at(peer)] + to.begin, from.length};
      any = any == nullptr ? &put : any;
    }
    call.passed_chunks = std::max(call.passed_chunks, chunks_in(put));
    is_one_range =
        is_one_range && any != nullptr && put.from == any->from && put.bytes == any->bytes;
  }
  Transfer& mine = call.puts[at(own.rank)];
  if (own.own_from >= 0) {
    bind_own(own, elements, buffers, mine);
  }
  call.same_for_all = any != nullptr && is_one_range &&
                      (mine.bytes == 0 || (mine.from == any->from && mine.bytes == any->bytes));
}

void bind_passing(const PutProgram& program,
                  Elements elements,
                  const PutBuffers& buffers,
                  PutCall& call) {
  const DirectProgram& own = program.own;
  const auto source = std::ranges::find_if(own.arrive.of, [](int block) { return block >= 0; });
  const ByteRange range = range_of(own.problem, elements, *source);
  call.passed_by = static_cast<std::int8_t>(source - own.arrive.of.begin());
  call.arrived = buffers.outputs[at(own.rank)] + range.begin;
  call.arrived_bytes = range.length;
  for (int peer = 0; peer < own.problem.ranks; ++peer) {
    if (holds(own.forward_to, peer)) {
      call.pass_to[at(peer)] = buffers.outputs[at(peer)] +
                               range_of(own.problem, elements, program.target.of[at(peer)]).begin;
      call.passes_to |= std::uint32_t{1} << peer;
    }
  }
}

}  // namespace

Result<PutProgram> compile_put(const Schedule& schedule, int rank) {
  if (is_reduction(schedule.problem.collective)) {
    return fail(Code::kUnsupported,
                "direct_put carries no reductions: there is no room for contributions in outputs");
  }
  PutProgram program;
  SENNIT_ASSIGN_OR_RETURN(program.own, compile_direct(schedule, rank));
  for (int peer = 0; peer < schedule.problem.ranks; ++peer) {
    SENNIT_ASSIGN_OR_RETURN(const DirectProgram theirs, compile_direct(schedule, peer));
    if (peer != rank) {
      SENNIT_RETURN_IF_ERROR(take(theirs, rank, peer, program));
    }
  }
  return program;
}

void bind(const PutProgram& program, Elements elements, const PutBuffers& buffers, PutCall& call) {
  const DirectProgram& own = program.own;
  call.rank = static_cast<std::int8_t>(own.rank);
  call.ranks = static_cast<std::int8_t>(own.problem.ranks);
  call.passed_on_by = program.passed_on_by;
  bind_puts(program, elements, buffers, call);
  if (own.forward_to != 0) {
    bind_passing(program, elements, buffers, call);
  }
  const auto longest =
      std::ranges::max_element(call.puts, {}, [](const Transfer& put) { return chunks_in(put); });
  call.chunks =
      std::max(chunks_in(*longest), chunks_of(shift_of(call.arrived), call.arrived_bytes));
}

bool lies_alike(const PutProgram& program, Elements elements) {
  // Where the buffers lie does not matter, as long as it is a multiple of 16.
  PutBuffers anywhere;
  anywhere.input = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40);
  anywhere.outputs.fill(reinterpret_cast<std::byte*>(std::uintptr_t{1} << 41));
  PutCall call;
  bind(program, elements, anywhere, call);
  for (const Transfer& put : call.puts) {
    if (put.bytes > 0 && shift_of(put.from) != shift_of(put.to)) {
      return false;
    }
  }
  for (int peer = 0; peer < call.ranks; ++peer) {
    if (holds(call.passes_to, peer) && shift_of(call.pass_to[at(peer)]) != shift_of(call.arrived)) {
      return false;
    }
  }
  return true;
}

}  // namespace sennit::sm
