#include "values.hpp"

#include "coding.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sennit {
namespace {

constexpr int kNothing = Expressions::kNothing;
using Kind = Expressions::Kind;

class SymbolicRun {
 public:
  SymbolicRun(const Graph& graph,
              const Order& order,
              const Cells& cells,
              const Checks& checks,
              Expressions& expressions)
      : graph_(graph),
        program_(graph.program()),
        problem_(program_.schedule().problem),
        order_(order),
        cells_(cells),
        checks_(checks),
        expressions_(expressions),
        coding_(program_, checks, expressions) {
    for (const FlatStrand::StepInfo& info : program_.steps()) {
      any_pre_ = any_pre_ || info.step->pre;
      any_post_ = any_post_ || info.step->post;
    }
  }

  Status run(int tile) {
    fill_inputs();
    first_content_.assign(program_.messages().size(), 0);
    content_count_.assign(program_.messages().size(), 0);
    for (const int node : order_.nodes()) {
      const int step = graph_.step_of(node);
      // A step runs at its first node; the second one of a direct_get only marks its end.
      if (step >= 0 && graph_.node(step, tile) == node) {
        SENNIT_RETURN_IF_ERROR(run_step(step));
      }
    }
    return check_outputs();
  }

  ValueProof proof() && {
    return {.scaled = {.contributions = any_pre_, .sums = any_post_},
            .reproducible = reproducible_,
            .messages = std::move(contents_),
            .outputs = std::move(outputs_)};
  }

 private:
  using Values = std::vector<int>;

  template <typename... Args>
  Status wrong(int step, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kNotProved,
                "values: {} {}",
                program_.describe(step),
                fmt::format(format, std::forward<Args>(args)...));
  }

