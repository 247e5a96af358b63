// TuningTable: what `sennit tune` measured on one machine, and the choice that follows from it.
//
//   TuningTable table = tuning_table_from_text(text, "here.tuning").value();
//   const Timing* best = table.best(Collective::kAllReduce, 4, 1 << 20, Carriers::kAny);
//
// Ranks that read the same text choose the same: a table is nothing but its text, and hash() names
// it in the handshake of the ranks.
#pragma once

#include "algo/algorithm.hpp"
#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {

// What a table is valid for. Memory counts to the GiB, as in fingerprint(): firmware takes a little
// of it, not the same on every boot.
struct MachineKey {
  std::string cpu;
  std::int64_t cores = 0;  // of the machine, not of a process that a launcher bound
  std::int64_t memory_gib = 0;
  std::string gpus = "none";

  bool operator==(const MachineKey&) const = default;
};

// One algorithm, one way to carry it, one tile: what a call of a cell took.
struct Timing {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  std::int64_t bytes = 0;  // as for choose()
  const Algorithm* algorithm = nullptr;
  bool direct = false;          // over cma, else by slots over shm
  std::int64_t tile_bytes = 0;  // as asked for; 0: the default of its way
  double us = 0;

  bool operator==(const Timing&) const = default;
};

// Start-up and bandwidth of a message between host ranks, fitted to pipelined chains (models.hpp)
// of one size: what fits the caches moves faster than what does not.
struct MessageFit {
  int ranks = 2;
  bool direct = false;
  std::int64_t bytes = 0;
  double start_us = 0;
  double gbps = 0;

  bool operator==(const MessageFit&) const = default;
};

// Which ways a call may be carried.
enum class Carriers : std::uint8_t { kAny, kSlots, kDirect };

class TuningTable {
 public:
  // kInvalidArgument when two timings or fits speak of the same thing.
  static Result<TuningTable> make(MachineKey machine,
                                  std::vector<MessageFit> fits,
                                  std::vector<Timing> timings);

  [[nodiscard]] const MachineKey& machine() const { return machine_; }
  [[nodiscard]] const std::vector<MessageFit>& fits() const { return fits_; }
  // In the order of cells: collective, ranks, bytes; the fastest first.
  [[nodiscard]] const std::vector<Timing>& timings() const { return timings_; }

  // The fastest of the measured cell whose size is nearest by ratio; null where these ranks were
  // not measured.
  [[nodiscard]] const Timing* best(Collective collective,
                                   int ranks,
                                   std::int64_t bytes,
                                   Carriers carriers) const;
  // Of the nearest size by ratio; null where there is none of these ranks and this way.
  [[nodiscard]] const MessageFit* fit(int ranks, bool direct, std::int64_t bytes) const;

  // 16 hexadecimal digits of the text form.
  [[nodiscard]] const std::string& hash() const { return hash_; }

 private:
  // The fastest of a cell by what may carry it, as indices into timings_; -1: none.
  struct Cell {
    std::int64_t bytes = 0;
    std::array<int, 3> fastest{-1, -1, -1};  // by Carriers
  };

  TuningTable() = default;
  void index_cells();

  MachineKey machine_;
  std::vector<MessageFit> fits_;
  std::vector<Timing> timings_;
  std::map<std::pair<Collective, int>, std::vector<Cell>> cells_;  // sizes ascending
  std::string hash_;
};

// Failures are kInvalidArgument and begin with "file_name:line:column: ".
Result<TuningTable> tuning_table_from_text(std::string_view text, std::string_view file_name);
// tuning_table_from_text(to_text(t)) gives t again.
std::string to_text(const TuningTable& table);

// kInvalidArgument names the first field in which the machines differ, with both values.
Status check_machine(const TuningTable& table, const MachineKey& here, std::string_view file_name);

}  // namespace sennit
