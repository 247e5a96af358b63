#include "races.hpp"

#include <algorithm>
#include <tuple>

namespace sennit {
namespace {

struct Access {
  int cell = 0;
  int node = 0;
  bool write = false;
};

// The memory events of one tile. Which step reads a source and which one writes a destination
// depends on the protocol of the channel between them.
class Accesses {
 public:
  Accesses(const Graph& graph, const Cells& cells, int tile)
      : graph_(graph), program_(graph.program()), cells_(cells), tile_(tile) {
    for (std::size_t s = 0; s < program_.steps().size(); ++s) {
      add_step(static_cast<int>(s));
    }
  }

  std::vector<Access>& all() { return accesses_; }

  // The reads of messages that are exposed only if the sender of a bundle picks such a path.
  struct PerhapsRead {
    int cell = 0;
    int node = 0;  // of the recipient
    Graph::Fetch fetch;
  };
  [[nodiscard]] const std::vector<PerhapsRead>& perhaps() const { return perhaps_; }

 private:
  void add(int step, int rank, const Block& block, bool write) {
    accesses_.push_back({cells_.of(rank, block), graph_.node(step, tile_), write});
  }

  void add_step(int index) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    const Step& step = *info.step;
    if (step.kind == StepKind::kCopy) {
      add_copy(index);
      return;
    }
    bool put = false;
    for (const int number : program_.taken_by(index)) {
      const FlatStrand::Message& message = program_.messages()[static_cast<std::size_t>(number)];
      put = put || program_.is_put(message, index);
      const int sender = program_.steps()[static_cast<std::size_t>(message.sender)].rank;
      if (program_.is_exposed(message)) {
        for (const Block& block : program_.source_blocks(message)) {
          add(index, sender, block, false);
        }
      } else if (program_.may_be_exposed(message)) {
        for (const Block& block : program_.source_blocks(message)) {
          perhaps_.push_back({.cell = cells_.of(sender, block),
                              .node = graph_.node(index, tile_),
                              .fetch = graph_.fetch(number, index, tile_)});
        }
      }
    }
    // What is only exposed is not read by the sender; what was put is read when it is passed on.
    const bool copies_out = std::ranges::any_of(program_.sent_by(index), [this](int number) {
      return !program_.is_exposed(program_.messages()[static_cast<std::size_t>(number)]);
    });
    if (step.kind != StepKind::kSend || copies_out) {
      for (const Block& block : step.from) {
        add(index, info.rank, block, false);
      }
    }
    for (const Block& block : step.to) {
      if (!put) {
        add(index, info.rank, block, true);
      } else if (copies_out) {
        add(index, info.rank, block, false);
      }
    }
    add_puts(index);
    add_kept(index);
  }

  // What may have to be sent again is read until the step ends.
  void add_kept(int index) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    for (const int number : program_.sent_by(index)) {
      const FlatStrand::Message& message = program_.messages()[static_cast<std::size_t>(number)];
      if (program_.is_kept(message)) {
        for (const Block& block : program_.source_blocks(message)) {
          accesses_.push_back({.cell = cells_.of(info.rank, block),
                               .node = graph_.finish(graph_.node(index, tile_))});
        }
      }
    }
  }

  // Copying a cell onto itself, as some algorithms do in place, is nothing, unless a codec changes
  // what is copied.
  void add_copy(int index) {
    const FlatStrand::StepInfo& info = program_.steps()[static_cast<std::size_t>(index)];
    for (std::size_t j = 0; j < info.step->from.size(); ++j) {
      const Block& from = info.step->from[j];
      const Block& to = info.step->to[j];
      if (cells_.of(info.rank, from) != cells_.of(info.rank, to) ||
          program_.codes_at_home(index, from)) {
        add(index, info.rank, from, false);
        add(index, info.rank, to, true);
      }
    }
  }

  void add_puts(int index) {
    for (const int number : program_.sent_by(index)) {
      const FlatStrand::Message& message = program_.messages()[static_cast<std::size_t>(number)];
      for (const int recipient : program_.recipients(message)) {
        if (program_.is_put(message, recipient)) {
          const FlatStrand::StepInfo& owner = program_.steps()[static_cast<std::size_t>(recipient)];
          for (const Block& block : owner.step->to) {
            add(index, owner.rank, block, true);
          }
        }
      }
    }
  }

  const Graph& graph_;
  const FlatStrand& program_;
  const Cells& cells_;
  int tile_;
  std::vector<Access> accesses_;
  std::vector<PerhapsRead> perhaps_;
};

struct Conflict {
  Access first;
  Access second;
};

// The pairs of accesses that have to be ordered. Along one cell in topological order it is enough
// to look at each write and the reads around it: all other pairs follow.
class Conflicts {
 public:
  Conflicts(const Graph& graph, const Order& order) : graph_(graph), order_(order) {}

