// Reads the text form line by line. Each line is a list of tokens; the first says what the line is.
// What one line can show to be wrong is refused where it stands; what needs the whole schedule
// (messages sent and taken equally often, steps named by `after`) is left to check_structure.
#include "schedule/text.hpp"
#include "schedule/tokens.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace sennit {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

// The tokens of a text, line by line, and what is wrong with them.
class TokenReader {
 public:
  TokenReader(std::string_view text, std::string_view file_name)
      : text_(text), file_name_(file_name) {}

  // False when there is no further line.
  bool next_line() {
    if (text_.empty()) {
      return false;
    }
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    ++line_;
    tokens_ = tokenize(text_.substr(0, end));
    next_ = 0;
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return true;
  }
  [[nodiscard]] std::string_view file_name() const { return file_name_; }
  [[nodiscard]] int line() const { return line_; }

  [[nodiscard]] const Token& peek() const { return tokens_[next_]; }
  // The token after it, which is none at the end of the line.
  [[nodiscard]] bool is_next(std::string_view symbol) const {
    return !at_end() && tokens_[next_ + 1].is(symbol);
  }
  [[nodiscard]] bool at_end() const { return peek().kind == TokenKind::kEnd; }
  // The last token is kEnd and is never passed, so there is always one to look at.
  void skip() { next_ += at_end() ? 0 : 1; }
  bool skip_if(std::string_view word_or_symbol) {
    const bool found = peek().is(word_or_symbol);
    if (found) {
      skip();
    }
    return found;
  }

