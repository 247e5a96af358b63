// CodedStep: a step of a Job that codes values: those of messages that it sends or takes, or those
// that it keeps at home.
#pragma once

#include "exec/cpu/job.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit {

class CodedStep {
 public:
  CodedStep(Job& job, const ProgramLane& lane, const ProgramStep& step, std::int64_t tile)
      : job_(job), lane_(lane), step_(step), tile_(tile) {}

  // What the step does in the tile. Sets the job's status where the bytes of a peer are none of the
  // codec's.
  void run();

 private:
  // Of a block: what is coded at once.
  struct Part {
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  std::vector<Part> parts_of(std::int64_t elements) const;
  // Of a message that the step sends or takes: where block `block` lies in it, from `begin` on.
  std::byte* place_in(const MessageRef& ref, std::size_t block, const Part& part) const;
  [[nodiscard]] bool is_coded_at_home(const Piece& piece) const;
  [[nodiscard]] std::int64_t bytes_of(std::int64_t elements) const {
    return elements * job_.layout_.element_bytes();
  }

  void copy();
  void send();
  void take();
  void combine();
  void combine_part(std::size_t block, const Part& part);
  // What the step reads out of a block of its own, and of a message, as operands.
  Operand own(const Piece& piece, const Part& part, std::size_t buffer_index);
  Operand taken(const MessageRef& ref, std::size_t block, const Part& part, std::size_t index);
  void scale(const Operand& from, const Part& part, bool is_finished, std::byte* to) const;
  void code_at_home(const std::byte* from, const Part& part, std::byte* to) const;
  void decode(const MessageRef& ref, std::size_t block, const Part& part, std::byte* to);
  // The bytes of a message, as they are, into the outgoing slots from `first` on.
  using Messages = std::vector<MessageRef>;
  void pass_on(const std::byte* from, Messages::const_iterator first) const;

  Job& job_;
  const ProgramLane& lane_;
  const ProgramStep& step_;
  std::int64_t tile_;
};

}  // namespace sennit
