// Reads the text form of a tuning table, line by line, so that a fault is reported by line and
// column.
#include "base/line_reader.hpp"
#include "select/tuning_table.hpp"

#include <string>

namespace sennit {
namespace {

constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  Result<TuningTable> run() {
    while (in_.next_line()) {
      SENNIT_RETURN_IF_ERROR(read_line());
    }
    if (!has_version_) {
      return in_.refuse("expected 'tuning 1' in the first line");
    }
    if (machine_.cpu.empty() || machine_.cores == 0 || machine_.memory_gib == 0) {
      return in_.refuse(
          "the table does not say of which machine it is: expected lines 'machine cpu', "
          "'machine cores' and 'machine memory_gib'");
    }
    Result<TuningTable> table =
        TuningTable::make(std::move(machine_), std::move(fits_), std::move(timings_));
    return table.ok() ? std::move(table) : in_.refuse("{}", table.status().message());
  }

 private:
  Status read_line() {
    const std::string_view kind = in_.word();
    if (!has_version_) {
      return read_version(kind);
    }
    if (kind == "machine") {
      return read_machine();
    }
    if (kind == "fit") {
      return read_fit();
    }
    if (kind == "time") {
      return read_time();
    }
    return in_.refuse("'{}' is no kind of line; there are: machine, fit, time", kind);
  }

  Status read_version(std::string_view kind) {
    if (kind != "tuning") {
      return in_.refuse("expected 'tuning 1' in the first line");
    }
    std::int64_t version = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_value("tuning", {1, 1}, version));
    has_version_ = true;
    return in_.expect_end();
  }

  Status read_machine() {
    const std::string_view key = in_.word();
    if (key == "cores") {
      SENNIT_RETURN_IF_ERROR(in_.read_value(key, {1, 1 << 20}, machine_.cores));
      return in_.expect_end();
    }
    if (key == "memory_gib") {
      SENNIT_RETURN_IF_ERROR(in_.read_value(key, {1, 1 << 30}, machine_.memory_gib));
      return in_.expect_end();
    }
    if (key != "cpu" && key != "gpus") {
      return in_.refuse("a machine has no '{}'; it has: cpu, cores, memory_gib, gpus", key);
    }
    const std::string_view text = in_.rest();
    if (text.empty()) {
      return in_.refuse("expected a text after '{}'", key);
    }
    (key == "cpu" ? machine_.cpu : machine_.gpus) = std::string(text);
    return {};
  }

  Status read_fit() {
    MessageFit fit;
    std::int64_t ranks = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("ranks", {2, kMostRanks}, ranks));
    fit.ranks = static_cast<int>(ranks);
    SENNIT_RETURN_IF_ERROR(read_protocol(fit.direct));
    SENNIT_RETURN_IF_ERROR(in_.read_field("bytes", {1, kMostBytes}, fit.bytes));
    SENNIT_RETURN_IF_ERROR(in_.read_real("start_us", fit.start_us));
    SENNIT_RETURN_IF_ERROR(in_.read_real("gbps", fit.gbps));
    if (fit.gbps == 0) {
      return in_.refuse("a bandwidth of 0 carries nothing");
    }
    fits_.push_back(fit);
    return in_.expect_end();
  }

  Status read_time() {
    Timing timing;
    const Result<Collective> collective = parse_collective(in_.word());
    if (!collective.ok()) {
      return in_.refuse("{}", collective.status().message());
    }
    timing.collective = *collective;
    std::int64_t ranks = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("ranks", {2, kMostRanks}, ranks));
    timing.ranks = static_cast<int>(ranks);
    SENNIT_RETURN_IF_ERROR(in_.read_field("bytes", {0, kMostBytes}, timing.bytes));
    SENNIT_RETURN_IF_ERROR(in_.expect_key("algorithm"));
    const Result<const Algorithm*> algorithm = find_algorithm(timing.collective, in_.word());
    if (!algorithm.ok()) {
      return in_.refuse("{}", algorithm.status().message());
    }
    timing.algorithm = *algorithm;
    SENNIT_RETURN_IF_ERROR(read_protocol(timing.direct));
    SENNIT_RETURN_IF_ERROR(in_.read_field("tile", {0, kMostBytes}, timing.tile_bytes));
    SENNIT_RETURN_IF_ERROR(in_.read_real("us", timing.us));
    timings_.push_back(timing);
    return in_.expect_end();
  }

  Status read_protocol(bool& direct) {
    SENNIT_RETURN_IF_ERROR(in_.expect_key("protocol"));
    const std::string_view protocol = in_.word();
    direct = protocol == "direct";
    return direct || protocol == "slots"
               ? Status()
               : in_.refuse("'{}' is no protocol of host ranks; there are: slots, direct",
                            protocol);
  }

  LineReader in_;
  bool has_version_ = false;
  MachineKey machine_;
  std::vector<MessageFit> fits_;
  std::vector<Timing> timings_;
};

}  // namespace

Result<TuningTable> tuning_table_from_text(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).run();
}

}  // namespace sennit
