// QuickCalls: what a communicator remembers of the plain calls it has seen, so that the next one
// like it begins without a look at tables, plans and layouts.
#pragma once

#include "exec/cpu/single_tile.hpp"
#include "world/operation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sennit {

// A call without options, as the C ABI has its arguments; nothing of it has been checked.
struct PlainCall {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int dtype = 0;
  int op = 0;
  int root = 0;
};

struct QuickCall {
  Operation operation;  // but for its buffers
  const BoundProgram* program = nullptr;
  CallWords words;
  std::uint32_t fingerprint = 0;
  BufferNeeds needs;
  bool in_place = false;           // is proved
  std::optional<SingleTile> tile;  // nothing: such a call is not simple enough

  // The buffers are there and overlap as they may. If not, check_buffers says why.
  [[nodiscard]] bool fits(const void* send, const void* recv) const;
};

class QuickCalls {
 public:
  // What was learnt of calls with these arguments, or null.
  [[nodiscard]] const QuickCall* find(const PlainCall& call) const;
  void learn(QuickCall call);

 private:
  // A program makes few different calls. So many whose arguments lead to one place are kept there:
  // with one, a barrier could put out a call that it takes turns with.
  static constexpr std::size_t kPlaces = 64;
  static constexpr std::size_t kCallsOfPlace = 4;
  struct Place {
    std::array<std::unique_ptr<const QuickCall>, kCallsOfPlace> calls;
    std::size_t next = 0;  // to be put out
  };

  static std::size_t place_of(const PlainCall& call);

  std::array<Place, kPlaces> places_;
};

// The arguments by which a call is found again.
PlainCall plain(const Operation& operation);

// A call in the course of being made; lives as long as the QuickCalls learn nothing.
struct QuickRun {
  const QuickCall* call = nullptr;
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t sequence = 0;
  SingleTile::Run run;

  bool advance() { return call->tile->advance(run); }
  [[nodiscard]] bool has_ended() const { return run.has_ended(); }
};

}  // namespace sennit