  void fill_inputs() {
    memory_.assign(static_cast<std::size_t>(cells_.count()), kNothing);
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      for (int i = 0; i < problem_.input_blocks(rank); ++i) {
        cell(rank, input_block(i)) = expressions_.leaf(rank, i);
      }
    }
  }

  int& cell(int rank, const Block& block) {
    return memory_[static_cast<std::size_t>(cells_.of(rank, block))];
  }

  Status read(int step, int rank, const Block& block, Values& into) {
    const int value = cell(rank, block);
    if (value == kNothing && checks_.initialised) {
      return wrong(step,
                   "reads {} of rank {}, which nothing has written",
                   describe(program_.schedule(), block),
                   rank);
    }
    into.push_back(value);
    return {};
  }

  Status run_step(int index) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    const Step& step = *info.step;
    if (step.kind == StepKind::kToken) {
      return run_token(index);
    }
    std::vector<Values> operands;
    SENNIT_RETURN_IF_ERROR(gather_from(index, operands));
    SENNIT_RETURN_IF_ERROR(gather_messages(index, operands));
    if (!step.order.empty()) {
      std::vector<Values> ordered;
      for (const int operand : step.order) {
        ordered.push_back(std::move(operands[static_cast<std::size_t>(operand)]));
      }
      operands = std::move(ordered);
    }
    Values results;
    for (std::size_t j = 0; j < operands.front().size(); ++j) {
      SENNIT_ASSIGN_OR_RETURN(const int result, combine(index, operands, j));
      results.push_back(result);
    }
    SENNIT_RETURN_IF_ERROR(coding_.code_results(index, results));
    return store(index, results);
  }

  Status run_token(int index) {
    for (const int message : program_.taken_by(index)) {
      const int length = content_count_[static_cast<std::size_t>(message)];
      if (length != 0 && checks_.lengths) {
        return wrong(index,
                     "takes a message of {} blocks of channel {} as if it were empty",
                     length,
                     program_.messages()[static_cast<std::size_t>(message)].channel);
      }
    }
    return {};
  }

  // The operands that a step reads out of its own blocks. `pre` scales those that come out of input
  // blocks: they are the contributions; messages and stored sums were scaled where they began.
  Status gather_from(int index, std::vector<Values>& operands) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    const Step& step = *info.step;
    if (step.from.empty()) {
      return {};
    }
    const std::size_t lists =
        step.kind == StepKind::kReduce ? step.from.size() / step.to.size() : 1;
    const std::size_t blocks = step.from.size() / lists;
    for (std::size_t i = 0; i < step.from.size(); ++i) {
      if (i % blocks == 0) {
        operands.emplace_back();
      }
      Values& values = operands.back();
      SENNIT_RETURN_IF_ERROR(read(index, info.rank, step.from[i], values));
      if (step.pre && step.from[i].space == Space::kInput) {
        SENNIT_RETURN_IF_ERROR(scale_contribution(index, step.from[i], values.back()));
      }
      SENNIT_RETURN_IF_ERROR(coding_.code_at_home(index, step.from[i], values.back()));
    }
    return {};
  }

  Status scale_contribution(int index, const Block& block, int& value) {
    if (value == kNothing || expressions_.node(value).kind != Kind::kLeaf) {
      return checks_.scaling ? wrong(index,
                                     "scales {} as a contribution, but it was overwritten before",
                                     describe(program_.schedule(), block))
                             : Status();
    }
    value = expressions_.scaled(value, false);
    return {};
  }

  Status gather_messages(int index, std::vector<Values>& operands) {
    for (const int number : program_.taken_by(index)) {
      SENNIT_RETURN_IF_ERROR(take(index, number, operands.emplace_back()));
    }
    const std::size_t length = operands.front().size();
    for (Values& values : operands) {
      if (values.size() != length && checks_.lengths) {
        return wrong(index, "combines {} blocks with {} blocks", length, values.size());
      }
      values.resize(length, kNothing);
    }
    return {};
  }

  // The blocks of a message, as `index` sees them.
  Status take(int index, int number, Values& values) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    const FlatStrand::Message& message = program_.messages()[static_cast<std::size_t>(number)];
    if (program_.schedule().channels[static_cast<std::size_t>(message.channel)].single_hop) {
      SENNIT_RETURN_IF_ERROR(check_last_hop(index, message.channel));
    }
    if (program_.is_exposed(message)) {
      const int sender = program_.steps()[static_cast<std::size_t>(message.sender)].rank;
      for (const Block& block : program_.source_blocks(message)) {
        SENNIT_RETURN_IF_ERROR(read(index, sender, block, values));
      }
      contents_.insert(contents_.end(), values.begin(), values.end());
      return {};
    }
    if (program_.is_put(message, index)) {
      for (const Block& block : info.step->to) {
        SENNIT_RETURN_IF_ERROR(read(index, info.rank, block, values));
      }
      return {};
    }
    const auto first = contents_.begin() + first_content_[static_cast<std::size_t>(number)];
    values.assign(first, first + content_count_[static_cast<std::size_t>(number)]);
    return program_.may_be_exposed(message) ? check_same_on_all_paths(index, message, values)
                                            : Status();
  }

  // The order in which this runs is one that every choice of paths allows, so a message that is
  // exposed is read now, and must be what a slot was filled with when it was sent.
  Status check_same_on_all_paths(int index,
                                 const FlatStrand::Message& message,
                                 const Values& in_slot) {
    const int sender = program_.steps()[static_cast<std::size_t>(message.sender)].rank;
    Values exposed;
    for (const Block& block : program_.source_blocks(message)) {
      exposed.push_back(cell(sender, block));
    }
    return exposed == in_slot || !checks_.same_on_all_paths
               ? Status()
               : wrong(index,
                       "takes from channel {} what depends on the path that its sender picks",
                       message.channel);
  }

  // Position `j` of the result.
  Result<int> combine(int index, const std::vector<Values>& operands, std::size_t j) {
    const Step& step = *program_.steps()[static_cast<std::size_t>(index)].step;
    Values values;
    for (const Values& operand : operands) {
      values.push_back(operand[j]);
    }
    if (std::ranges::count(values, kNothing) > 0) {
      return kNothing;
    }
    SENNIT_RETURN_IF_ERROR(check_operands(index, values));
    if (step.post) {
      SENNIT_RETURN_IF_ERROR(check_finished(index, values));
    }
    if (values.size() > 1) {
      return expressions_.reduce(step.post ? Kind::kFinishedReduction : Kind::kReduction, values);
    }
    return step.post ? expressions_.scaled(values[0], true) : values[0];
  }

  Status check_operands(int index, const Values& values) const {
    SENNIT_RETURN_IF_ERROR(coding_.check_operands(index, values));
    const Expressions::Node& first = expressions_.node(values[0]);
    for (std::size_t b = 1; b < values.size(); ++b) {
      const Expressions::Node& other = expressions_.node(values[b]);
      if (checks_.contributions && other.block != first.block) {
        return wrong(index, "adds block {} to block {}", other.block, first.block);
      }
      if (checks_.scaling &&
          (other.pre_scaled != first.pre_scaled || other.post_scaled || first.post_scaled)) {
        return wrong(index, "adds scaled and unscaled values of block {}", first.block);
      }
      for (std::size_t a = 0; a < b && checks_.contributions; ++a) {
        if (!expressions_.disjoint(values[a], values[b])) {
          return wrong(index,
                       "adds the contribution of rank {} to block {} twice",
                       shared_rank(values[a], values[b]),
                       first.block);
        }
      }
    }
    return {};
  }

  [[nodiscard]] int shared_rank(int a, int b) const {
    int rank = 0;
    while (!expressions_.contains(a, rank) || !expressions_.contains(b, rank)) {
      ++rank;
    }
    return rank;
  }

  Status check_finished(int index, const Values& values) const {
    if (!checks_.scaling) {
      return {};
    }
    int contributions = 0;
    for (const int value : values) {
      contributions += expressions_.contributions(value);
      if (expressions_.node(value).post_scaled) {
        return wrong(index, "scales the sum of block {} twice", expressions_.node(value).block);
      }
    }
    if (contributions != problem_.ranks) {
      return wrong(index,
                   "scales the sum of block {}, which has {} of {} contributions",
                   expressions_.node(values[0]).block,
                   contributions,
                   problem_.ranks);
    }
    return {};
  }

  Status store(int index, const Values& results) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    const auto taken = program_.taken_by(index);
    const bool was_put =
        taken.size() == 1 &&
        program_.is_put(program_.messages()[static_cast<std::size_t>(taken[0])], index);
    if (!was_put) {
      SENNIT_RETURN_IF_ERROR(write(index, index, results));
    }
    for (const int number : program_.sent_by(index)) {
      const FlatStrand::Message& message = program_.messages()[static_cast<std::size_t>(number)];
      if (program_.schedule().channels[static_cast<std::size_t>(message.channel)].single_hop) {
        SENNIT_RETURN_IF_ERROR(check_first_hop(index, info.rank, message.channel, results));
      }
      first_content_[static_cast<std::size_t>(number)] = static_cast<int>(contents_.size());
      content_count_[static_cast<std::size_t>(number)] = static_cast<int>(results.size());
      contents_.insert(contents_.end(), results.begin(), results.end());
      for (const int recipient : program_.recipients(message)) {
        if (program_.is_put(message, recipient)) {
          SENNIT_RETURN_IF_ERROR(write(index, recipient, results));
        }
      }
    }
    return {};
  }

  // Step `index` writes `values` into the `to` blocks of `owner`, itself or a recipient.
  Status write(int index, int owner, const Values& values) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(owner)];
    const std::vector<Block>& to = info.step->to;
    if (!to.empty() && to.size() != values.size() && checks_.lengths) {
      return wrong(index, "has {} blocks for the {} blocks of `to`", values.size(), to.size());
    }
    if (problem_.blocks_differ() && checks_.known_lengths) {
      SENNIT_RETURN_IF_ERROR(check_named_for(index, info.rank, to, values));
    }
    for (std::size_t j = 0; j < to.size(); ++j) {
      cell(info.rank, to[j]) = j < values.size() ? values[j] : kNothing;
    }
    return {};
  }

  // Where blocks differ in length, a block is as long as what it is named for, and so may never
  // hold anything else. Inputs are never written: they keep what they are named for.
  Status check_named_for(int index,
                         int owner,
                         const std::vector<Block>& to,
                         const Values& values) const {
    for (std::size_t j = 0; j < std::min(to.size(), values.size()); ++j) {
      if (values[j] != kNothing && !is_named_for(owner, to[j], values[j])) {
        return wrong(index,
                     "stores in {} of rank {} what may have another length",
                     describe(program_.schedule(), to[j]),
                     owner);
      }
    }
    return {};
  }

  [[nodiscard]] bool is_named_for(int owner, const Block& block, int value) const {
    const Expressions::Node& node = expressions_.node(value);
    if (!problem_.varying) {
      return node.block == block.index;  // of a cut vector, also in scratch
    }
    const Problem::Contributions wanted = problem_.expected(owner, block.index);
    return node.block == wanted.index && expressions_.is_leaf_of(value, wanted.ranks.front());
  }

  Status check_first_hop(int index, int rank, int channel, const Values& values) const {
    const bool straight = std::ranges::all_of(values, [&](int value) {
      return value != kNothing && expressions_.is_leaf_of(value, rank);
    });
    return straight || !checks_.single_hop
               ? Status()
               : wrong(index, "sends what is not its own on channel {} (single_hop)", channel);
  }

  Status check_last_hop(int index, int channel) const {
    const Step& step = *program_.steps()[static_cast<std::size_t>(index)].step;
    const bool final = step.out.empty() && std::ranges::all_of(step.to, [](const Block& block) {
                         return block.space == Space::kOutput;
                       });
    return final || !checks_.single_hop
               ? Status()
               : wrong(index,
                       "does not store what it takes from channel {} (single_hop) in its outputs",
                       channel);
  }

  Status check_outputs() {
    outputs_.clear();
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      for (int i = 0; i < problem_.output_blocks(rank); ++i) {
        const int value = cell(rank, output_block(i));
        outputs_.push_back(value);
        if (checks_.contributions) {
          SENNIT_RETURN_IF_ERROR(check_contributions(rank, i, value));
        }
        if (value == kNothing) {
          continue;
        }
        if (checks_.scaling) {
          SENNIT_RETURN_IF_ERROR(check_scaling(rank, i, value));
        }
        SENNIT_RETURN_IF_ERROR(coding_.check_output(rank, i, value));
        if (checks_.equal_trees) {
          SENNIT_RETURN_IF_ERROR(check_tree(rank, i, value));
        }
        reproducible_ = reproducible_ && (!is_reduction(problem_.collective) ||
                                          expressions_.is_canonical(value, problem_.ranks));
      }
    }
    return {};
  }

  Status check_contributions(int rank, int i, int value) const {
    const auto lacks = [&](auto&&... what) {
      return fail(Code::kNotProved, "values: output[{}] of rank {} {}", i, rank, what...);
    };
    if (value == kNothing) {
      return lacks("is never written");
    }
    const Problem::Contributions wanted = problem_.expected(rank, i);
    if (const int block = expressions_.node(value).block; block != wanted.index) {
      return lacks(fmt::format("holds block {} instead of block {}", block, wanted.index));
    }
    for (const int contributor : wanted.ranks) {
      if (!expressions_.contains(value, contributor)) {
        return lacks(fmt::format("lacks the contribution of rank {}", contributor));
      }
    }
    if (expressions_.contributions(value) != static_cast<int>(wanted.ranks.size())) {
      return lacks(fmt::format("has {} contributions instead of {}",
                               expressions_.contributions(value),
                               wanted.ranks.size()));
    }
    return {};
  }

  Status check_scaling(int rank, int i, int value) const {
    const Expressions::Node& node = expressions_.node(value);
    if ((any_pre_ || any_post_) && !is_reduction(problem_.collective)) {
      return fail(Code::kNotProved, "values: nothing is reduced, so nothing may be scaled");
    }
    if ((any_pre_ && !node.pre_scaled) || (any_post_ && !node.post_scaled)) {
      return fail(Code::kNotProved,
                  "values: output[{}] of rank {} holds {} not scaled, unlike others",
                  i,
                  rank,
                  any_pre_ && !node.pre_scaled ? "contributions that were" : "a sum that was");
    }
    return {};
  }

  // Ranks that hold the same block must hold the same bits.
  Status check_tree(int rank, int i, int value) {
    const Collective all[] = {
        Collective::kAllReduce, Collective::kBroadcast, Collective::kAllGather};
    if (!std::ranges::count(all, problem_.collective) || value == cell(0, output_block(i))) {
      return {};
    }
    return fail(Code::kNotProved,
                "values: output[{}] of rank {} has another expression tree than on rank 0, so the "
                "results could differ in their last bits",
                i,
                rank);
  }

  const Graph& graph_;
  const FlatStrand& program_;
  const Problem& problem_;
  const Order& order_;
  const Cells& cells_;
  const Checks& checks_;
  Expressions& expressions_;
  Coding coding_;
  bool any_pre_ = false;
  bool any_post_ = false;
  bool reproducible_ = true;
  Values outputs_;
  Values memory_;         // what each cell holds
  Values contents_;       // what the messages hold, end to end
  Values first_content_;  // of each message
  Values content_count_;
};

}  // namespace

Result<ValueProof> check_values(const Graph& graph,
                                const Order& order,
                                const Cells& cells,
                                const Checks& checks,
                                Expressions& expressions) {
  SymbolicRun run(graph, order, cells, checks, expressions);
  for (int tile = 0; tile < graph.period(); ++tile) {
    SENNIT_RETURN_IF_ERROR(run.run(tile));
  }
  return std::move(run).proof();
}

}  // namespace sennit
