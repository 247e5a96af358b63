#include "exec/stream/leader_operations.hpp"

#include "exec/stream/call_operations.hpp"
#include "exec/stream/operation_writer.hpp"

namespace sennit::stream {
namespace {

// All in one stream: sums, which read inputs alone, to all that get them; then copies of inputs. A
// program that may be in place writes no input block that another rank's copies or sums still need.
class LeaderOperations {
 public:
  LeaderOperations(std::span<const StreamProgram> programs,
                   const StreamCall& call,
                   OperationWriter& writer)
      : programs_(programs), call_(call), writer_(writer) {}

  void run() {
    for (const StreamProgram& program : programs_) {
      for (const Reduction& reduction : program.reductions) {
        reduce(program.rank, reduction);
      }
    }
    for (const StreamProgram& program : programs_) {
      for (const Departure& departure : program.departures) {
        if (departure.to) {
          copy(program.rank, departure);
        }
      }
      for (const OwnCopy& own : program.copies) {
        copy(place_of(program.rank, own.to),
             place_of(program.rank, own.from),
             range_of(own.to).length);
      }
    }
  }

 private:
  [[nodiscard]] ByteRange range_of(const Block& block) const {
    return stream::range_of(programs_.front().problem, Portion(), call_.extent(), block.index);
  }

  [[nodiscard]] Place place_of(int rank, const Block& block) const {
    return {.memory = block.space == Space::kInput ? Memory::kInput : Memory::kOutput,
            .index = rank,
            .at = range_of(block).begin};
  }

  [[nodiscard]] const std::byte* address_of(const Place& place) const {
    const bool is_input = place.memory == Memory::kInput;
    if (place.index == kLeader) {
      return (is_input ? call_.input : call_.output) + place.at;
    }
    const Buffers& buffers = call_.peers[static_cast<std::size_t>(place.index)];
    return (is_input ? buffers.input : buffers.output) + place.at;
  }

  void copy(int sender, const Departure& departure) {
    copy(place_of(departure.reader, *departure.to),
         place_of(sender, departure.from),
         range_of(departure.from).length);
  }

  void copy(const Place& to, const Place& from, std::int64_t bytes) {
    const std::byte* const source = address_of(from);
    const std::byte* const target = address_of(to);
    if (bytes > 0 && source != target) {
      writer_.put(kUsersStream,
                  CopyBytes{.to = to,
                            .from = from,
                            .bytes = bytes,
                            .is_by_kernel = call_.copies_by_kernel(source, target, bytes)});
    }
  }

  void reduce(int rank, const Reduction& reduction) {
    const std::int64_t bytes = range_of(reduction.to).length;
    if (bytes == 0) {
      return;
    }
    std::vector<ReduceOperand>& operands = writer_.list().operands;
    const auto first = static_cast<std::int32_t>(operands.size());
    for (const Operand& operand : reduction.operands) {
      operands.push_back({.place = place_of(operand.sender, operand.from), .rank = operand.sender});
    }
    for (const Departure& departure : reduction.passes_on) {
      const int reader = departure.reader;
      operands.push_back({.place = place_of(reader, *departure.to), .rank = reader});
    }
    writer_.put(kUsersStream,
                ReduceBytes{.to = place_of(rank, reduction.to),
                            .bytes = bytes,
                            .first = first,
                            .count = static_cast<std::int32_t>(reduction.operands.size()),
                            .copies = static_cast<std::int32_t>(reduction.passes_on.size())});
  }

  std::span<const StreamProgram> programs_;
  const StreamCall& call_;
  OperationWriter& writer_;
};

}  // namespace

void append_by_leader(std::span<const StreamProgram> programs,
                      int rank,
                      const StreamCall& call,
                      OperationList& list) {
  OperationWriter writer(list);
  writer.put(kUsersStream, StoreFlag{running_flag(rank), running_word(0, call.deadline_ms)});
  const auto ready = [](int member) {
    return ready_flag(kLeader, member, kLeadersChannel, /*piece=*/0);
  };
  if (rank != kLeader) {
    if (!call.are_all_idle) {
      writer.fill(kUsersStream, ready(rank));
    }
    writer.consume(kUsersStream, done_flag(rank, kLeader, kLeadersChannel));
    return end_call(writer, rank, call.number);
  }
  const auto ranks = static_cast<int>(programs.size());
  for (int member = 1; member < ranks && !call.are_all_idle; ++member) {
    writer.consume(kUsersStream, ready(member));
  }
  LeaderOperations(programs, call, writer).run();
  for (int member = 1; member < ranks; ++member) {
    writer.fill(kUsersStream, done_flag(member, kLeader, kLeadersChannel));
  }
  end_call(writer, rank, call.number);
}

}  // namespace sennit::stream