  void add_cell(std::span<const Access> accesses) {
    const Access* last_write = nullptr;
    std::vector<const Access*> reads;
    for (const Access& access : accesses) {
      if (!access.write) {
        add(last_write, access);
        reads.push_back(&access);
        continue;
      }
      add(last_write, access);
      for (const Access* read : reads) {
        add(read, access);
      }
      reads.clear();
      last_write = &access;
    }
  }

  // A read by choice against all writes of its cell, the way round in which `execution` has them.
  void add_perhaps(const Accesses::PerhapsRead& read,
                   std::span<const Access> of_cell,
                   const Order& execution) {
    for (const Access& write : of_cell) {
      if (!write.write) {
        continue;
      }
      const Access reading{.cell = read.cell, .node = read.node};
      if (execution.position(read.node) < execution.position(write.node)) {
        pairs_.push_back({order_.position(read.fetch.before), order_.position(write.node)});
        conflicts_.push_back({reading, write});
      } else {
        pairs_.push_back({order_.position(write.node), order_.position(read.fetch.after)});
        conflicts_.push_back({write, reading});
      }
    }
  }

  Status check(const Cells& cells) const {
    // A pair that stands the wrong way round cannot be ordered the right way.
    const auto reversed =
        std::ranges::find_if(pairs_, [](const Order::Pair& pair) { return pair.from >= pair.to; });
    const int bad = reversed != pairs_.end() ? static_cast<int>(reversed - pairs_.begin())
                                             : order_.first_unordered(pairs_);
    if (bad < 0) {
      return {};
    }
    const Conflict& conflict = conflicts_[static_cast<std::size_t>(bad)];
    const FlatStrand& program = graph_.program();
    return fail(Code::kNotProved,
                "race: {} {} {} while {} {} it: nothing orders the two",
                program.describe(graph_.step_of(conflict.second.node)),
                conflict.second.write ? "writes" : "reads",
                cells.describe(conflict.second.cell),
                program.describe(graph_.step_of(conflict.first.node)),
                conflict.first.write ? "writes" : "reads");
  }

 private:
  void add(const Access* first, const Access& second) {
    // Steps of one lane are ordered anyway.
    if (first == nullptr || lane(*first) == lane(second)) {
      return;
    }
    pairs_.push_back({order_.position(first->node), order_.position(second.node)});
    conflicts_.push_back({*first, second});
  }

  [[nodiscard]] int lane(const Access& access) const {
    const auto step = static_cast<std::size_t>(graph_.step_of(access.node));
    return graph_.program().steps()[step].lane;
  }

  const Graph& graph_;
  const Order& order_;
  std::vector<Order::Pair> pairs_;
  std::vector<Conflict> conflicts_;
};

// Calls `visit` with the accesses of each cell; they are sorted by cell.
template <typename Visit>
void for_each_cell(std::span<const Access> accesses, Visit visit) {
  for (std::size_t begin = 0, end = 0; begin < accesses.size(); begin = end) {
    while (end < accesses.size() && accesses[end].cell == accesses[begin].cell) {
      ++end;
    }
    visit(accesses.subspan(begin, end - begin));
  }
}

// The accesses to cells that somebody writes: the others cannot race.
std::vector<Access> written_cells_only(std::span<const Access> accesses, int cell_count) {
  std::vector<bool> written(static_cast<std::size_t>(cell_count), false);
  for (const Access& access : accesses) {
    if (access.write) {
      written[static_cast<std::size_t>(access.cell)] = true;
    }
  }
  std::vector<Access> kept;
  std::ranges::copy_if(accesses, std::back_inserter(kept), [&](const Access& access) {
    return written[static_cast<std::size_t>(access.cell)];
  });
  return kept;
}

bool is_put_into_scratch(const FlatStrand& program) {
  return std::ranges::any_of(program.messages(), [&](const FlatStrand::Message& message) {
    return std::ranges::any_of(program.recipients(message), [&](int recipient) {
      const Step& step = *program.steps()[static_cast<std::size_t>(recipient)].step;
      return program.is_put(message, recipient) &&
             std::ranges::any_of(step.to,
                                 [](const Block& block) { return block.space == Space::kScratch; });
    });
  });
}

// For each cell the depth of its scratch, 0 for inputs and outputs.
std::vector<int> depth_of_cells(const Cells& cells) {
  std::vector<int> depth(static_cast<std::size_t>(cells.count()), 0);
  const Schedule& schedule = cells.schedule();
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    for (std::size_t s = 0; s < schedule.scratch.size(); ++s) {
      for (int i = 0; i < schedule.scratch[s].blocks; ++i) {
        const int cell = cells.of(rank, scratch_block(static_cast<int>(s), i));
        depth[static_cast<std::size_t>(cell)] = schedule.scratch[s].depth;
      }
    }
  }
  return depth;
}

}  // namespace

