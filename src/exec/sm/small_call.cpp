#include "exec/sm/small_call.hpp"

#include "exec/sm/norming_call.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace sennit::sm {
namespace {

template <int kRanks>
class Maker {
 public:
  using Call = BasicDirectCall<kRanks>;
  using Small = BasicSmallCall<kRanks>;

  Maker(const Call& call, Small& small) : call_(call), small_(small) {}

  bool run() {
    return call_.rounds == 1 && call_.depth == 1 && describe() && *length_ <= most_bytes(1) &&
           *length_ > most_bytes(0);
  }

  // False if it has more than one hop, or blocks of several lengths.
  bool describe() {
    if (call_.forward_to != 0 || call_.arrive_from[1] != 0) {
      return false;
    }
    reduces_ = call_.arrival == Arrival::kReduce;
    if (call_.own || reduces_) {
      small_.own_from = call_.own ? call_.input + call_.own_from.begin : nullptr;
      small_.own_to = call_.output + call_.own_to.begin;
      take(call_.own ? call_.own_from : call_.own_to);
      lies_at(small_.own_from);
      lies_at(small_.own_to);
    }
    for (int distance = 1; distance < call_.ranks; ++distance) {
      push((call_.rank + distance) % call_.ranks);
    }
    arrivals();
    if (!is_even_ || !length_) {
      return false;
    }
    copy_the_rest();
    return true;
  }

 private:
  static bool has(std::uint32_t set, int rank) { return ((set >> rank) & 1) != 0; }

  // In the FIFO of its writer, for all readers. A message has one.
  bool is_written_once() const { return !Call::kIsPair && call_.on_host && call_.pushes_once; }
  void lies_at(const std::byte* pointer) {
    small_.is_apart |= std::bit_cast<std::uintptr_t>(pointer) % 16 != 0;
  }
  // All blocks have one length.
  void take(ByteRange range) {
    is_even_ = is_even_ && length_.value_or(range.length) == range.length;
    length_ = range.length;
  }
  // Of all blocks of threads (1), or all but the last (0), which has to have a packet as well.
  std::int64_t most_bytes(int last) const {
    return (std::int64_t{call_.blocks} - 1 + last) * call_.warps * payload_bytes(Packets::kLl);
  }

  std::byte* fifo(int rank) const { return call_.fifos[static_cast<std::size_t>(rank)]; }
  // In any FIFO.
  std::byte* slot(int owner, int source) const {
    return fifo(owner) + call_.layout.area + static_cast<std::size_t>(source) * call_.layout.source;
  }
  std::uint64_t* started(int owner, int source) const {
    return reinterpret_cast<std::uint64_t*>(fifo(owner) + call_.layout.started) + source;
  }

  void push(int peer) {
    if (!has(call_.push_to, peer)) {
      small_.tell[static_cast<std::size_t>(small_.tells++)] = started(peer, call_.rank);
      return;
    }
    const ByteRange range = call_.push[static_cast<std::size_t>(peer)];
    take(range);
    const std::byte* const from = call_.input + range.begin;
    lies_at(from);
    if (!is_written_once() || small_.pushes == 0) {
      const int owner = is_written_once() ? call_.rank : peer;
      small_.push[static_cast<std::size_t>(small_.pushes++)] = {from, slot(owner, call_.rank)};
    }
  }

  void arrivals() {
    for (int i = 0; i < call_.ranks; ++i) {
      const int source = reduces_ ? i : (call_.rank + call_.ranks - i) % call_.ranks;
      if (reduces_ && source == call_.rank && call_.own) {
        small_.arrival[static_cast<std::size_t>(small_.arrivals++)] = {};
      }
      if (!has(call_.arrive_from[0], source)) {
        continue;
      }
      auto& arrival = small_.arrival[static_cast<std::size_t>(small_.arrivals++)];
      arrival.slot = slot(is_written_once() ? source : call_.rank, source);
      arrival.rank = source;
      if (!reduces_) {
        const ByteRange range = call_.arrive[0][static_cast<std::size_t>(source)];
        take(range);
        arrival.to = call_.output + range.begin;
        lies_at(arrival.to);
      }
    }
  }

  void copy_the_rest() {
    const std::uint32_t all = (std::uint32_t{1} << call_.ranks) - 1;
    small_.length = static_cast<std::int32_t>(*length_);
    small_.is_apart |= *length_ % 16 != 0;
    small_.on_host = call_.on_host;
    small_.told = started(call_.rank, 0);
    small_.states = call_.states;
    small_.error_word = call_.error_word;
    small_.generation_bytes = call_.layout.generation;
    small_.block_bytes = call_.layout.block;
    small_.push_to = call_.push_to;
    small_.unheard = all & ~call_.arrive_from[0] & ~(std::uint32_t{1} << call_.rank);
    small_.fingerprint = call_.fingerprint;
    small_.deadline_ns = call_.deadline_ns;
    small_.warps = call_.warps;
    small_.peer = static_cast<unsigned char>(call_.peer);
    small_.ranks = static_cast<unsigned char>(call_.ranks);
    small_.scalar = call_.scalar;
    small_.scalar_on_device = call_.scalar_on_device;
  }

  const Call& call_;
  Small& small_;
  bool reduces_ = false;
  bool is_even_ = true;
  std::optional<std::int64_t> length_;
};

}  // namespace

bool make_small(const DirectCall& call, SmallCall& small) { return Maker(call, small).run(); }

bool make_norming(const DirectCall& call, const RowNormCall& norm, NormingCall& norming) {
  norming.norm = norm;
  return !call.on_host && call.ranks > 1 && Maker(call, norming.exchange).describe();
}

int thread_blocks(const SmallPairs& small, int calls) {
  return (calls * small.blocks + small.parts - 1) / small.parts;
}

// A GPU spreads short blocks over all SMs, and the kernel of another rank that shares it, whose
// blocks need whole ones, would find none. So there are no more than an SM each, and where messages
// have more blocks, several run in one.
bool make_small(const PairCalls& pairs, int block_limit, SmallPairs& small) {
  const int chains = pairs.chains();
  if (chains > kMaxSmallPairs || pairs.begin[static_cast<std::size_t>(chains)] > chains) {
    return false;
  }
  small.blocks = std::max(pairs.sends.blocks, pairs.recvs.blocks);
  for (std::size_t i = 0; i < static_cast<std::size_t>(chains); ++i) {
    const auto& [call, put] = pairs.messages[i];
    if (call.packets != Packets::kLl || put.takes_part || !Maker(call, small.calls[i]).run()) {
      return false;
    }
    small.warps = std::max(small.warps, call.warps);
  }
  small.parts = (chains * small.blocks + block_limit - 1) / block_limit;
  return small.parts * small.warps <= kWarps;
}

}  // namespace sennit::sm
