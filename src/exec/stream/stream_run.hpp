// StreamRun: one strand of a call, or one round of it, on its way from memory to memory into the
// streams.
//
// All that leaves goes on the user's stream: few and large copies in the order of a ring, so that
// each rank is written by one other at a time. On several streams, or in more parts, the ranks fall
// out of step and two write to one while another has none (docs/lab/2026-11-22-copy-engines.md).
// Beside it is a stream for what stays on this rank.
#pragma once

#include "exec/stream/side_streams.hpp"
#include "exec/stream/staging.hpp"
#include "exec/stream/stream_call.hpp"
#include "exec/stream/stream_program.hpp"
#include "exec/stream/word_steps.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sennit::stream {

// What an engine has for such strands.
struct StreamContext {
  CudaDriver& driver;
  SideStreams& sides;  // StreamRun::kStreams of them
  std::span<RankWords* const> words;
  const Staging& staging;
  std::span<void* const> folded;  // kMaxPieces events
};

class StreamRun {
 public:
  static constexpr int kStreams = 1;

  StreamRun(const StreamContext& context,
            const StreamProgram& program,
            const Portion& portion,
            const StreamCall& call,
            void* stream);

  // What the user's stream has to do before anything is moved: from here on others may write into
  // the output and the staging memory, and then this rank into theirs.
  void meet(std::vector<WordStep>& steps) const;
  // Between fork and join of the streams.
  Status move();
  // What the user's stream has to do after all that was moved: say what nobody is in a hurry to
  // hear, and wait for what nobody here has waited for.
  void settle(std::vector<WordStep>& steps) const;

 private:
  static constexpr int kOwnStream = 0;

  // Of a block.
  struct Piece {
    std::int64_t at = 0;
    std::int64_t bytes = 0;
  };

  [[nodiscard]] std::vector<Piece> pieces_of(std::int64_t length) const;
  [[nodiscard]] ByteRange range_of(const Block& block) const;
  [[nodiscard]] const Buffers& peer(int rank) const;
  // Where the contribution of `sender` lies in the staging memory of `reader`.
  [[nodiscard]] std::byte* staged(int reader, int sender) const;
  // Whether that contribution comes last, since the next rank is served first.
  [[nodiscard]] bool is_last(int sender, int reader) const;

  [[nodiscard]] RankWords& words_of(int rank) const;
  // `sender` may put what it has for `reader`; and has put it.
  [[nodiscard]] std::uint64_t* room(int sender, int reader, int channel) const;
  [[nodiscard]] std::uint64_t* there(int reader, int sender, int channel, int piece) const;
  void await_room(std::vector<WordStep>& steps, const std::vector<Departure>& departures) const;
  [[nodiscard]] WordStep arrived(const Departure& departure, int piece) const;
  Status say(const Departure& departure, int piece) const;
  // At once where the readers wait for nothing else, or with the end of the call.
  Status say_in_time(const Departure& departure);

  // Of a block of this rank, to where it belongs on `departure.reader`.
  Status copy(const Departure& departure, const Piece& piece) const;
  Status contribute(const Departure& departure);
  Status run_fold(const Fold& fold);
  Status launch(const Fold& fold, const Piece& piece, void* stream) const;
  Status put_sums(const Fold& fold);
  Status copy_own(const OwnCopy& copy);

  StreamContext context_;
  const StreamProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  void* stream_;          // the user's
  std::int64_t longest_;  // of all blocks
  std::vector<WordStep> unsaid_{};
};

}  // namespace sennit::stream
