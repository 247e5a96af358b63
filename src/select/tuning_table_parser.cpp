// Reads the text form of a tuning table, line by line, so that a fault is told by line and column.
#include "select/tuning_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sennit {
namespace {

constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

class Parser {
 public:
  explicit Parser(std::string_view file_name) : file_name_(file_name) {}

  Result<TuningTable> run(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_number_;
      line_ = text.substr(0, end);
      at_ = 0;
      SENNIT_RETURN_IF_ERROR(read_line());
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!has_version_) {
      return refuse("expected 'tuning 1' in the first line");
    }
    if (machine_.cpu.empty() || machine_.cores == 0 || machine_.memory_gib == 0) {
      return refuse(
          "the table does not say of which machine it is: expected lines 'machine cpu', "
          "'machine cores' and 'machine memory_gib'");
    }
    Result<TuningTable> table =
        TuningTable::make(std::move(machine_), std::move(fits_), std::move(timings_));
    return table.ok() ? std::move(table) : refuse("{}", table.status().message());
  }

 private:
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kInvalidArgument,
                "{}:{}:{}: {}",
                file_name_,
                line_number_,
                word_begin_ + 1,
                fmt::format(format, std::forward<Args>(args)...));
  }

  // The next word of the line; empty at its end.
  std::string_view word() {
    constexpr std::string_view kBlank = " \t\r";
    word_begin_ = std::min(line_.find_first_not_of(kBlank, at_), line_.size());
    at_ = std::min(line_.find_first_of(kBlank, word_begin_), line_.size());
    return line_.substr(word_begin_, at_ - word_begin_);
  }

  Status read_line() {
    const std::string_view kind = word();
    if (kind.empty() || kind.starts_with('#')) {
      return {};
    }
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
    return refuse("'{}' is no kind of line; there are: machine, fit, time", kind);
  }

  Status read_version(std::string_view kind) {
    if (kind != "tuning") {
      return refuse("expected 'tuning 1' in the first line");
    }
    std::int64_t version = 0;
    SENNIT_RETURN_IF_ERROR(read_value("tuning", {1, 1}, version));
    has_version_ = true;
    return expect_end();
  }

  Status read_machine() {
    const std::string_view key = word();
    if (key == "cores") {
      SENNIT_RETURN_IF_ERROR(read_value(key, {1, 1 << 20}, machine_.cores));
      return expect_end();
    }
    if (key == "memory_gib") {
      SENNIT_RETURN_IF_ERROR(read_value(key, {1, 1 << 30}, machine_.memory_gib));
      return expect_end();
    }
    if (key != "cpu" && key != "gpus") {
      return refuse("a machine has no '{}'; it has: cpu, cores, memory_gib, gpus", key);
    }
    // The rest of the line is the text.
    if (word().empty()) {
      return refuse("expected a text after '{}'", key);
    }
    std::string_view rest = line_.substr(word_begin_);
    rest = rest.substr(0, rest.find_last_not_of(" \t\r") + 1);
    (key == "cpu" ? machine_.cpu : machine_.gpus) = std::string(rest);
    return {};
  }

  Status read_fit() {
    MessageFit fit;
    std::int64_t ranks = 0;
    SENNIT_RETURN_IF_ERROR(read_field("ranks", {2, kMostRanks}, ranks));
    fit.ranks = static_cast<int>(ranks);
    SENNIT_RETURN_IF_ERROR(read_protocol(fit.direct));
    SENNIT_RETURN_IF_ERROR(read_field("bytes", {1, kMostBytes}, fit.bytes));
    SENNIT_RETURN_IF_ERROR(read_real("start_us", fit.start_us));
    SENNIT_RETURN_IF_ERROR(read_real("gbps", fit.gbps));
    if (fit.gbps == 0) {
      return refuse("a bandwidth of 0 carries nothing");
    }
    fits_.push_back(fit);
    return expect_end();
  }

  Status read_time() {
    Timing timing;
    const Result<Collective> collective = parse_collective(word());
    if (!collective.ok()) {
      return refuse("{}", collective.status().message());
    }
    timing.collective = *collective;
    std::int64_t ranks = 0;
    SENNIT_RETURN_IF_ERROR(read_field("ranks", {2, kMostRanks}, ranks));
    timing.ranks = static_cast<int>(ranks);
    SENNIT_RETURN_IF_ERROR(read_field("bytes", {0, kMostBytes}, timing.bytes));
    SENNIT_RETURN_IF_ERROR(expect_key("algorithm"));
    const Result<const Algorithm*> algorithm = find_algorithm(timing.collective, word());
    if (!algorithm.ok()) {
      return refuse("{}", algorithm.status().message());
    }
    timing.algorithm = *algorithm;
    SENNIT_RETURN_IF_ERROR(read_protocol(timing.direct));
    SENNIT_RETURN_IF_ERROR(read_field("tile", {0, kMostBytes}, timing.tile_bytes));
    SENNIT_RETURN_IF_ERROR(read_real("us", timing.us));
    timings_.push_back(timing);
    return expect_end();
  }

  Status expect_key(std::string_view key) {
    const std::string_view found = word();
    return found == key ? Status() : refuse("expected '{}', found '{}'", key, found);
  }

  Status expect_end() {
    const std::string_view found = word();
    return found.empty() ? Status() : refuse("'{}' has no meaning here", found);
  }

  struct Range {
    std::int64_t least;
    std::int64_t most;
  };

  Status read_value(std::string_view key, Range range, std::int64_t& value) {
    const std::string_view text = word();
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size() || value < range.least ||
        value > range.most) {
      return refuse(
          "'{}' after '{}' is no whole number in {}..{}", text, key, range.least, range.most);
    }
    return {};
  }

  Status read_field(std::string_view key, Range range, std::int64_t& value) {
    SENNIT_RETURN_IF_ERROR(expect_key(key));
    return read_value(key, range, value);
  }

  Status read_real(std::string_view key, double& value) {
    SENNIT_RETURN_IF_ERROR(expect_key(key));
    const std::string_view text = word();
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    constexpr double kMost = 1e12;
    if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value) ||
        value < 0 || value > kMost) {
      return refuse("'{}' after '{}' is no number from 0 to {}", text, key, kMost);
    }
    return {};
  }

  Status read_protocol(bool& direct) {
    SENNIT_RETURN_IF_ERROR(expect_key("protocol"));
    const std::string_view protocol = word();
    direct = protocol == "direct";
    return direct || protocol == "slots"
               ? Status()
               : refuse("'{}' is no protocol of host ranks; there are: slots, direct", protocol);
  }

  std::string_view file_name_;
  std::string_view line_;
  std::size_t at_ = 0;          // behind the last word
  std::size_t word_begin_ = 0;  // of the last word: where a fault is
  int line_number_ = 0;
  bool has_version_ = false;
  MachineKey machine_;
  std::vector<MessageFit> fits_;
  std::vector<Timing> timings_;
};

}  // namespace

Result<TuningTable> tuning_table_from_text(std::string_view text, std::string_view file_name) {
  return Parser(file_name).run(text);
}

}  // namespace sennit