  template <typename... Args>
  Status wrong(const Token& token, fmt::format_string<Args...> format, Args&&... args) const {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}:{}:{}: {}",
                              file_name_,
                              line_,
                              token.column,
                              fmt::format(format, std::forward<Args>(args)...)));
  }

  [[nodiscard]] Status unexpected(std::string_view expected) const {
    // Cut, because the token of a text that is no schedule may be a megabyte.
    constexpr std::size_t kShown = 40;
    return at_end()
               ? wrong(peek(), "the line ended, expected {}", expected)
               : wrong(peek(), "found '{}', expected {}", peek().text.substr(0, kShown), expected);
  }

  Status expect(std::string_view word_or_symbol) {
    return skip_if(word_or_symbol) ? Status() : unexpected(fmt::format("'{}'", word_or_symbol));
  }

  Result<std::string_view> word(std::string_view what) {
    if (peek().kind != TokenKind::kWord) {
      return unexpected(what);
    }
    const std::string_view text = peek().text;
    skip();
    return text;
  }

  Result<int> number_from(
      const Token& token, std::string_view digits, std::string_view what, int min, int max) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < min ||
        value > max) {
      constexpr std::size_t kShown = 20;
      return wrong(token,
                   "{} is {}, expected {}",
                   what,
                   digits.substr(0, kShown),
                   min > max    ? "none"
                   : min == max ? fmt::format("{}", min)
                                : fmt::format("{} to {}", min, max));
    }
    return value;
  }

  Result<int> number(std::string_view what, int min, int max) {
    const Token token = peek();
    if (token.kind != TokenKind::kNumber) {
      return unexpected(what);
    }
    skip();
    return number_from(token, token.text, what, min, max);
  }

  // key=number
  Status field(std::string_view key, int min, int max, int& value) {
    SENNIT_RETURN_IF_ERROR(expect(key));
    SENNIT_RETURN_IF_ERROR(expect("="));
    SENNIT_ASSIGN_OR_RETURN(value, number(key, min, max));
    return {};
  }

  // One of the enumerators in `rows`, by its name.
  template <typename Enum, std::size_t kSize>
  Status one_of(const std::array<Enum, kSize>& rows, Enum& value) {
    std::string names;
    for (const Enum row : rows) {
      if (skip_if(name(row))) {
        value = row;
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(name(row));
    }
    return unexpected("one of: " + names);
  }

 private:
  std::string_view text_;
  std::string_view file_name_;
  int line_ = 0;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

class Parser : private TokenReader {
 public:
  using TokenReader::TokenReader;

  Result<Schedule> run() && {
    while (next_line()) {
      if (!at_end()) {
        SENNIT_RETURN_IF_ERROR(parse_line());
        SENNIT_RETURN_IF_ERROR(at_end() ? Status() : unexpected("the end of the line"));
      }
    }
    if (schedule_line_ == 0) {
      return fail(Code::kInvalidArgument,
                  "{}:{}:1: the text ended, expected 'schedule'",
                  file_name(),
                  line() + 1);
    }
    const Status structure = check_structure(schedule_);
    if (!structure.ok()) {
      return structure.in(fmt::format("{}:{}:1", file_name(), schedule_line_));
    }
    return std::move(schedule_);
  }

 private:
  // ---- Lines

  Status parse_line() {
    if (schedule_line_ == 0) {
      return parse_schedule();
    }
    const bool in_head = schedule_.ranks.empty();
    if (in_head && skip_if("scratch")) {
      return parse_scratch();
    }
    if (in_head && skip_if("channel")) {
      return parse_channel();
    }
    if (skip_if("rank")) {
      return parse_rank();
    }
    if (!in_head && skip_if("lane")) {
      return parse_lane();
    }
    const bool in_lane = !in_head && !schedule_.ranks.back().empty();
    if (in_lane && peek().kind == TokenKind::kNumber) {
      return parse_step();
    }
    return unexpected(in_head   ? "'scratch', 'channel' or 'rank'"
                      : in_lane ? "a step, 'lane' or 'rank'"
                                : "'lane' or 'rank'");
  }

  Status parse_schedule() {
    Problem& p = schedule_.problem;
    SENNIT_RETURN_IF_ERROR(expect("schedule"));
    const Token collective = peek();
    SENNIT_ASSIGN_OR_RETURN(const std::string_view collective_name, word("the collective"));
    const Result<Collective> parsed = parse_collective(collective_name);
    if (!parsed.ok()) {
      return wrong(collective, "{}", parsed.status().message());
    }
    p.collective = *parsed;
    SENNIT_ASSIGN_OR_RETURN(schedule_.algorithm, word("the name of the algorithm"));
    SENNIT_RETURN_IF_ERROR(field("ranks", 1, kMaxTextRanks, p.ranks));
    SENNIT_RETURN_IF_ERROR(field("root", 0, p.ranks - 1, p.root));
    SENNIT_RETURN_IF_ERROR(field("cut", 1, kMaxTextBlocks, p.cut));
    p.varying = skip_if("varying");
    schedule_line_ = line();
    return {};
  }

  Status parse_scratch() {
    Scratch scratch;
    const Token at = peek();
    SENNIT_ASSIGN_OR_RETURN(scratch.name, word("the name of the scratch"));
    if (space_of(scratch.name) || find_scratch(scratch.name) != schedule_.scratch.size()) {
      return wrong(at, "there is a buffer '{}' already, expected another name", scratch.name);
    }
    SENNIT_RETURN_IF_ERROR(field("blocks", 1, kMaxTextBlocks, scratch.blocks));
    SENNIT_RETURN_IF_ERROR(field("depth", 1, kMaxTextDepth, scratch.depth));
    SENNIT_RETURN_IF_ERROR(expect("place"));
    SENNIT_RETURN_IF_ERROR(expect("="));
    SENNIT_RETURN_IF_ERROR(one_of(kPlaces, scratch.place));
    schedule_.scratch.push_back(std::move(scratch));
    return {};
  }

  Status parse_channel() {
    Channel channel;
    const int index = static_cast<int>(schedule_.channels.size());
    SENNIT_RETURN_IF_ERROR(channel_name(index, index).status());
    SENNIT_RETURN_IF_ERROR(lane_id(channel.writer));
    SENNIT_RETURN_IF_ERROR(expect("->"));
    do {
      SENNIT_RETURN_IF_ERROR(lane_id(channel.readers.emplace_back()));
    } while (skip_if(","));
    channel.single_hop = skip_if("single_hop");
    schedule_.channels.push_back(std::move(channel));
    return {};
  }

  Status lane_id(LaneId& id) {
    SENNIT_ASSIGN_OR_RETURN(id.rank, number("a rank", 0, schedule_.problem.ranks - 1));
    SENNIT_RETURN_IF_ERROR(expect("."));
    SENNIT_ASSIGN_OR_RETURN(id.lane, number("a lane", 0, kMaxInt));
    return {};
  }

  Status parse_rank() {
    const int next_rank = static_cast<int>(schedule_.ranks.size());
    if (next_rank == schedule_.problem.ranks) {
      return unexpected(fmt::format("no more than {} ranks", next_rank));
    }
    SENNIT_RETURN_IF_ERROR(number("the rank", next_rank, next_rank).status());
    schedule_.ranks.emplace_back();
    return {};
  }

  Status parse_lane() {
    auto& lanes = schedule_.ranks.back();
    const int next_lane = static_cast<int>(lanes.size());
    SENNIT_RETURN_IF_ERROR(number("the lane", next_lane, next_lane).status());
    Lane lane;
    SENNIT_RETURN_IF_ERROR(one_of(kNeeds, lane.need));
    lanes.push_back(std::move(lane));
    return {};
  }

  // ---- Steps

  Status parse_step() {
    auto& steps = schedule_.ranks.back().back().steps;
    const int index = static_cast<int>(steps.size());
    SENNIT_RETURN_IF_ERROR(number("the step", index, index).status());
    Step step;
    SENNIT_RETURN_IF_ERROR(one_of(kStepKinds, step.kind));
    const Token operands = peek();
    std::size_t operand_blocks = 0;
    SENNIT_RETURN_IF_ERROR(parse_sources(step, operand_blocks));
    if (skip_if("->")) {
      SENNIT_RETURN_IF_ERROR(parse_destinations(step));
    }
    if (step.kind == StepKind::kReduce && operand_blocks != step.to.size()) {
      return wrong(operands,
                   "operands of {} blocks, expected as many as at the destination, {}",
                   operand_blocks,
                   step.to.size());
    }
    SENNIT_RETURN_IF_ERROR(parse_attributes(step));
    steps.push_back(std::move(step));
    return {};
  }

  [[nodiscard]] bool at_blocks() const { return peek().kind == TokenKind::kWord && is_next("["); }
  [[nodiscard]] bool at_attribute() const {
    return peek().is("pre") || peek().is("post") || peek().is("order") || peek().is("after");
  }

  // Operands: blocks (several lists for a reduce, else one, which stands first), then messages.
  Status parse_sources(Step& step, std::size_t& operand_blocks) {
    if (at_end() || peek().is("->") || (at_attribute() && !at_blocks())) {
      return {};
    }
    const std::string_view separator = step.kind == StepKind::kToken ? "," : "+";
    do {
      if (!at_blocks() || !step.in.empty() ||
          (!step.from.empty() && step.kind != StepKind::kReduce)) {
        SENNIT_RETURN_IF_ERROR(add_channel(step.in));
        continue;
      }
      const Token operand = peek();
      const std::size_t before = step.from.size();
      SENNIT_RETURN_IF_ERROR(add_blocks(step.from));
      const std::size_t blocks = step.from.size() - before;
      operand_blocks = before == 0 ? blocks : operand_blocks;
      if (blocks != operand_blocks) {
        return wrong(operand,
                     "an operand of {} blocks, expected {} as in the first",
                     blocks,
                     operand_blocks);
      }
    } while (skip_if(separator));
    return {};
  }

  // At most one list of blocks, which stands first, then channels.
  Status parse_destinations(Step& step) {
    do {
      if (at_blocks() && step.to.empty() && step.out.empty()) {
        SENNIT_RETURN_IF_ERROR(add_blocks(step.to));
      } else {
        SENNIT_RETURN_IF_ERROR(add_channel(step.out));
      }
    } while (skip_if(","));
    return {};
  }

  Status parse_attributes(Step& step) {
    step.pre = skip_if("pre");
    step.post = skip_if("post");
    if (skip_if("order")) {
      do {
        SENNIT_ASSIGN_OR_RETURN(const int operand, number("an operand", 0, kMaxInt));
        step.order.push_back(operand);
      } while (skip_if(","));
    }
    if (skip_if("after")) {
      do {
        StepRef& ref = step.after.emplace_back();
        SENNIT_ASSIGN_OR_RETURN(ref.lane, number("a lane", 0, kMaxInt));
        SENNIT_RETURN_IF_ERROR(expect("."));
        SENNIT_ASSIGN_OR_RETURN(ref.step, number("a step", 0, kMaxInt));
      } while (skip_if(","));
    }
    return at_end() ? Status()
                    : unexpected("'pre', 'post', 'order', 'after', in this order, or the end");
  }

  // c<index>
  Result<int> channel_name(int min, int max) {
    const Token token = peek();
    if (token.kind != TokenKind::kWord || !token.text.starts_with('c') || token.text.size() == 1) {
      return unexpected("a channel, as c0");
    }
    skip();
    return number_from(token, token.text.substr(1), "the channel", min, max);
  }

  Status add_channel(std::vector<int>& channels) {
    SENNIT_ASSIGN_OR_RETURN(const int channel,
                            channel_name(0, static_cast<int>(schedule_.channels.size()) - 1));
    channels.push_back(channel);
    return {};
  }

  // name[index] or name[first..last], side by side.
  Status add_blocks(std::vector<Block>& blocks) {
    while (at_blocks()) {
      Block block;
      int limit = 0;
      SENNIT_RETURN_IF_ERROR(buffer(block, limit));
      SENNIT_RETURN_IF_ERROR(expect("["));
      SENNIT_ASSIGN_OR_RETURN(block.index, number("the block", 0, limit - 1));
      int last = block.index;
      if (skip_if("..")) {
        const Token end = peek();
        SENNIT_ASSIGN_OR_RETURN(last, number("the last block", block.index, limit - 1));
        range_blocks_ += last - block.index;
        if (range_blocks_ > kMaxTextRangeBlocks) {
          return wrong(end, "the ranges make too many blocks, expected {}", kMaxTextRangeBlocks);
        }
      }
      SENNIT_RETURN_IF_ERROR(expect("]"));
      for (; block.index <= last; ++block.index) {
        blocks.push_back(block);
      }
    }
    return {};
  }

  // The name of a buffer: fills all of `block` but its index, and how many blocks there are.
  Status buffer(Block& block, int& limit) {
    const std::string_view text = peek().text;
    const int rank = static_cast<int>(schedule_.ranks.size()) - 1;
    const std::size_t scratch = find_scratch(text);
    if (const auto space = space_of(text)) {
      block.space = *space;
      limit = block.space == Space::kInput ? schedule_.problem.input_blocks(rank)
                                           : schedule_.problem.output_blocks(rank);
    } else if (scratch < schedule_.scratch.size()) {
      block.space = Space::kScratch;
      block.scratch = static_cast<int>(scratch);
      limit = schedule_.scratch[scratch].blocks;
    } else {
      return unexpected("'input', 'output' or the name of a scratch");
    }
    skip();
    return {};
  }

  static std::optional<Space> space_of(std::string_view text) {
    for (const Space space : {Space::kInput, Space::kOutput}) {
      if (text == name(space)) {
        return space;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t find_scratch(std::string_view text) const {
    const auto found = std::ranges::find(schedule_.scratch, text, &Scratch::name);
    return static_cast<std::size_t>(found - schedule_.scratch.begin());
  }

  int schedule_line_ = 0;  // 0: not read yet
  int range_blocks_ = 0;
  Schedule schedule_;
};

}  // namespace

Result<Schedule> schedule_from_text(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).run();
}

}  // namespace sennit