Status check_races(const Graph& graph,
                   const Order& order,
                   const Order& execution,
                   const Cells& cells) {
  for (int tile = 0; tile < graph.period(); ++tile) {
    Accesses events(graph, cells, tile);
    std::vector<Access> accesses = written_cells_only(events.all(), cells.count());
    // Within a step, reading comes before writing.
    std::ranges::sort(accesses, {}, [&](const Access& access) {
      return std::tuple(access.cell, order.position(access.node), access.write);
    });
    Conflicts conflicts(graph, order);
    for_each_cell(accesses, [&](std::span<const Access> cell) { conflicts.add_cell(cell); });
    for (const Accesses::PerhapsRead& read : events.perhaps()) {
      conflicts.add_perhaps(
          read, std::ranges::equal_range(accesses, read.cell, {}, &Access::cell), execution);
    }
    SENNIT_RETURN_IF_ERROR(conflicts.check(cells));
  }
  return {};
}

Status check_overlaps(const FlatStrand& program, const Cells& cells) {
  for (std::size_t s = 0; s < program.steps().size(); ++s) {
    const FlatStrand::StepInfo& info = program.steps()[s];
    const Step& step = *info.step;
    for (std::size_t j = 0; j < step.to.size(); ++j) {
      const int written = cells.of(info.rank, step.to[j]);
      const auto clash = [&](const std::vector<Block>& list, std::size_t period, bool same_place) {
        for (std::size_t i = 0; i < list.size(); ++i) {
          if ((i % period == j) == same_place && cells.of(info.rank, list[i]) == written) {
            return true;
          }
        }
        return false;
      };
      if (clash(step.from, step.to.size(), false) || clash(step.to, step.to.size(), false)) {
        return fail(Code::kNotProved,
                    "race: {} writes {} at place {} of its lists and uses it at another place, too",
                    program.describe(static_cast<int>(s)),
                    cells.describe(written),
                    j);
      }
    }
  }
  return {};
}

Status check_scratch_reuse(const Graph& graph, const Cells& cells) {
  // A step waits for all users of the scratch instances that its own rank's steps name, and a
  // sender waits for its reader. So only a put, which comes from a step of another rank, can reach
  // an instance too early.
  if (!is_put_into_scratch(graph.program())) {
    return {};
  }
  const std::vector<int> depth = depth_of_cells(cells);
  const int period = graph.period();
  const int deepest = *std::ranges::max_element(depth);
  const Order unrolled(graph, (period - 1 + deepest) / period + 1);
  std::vector<std::vector<Access>> accesses;  // [tile]
  for (int tile = 0; tile < period; ++tile) {
    accesses.push_back(Accesses(graph, cells, tile).all());
    std::erase_if(accesses.back(), [&](const Access& access) {
      return depth[static_cast<std::size_t>(access.cell)] == 0;
    });
    std::ranges::sort(accesses.back(), {}, &Access::cell);
  }
  std::vector<Order::Pair> pairs;
  std::vector<Conflict> conflicts;
  for (int tile = 0; tile < period; ++tile) {
    for_each_cell(accesses[static_cast<std::size_t>(tile)], [&](std::span<const Access> cell) {
      const int later = tile + depth[static_cast<std::size_t>(cell.front().cell)];
      const auto again = std::ranges::equal_range(
          accesses[static_cast<std::size_t>(later % period)], cell.front().cell, {}, &Access::cell);
      for (const Access& first : cell) {
        for (const Access& second : again) {
          if (first.write || second.write) {
            pairs.push_back({unrolled.position(first.node),
                             unrolled.position(second.node + later / period * graph.size())});
            conflicts.push_back({first, second});
          }
        }
      }
    });
  }
  // A pair that stands the wrong way round cannot be ordered the right way.
  const auto reversed =
      std::ranges::find_if(pairs, [](const Order::Pair& pair) { return pair.from >= pair.to; });
  const int bad = reversed != pairs.end() ? static_cast<int>(reversed - pairs.begin())
                                          : unrolled.first_unordered(pairs);
  if (bad < 0) {
    return {};
  }
  const auto& [first, second] = conflicts[static_cast<std::size_t>(bad)];
  return fail(Code::kNotProved,
              "race: {} {} {} for a later tile while {} may still {} it for an earlier one: the "
              "scratch needs more depth or the channel fewer slots",
              graph.program().describe(graph.step_of(second.node)),
              second.write ? "writes" : "reads",
              cells.describe(second.cell),
              graph.program().describe(graph.step_of(first.node)),
              first.write ? "write" : "read");
}

}  // namespace sennit
