#include "coding.hpp"

#include "codec/codec.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace sennit {
namespace {

template <typename... Args>
Status wrong(const FlatStrand& program,
             int step,
             fmt::format_string<Args...> format,
             Args&&... args) {
  return fail(Code::kNotProved,
              "values: {} {}",
              program.describe(step),
              fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

Status Coding::code_at_home(int step, const Block& block, int& value) {
  return program_.codes_at_home(step, block) ? code(step, *program_.strand().home_codec, value)
                                             : Status();
}

Status Coding::code_results(int step, std::vector<int>& results) {
  const auto sent = program_.sent_by(step);
  if (!is_lossy_ || sent.empty()) {
    return {};
  }
  const auto codec_of = [this](int number) {
    return program_.lossy_codec(program_.messages()[static_cast<std::size_t>(number)]);
  };
  const std::optional<Codec> codec = codec_of(sent.front());
  if (std::ranges::any_of(sent, [&](int number) { return codec_of(number) != codec; })) {
    return checks_.coding ? wrong(program_, step, "sends what it makes by more than one codec")
                          : Status();
  }
  const StepKind kind = program_.steps()[static_cast<std::size_t>(step)].step->kind;
  if (!codec || (kind == StepKind::kRecv && codec_of(program_.taken_by(step).front()) == codec)) {
    return {};
  }
  for (int& value : results) {
    SENNIT_RETURN_IF_ERROR(code(step, *codec, value));
  }
  return {};
}

Status Coding::code(int step, Codec codec, int& value) {
  if (value == Expressions::kNothing) {
    return {};
  }
  const Expressions::Node& node = expressions_.node(value);
  const int operand =
      node.kind == Expressions::Kind::kScaled ? expressions_.operands(value).front() : value;
  if (checks_.coding && expressions_.node(operand).kind == Expressions::Kind::kCoded) {
    return wrong(
        program_, step, "codes block {} by {} after it was coded", node.block, name(codec));
  }
  value = expressions_.coded(static_cast<std::uint8_t>(codec), value);
  return {};
}

Status Coding::check_operands(int step, const std::vector<int>& values) const {
  if (!is_lossy_ || !checks_.coding || values.size() < 2) {
    return {};
  }
  for (const int value : values) {
    const Expressions::Node& node = expressions_.node(value);
    if (!node.coded) {
      return wrong(
          program_, step, "adds to block {} a contribution that was not coded", node.block);
    }
    if (node.kind != Expressions::Kind::kCoded ||
        !expressions_.is_contribution(expressions_.uncoded(value))) {
      return wrong(program_,
                   step,
                   "adds to block {} a sum of contributions that were coded: a schedule that adds "
                   "on the way cannot have a lossy codec",
                   node.block);
    }
  }
  return {};
}

Status Coding::check_output(int rank, int index, int value) const {
  if (!is_lossy_ || !checks_.coding) {
    return {};
  }
  const Problem& problem = program_.schedule().problem;
  const bool has_one_receiver = problem.collective == Collective::kAllToAll ||
                                problem.collective == Collective::kGather ||
                                problem.collective == Collective::kScatter;
  const bool is_exact = has_one_receiver && problem.expected(rank, index).ranks.front() == rank;
  return expressions_.node(value).coded != is_exact
             ? Status()
             : fail(Code::kNotProved,
                    "values: output[{}] of rank {} {}",
                    index,
                    rank,
                    is_exact ? "was coded, but stays at home, where it has to be exact"
                             : "was not coded, unlike others");
}

}  // namespace sennit
