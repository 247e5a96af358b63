#include "schedule/text.hpp"

#include <algorithm>
#include <iterator>

namespace sennit {
namespace {

// Shorter runs of blocks read better written out.
constexpr std::ptrdiff_t kShortestRange = 3;

class Printer {
 public:
  explicit Printer(const Schedule& schedule) : schedule_(schedule) {}

  std::string print_step(const Step& step) && {
    add("{} ", name(step.kind));
    add_step(step);
    return std::move(text_);
  }

  std::string print_blocks(const std::vector<Block>& blocks) && {
    add_blocks(blocks.begin(), blocks.end());
    return std::move(text_);
  }

  std::string print() && {
    const Problem& p = schedule_.problem;
    add("schedule {} {} ranks={} root={} cut={}{}\n",
        name(p.collective),
        schedule_.algorithm,
        p.ranks,
        p.root,
        p.cut,
        p.varying ? " varying" : "");
    for (const Scratch& s : schedule_.scratch) {
      add("scratch {} blocks={} depth={} place={}\n", s.name, s.blocks, s.depth, name(s.place));
    }
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      add_channel(c, schedule_.channels[c]);
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      add("rank {}\n", rank);
      for (std::size_t lane = 0; lane < schedule_.ranks[rank].size(); ++lane) {
        add_lane(lane, schedule_.ranks[rank][lane]);
      }
    }
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  // Calls print(item) for each item, with `separator` between them.
  template <typename List, typename Print>
  void add_joined(const List& list, std::string_view separator, Print print) {
    bool first = true;
    for (const auto& item : list) {
      text_ += first ? "" : separator;
      print(item);
      first = false;
    }
  }

  void add_channel(std::size_t index, const Channel& channel) {
    add("channel c{} {}.{} -> ", index, channel.writer.rank, channel.writer.lane);
    add_joined(channel.readers, ", ", [&](LaneId id) { add("{}.{}", id.rank, id.lane); });
    text_ += channel.single_hop ? " single_hop\n" : "\n";
  }

  void add_lane(std::size_t index, const Lane& lane) {
    add("  lane {} {}\n", index, name(lane.need));
    const std::size_t width =
        fmt::formatted_size("{}", std::max<std::size_t>(lane.steps.size(), 1) - 1);
    for (std::size_t s = 0; s < lane.steps.size(); ++s) {
      add("    {:>{}} {:<11} ", s, width, name(lane.steps[s].kind));
      add_step(lane.steps[s]);
      text_ += '\n';
    }
  }

  void add_step(const Step& step) {
    add_sources(step);
    if (!step.to.empty() || !step.out.empty()) {
      text_ += step.from.empty() && step.in.empty() ? "-> " : " -> ";
      add_blocks(step.to.begin(), step.to.end());
      text_ += step.to.empty() || step.out.empty() ? "" : ", ";
      add_channels(step.out, ", ");
    }
    text_ += step.pre ? "  pre" : "";
    text_ += step.post ? "  post" : "";
    if (!step.order.empty()) {
      text_ += "  order ";
      add_joined(step.order, ", ", [&](int operand) { add("{}", operand); });
    }
    if (!step.after.empty()) {
      text_ += "  after ";
      add_joined(step.after, ", ", [&](StepRef ref) { add("{}.{}", ref.lane, ref.step); });
    }
  }

  // The operands in the order in which they are numbered: blocks, then messages.
  void add_sources(const Step& step) {
    const auto operand_blocks = static_cast<std::ptrdiff_t>(
        step.kind == StepKind::kReduce ? step.to.size() : step.from.size());
    for (auto block = step.from.begin(); block != step.from.end(); block += operand_blocks) {
      text_ += block == step.from.begin() ? "" : " + ";
      add_blocks(block, block + operand_blocks);
    }
    text_ += step.from.empty() || step.in.empty() ? "" : " + ";
    add_channels(step.in, step.kind == StepKind::kToken ? ", " : " + ");
  }

  void add_channels(const std::vector<int>& channels, std::string_view separator) {
    add_joined(channels, separator, [&](int channel) { add("c{}", channel); });
  }

  using BlockIterator = std::vector<Block>::const_iterator;

  void add_blocks(BlockIterator begin, BlockIterator end) {
    for (auto block = begin; block != end;) {
      auto last = block;
      while (last + 1 != end && follows(*last, *(last + 1))) {
        ++last;
      }
      if (last - block + 1 < kShortestRange) {
        last = block;
      }
      text_ += block == begin ? "" : " ";
      add_range(*block, last->index);
      block = last + 1;
    }
  }

  static bool follows(const Block& block, const Block& next) {
    return next.space == block.space && next.scratch == block.scratch &&
           next.index == block.index + 1;
  }

  void add_range(const Block& first, int last_index) {
    text_ += first.space == Space::kScratch
                 ? std::string_view(schedule_.scratch[static_cast<std::size_t>(first.scratch)].name)
                 : name(first.space);
    if (first.index == last_index) {
      add("[{}]", first.index);
    } else {
      add("[{}..{}]", first.index, last_index);
    }
  }

  const Schedule& schedule_;
  std::string text_;
};

}  // namespace

std::string to_text(const Schedule& schedule) { return Printer(schedule).print(); }

std::string to_text(const Schedule& schedule, const Step& step) {
  return Printer(schedule).print_step(step);
}

std::string to_text(const Schedule& schedule, const std::vector<Block>& blocks) {
  return Printer(schedule).print_blocks(blocks);
}

}  // namespace sennit
