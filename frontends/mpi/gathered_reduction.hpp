// GatheredReduction: reductions that the library does not have, with operators of the MPI or of the
// program. The library moves what each rank contributes, and MPI_Reduce_local makes the result of
// it, on each rank that wants one. From the last rank down, a OP (b OP (c OP d)), the order is that
// of the ranks, so that operators which do not commute come out right as well.
#pragma once

#include "buffers.hpp"
#include "datatypes.hpp"

#include "sennit/sennit.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sennit_mpi {

// Contributions of all ranks together: where more has to move, the MPIs' own algorithms move less.
constexpr std::size_t kMostGatheredBytes = std::size_t{64} << 10U;
// Of a rank. In a scan of an MPI the lower ranks need not wait for the upper ones: one behind the
// other, a small call takes less than half as long there.
constexpr std::size_t kFewestScannedBytes = 512;

// What comes from the other ranks, and whose contributions are reduced: those of first to last.
struct GatherPlan {
  enum class Moves : std::uint8_t { kToAll, kToRoot, kBlocks };
  Moves moves = Moves::kToAll;
  int root = 0;                 // kToRoot
  const std::size_t* blocks{};  // kBlocks: elements for each rank
  bool has_result = true;       // this rank wants it
  int first = 0;
  int last = 0;                  // less than first: there is none
  std::size_t fewest_bytes = 0;  // of a rank; a call of fewer is for the MPI
};

template <class Abi>
class GatheredReduction {
 public:
  using Op = typename Abi::Op;

  // `input`: what this rank contributes; `count` elements of its type come out at `recv`.
  GatheredReduction(const Packer<Abi>& packer,
                    const Datatypes<Abi>& datatypes,
                    const Elements<Abi>& input,
                    void* recv,
                    std::size_t count,
                    Op op,
                    const GatherPlan& plan,
                    int rank,
                    int ranks)
      : packer_(packer),
        input_(packer, input),
        result_{recv, count, input.type, input.layout},
        op_(op),
        plan_(plan),
        ranks_(ranks) {
    const std::size_t element = input.layout.bytes;
    std::size_t place = 0;
    for (int r = 0; r < ranks && plan.moves == GatherPlan::Moves::kBlocks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      send_counts_[i] = plan.blocks[i] * element;
      send_places_[i] = std::exchange(place, place + send_counts_[i]);
      recv_counts_[i] = plan.blocks[static_cast<std::size_t>(rank)] * element;
      recv_places_[i] = i * recv_counts_[i];
    }
    if (plan_.has_result) {
      all_ = new_memory(result_.bytes() * static_cast<std::size_t>(ranks));
    }
    if (plan_.has_result && !is_dense() && result_.bytes() > 0) {
      const Extent extent = datatypes.extent_of(input.type, input.layout, count);
      next_ = new_memory(static_cast<std::size_t>(extent.end - extent.begin));
      begin_ = extent.begin;
    }
  }

  [[nodiscard]] Trouble trouble() const { return {.code = input_.code()}; }
  [[nodiscard]] int read_again() { return input_.read_again(); }
  sennit_status_t start(const Runner& on, const sennit_call_options_t* options) {
    switch (plan_.moves) {
      case GatherPlan::Moves::kToAll:
        return sennit_all_gather(
            input_.data(), all_.get(), input_.bytes(), SENNIT_UINT8, on.comm, on.stream, options);
      case GatherPlan::Moves::kToRoot:
        return sennit_gather(input_.data(),
                             all_.get(),
                             input_.bytes(),
                             SENNIT_UINT8,
                             plan_.root,
                             on.comm,
                             on.stream,
                             options);
      case GatherPlan::Moves::kBlocks:
        break;
    }
    return sennit_all_to_all_v(input_.data(),
                               send_counts_.data(),
                               send_places_.data(),
                               all_.get(),
                               recv_counts_.data(),
                               recv_places_.data(),
                               SENNIT_UINT8,
                               on.comm,
                               on.stream,
                               options);
  }
  // Returns the MPI's error.
  [[nodiscard]] int finish() {
    if (!plan_.has_result || plan_.last < plan_.first || result_.bytes() == 0) {
      return 0;
    }
    void* const to = const_cast<void*>(result_.place);
    int code = 0;
    if (is_dense()) {
      std::memcpy(to, contribution(plan_.last), result_.bytes());
    } else {
      code = packer_.unpack(contribution(plan_.last), result_);
    }
    for (int rank = plan_.last - 1; rank >= plan_.first && code == 0; --rank) {
      const void* from = contribution(rank);
      if (!is_dense()) {
        from = next_.get() - begin_;
        code =
            packer_.unpack(contribution(rank), {from, result_.count, result_.type, result_.layout});
      }
      if (code == 0) {
        code = packer_.mpi().reduce_local(
            from, to, static_cast<int>(result_.count), result_.type, op_);
      }
    }
    return code;
  }

 private:
  [[nodiscard]] bool is_dense() const { return result_.layout.is_dense; }
  [[nodiscard]] const std::byte* contribution(int rank) const {
    return all_.get() + static_cast<std::size_t>(rank) * result_.bytes();
  }

  Packer<Abi> packer_;
  SendPiece<Abi> input_;
  Elements<Abi> result_;
  Op op_;
  GatherPlan plan_;
  int ranks_;
  Memory all_;   // the contributions, packed, in the order of the ranks
  Memory next_;  // one of them as its type has it, if that is not dense
  std::ptrdiff_t begin_ = 0;
  // kBlocks; else nothing is written there, which takes longer than a small call.
  std::array<std::size_t, kMostRanks> send_counts_;
  std::array<std::size_t, kMostRanks> send_places_;
  std::array<std::size_t, kMostRanks> recv_counts_;
  std::array<std::size_t, kMostRanks> recv_places_;
};

}  // namespace sennit_mpi
