#include "select/tuning_table.hpp"

#include "base/sha256.hpp"

#include <algorithm>
#include <tuple>

namespace sennit {
namespace {

std::string_view protocol_name(bool direct) { return direct ? "direct" : "slots"; }

auto cell_of(const Timing& timing) {
  return std::tuple(timing.collective, timing.ranks, timing.bytes);
}

auto way_of(const Timing& timing) {
  return std::tuple(timing.collective,
                    timing.ranks,
                    timing.bytes,
                    timing.algorithm->name,
                    timing.direct,
                    timing.tile_bytes);
}

std::tuple<int, bool, std::int64_t> fitted_for(const MessageFit& fit) {
  return {fit.ranks, fit.direct, fit.bytes};
}

// Nearer by ratio: 3 K is as far from 1 K as from 9 K. An empty message counts as one byte.
bool is_nearer(std::int64_t bytes, std::int64_t than, std::int64_t wanted) {
  const auto distance = [&](std::int64_t size) {
    const auto a = static_cast<double>(std::max<std::int64_t>(1, size));
    const auto b = static_cast<double>(std::max<std::int64_t>(1, wanted));
    return std::max(a / b, b / a);
  };
  return distance(bytes) < distance(than);
}

}  // namespace

Result<TuningTable> TuningTable::make(MachineKey machine,
                                      std::vector<MessageFit> fits,
                                      std::vector<Timing> timings) {
  TuningTable table;
  table.machine_ = std::move(machine);
  table.fits_ = std::move(fits);
  table.timings_ = std::move(timings);
  std::ranges::sort(table.fits_, {}, fitted_for);
  const auto same_fit = std::ranges::adjacent_find(table.fits_, {}, fitted_for);
  if (same_fit != table.fits_.end()) {
    return fail(Code::kInvalidArgument,
                "there are two fits for {} ranks, protocol {}, {} bytes",
                same_fit->ranks,
                protocol_name(same_fit->direct),
                same_fit->bytes);
  }
  std::ranges::sort(table.timings_, {}, way_of);
  const auto same = std::ranges::adjacent_find(
      table.timings_, [](const Timing& a, const Timing& b) { return way_of(a) == way_of(b); });
  if (same != table.timings_.end()) {
    return fail(Code::kInvalidArgument,
                "there are two times of {} {} on {} ranks, {} bytes, protocol {}, tile {}",
                name(same->collective),
                same->algorithm->name,
                same->ranks,
                same->bytes,
                protocol_name(same->direct),
                same->tile_bytes);
  }
  std::ranges::stable_sort(table.timings_, {}, [](const Timing& timing) {
    return std::tuple_cat(cell_of(timing), std::tuple(timing.us));
  });
  table.index_cells();
  constexpr std::size_t kDigits = 16;
  table.hash_ = sha256_hex(to_text(table)).substr(0, kDigits);
  return table;
}

void TuningTable::index_cells() {
  for (std::size_t i = 0; i < timings_.size(); ++i) {
    const Timing& timing = timings_[i];
    std::vector<Cell>& cells = cells_[{timing.collective, timing.ranks}];
    if (cells.empty() || cells.back().bytes != timing.bytes) {
      cells.push_back({.bytes = timing.bytes});
    }
    for (const Carriers carriers :
         {Carriers::kAny, timing.direct ? Carriers::kDirect : Carriers::kSlots}) {
      int& fastest = cells.back().fastest[static_cast<std::size_t>(carriers)];
      fastest = fastest < 0 ? static_cast<int>(i) : fastest;
    }
  }
}

const Timing* TuningTable::best(Collective collective,
                                int ranks,
                                std::int64_t bytes,
                                Carriers carriers) const {
  const auto found = cells_.find({collective, ranks});
  if (found == cells_.end()) {
    return nullptr;
  }
  const std::vector<Cell>& cells = found->second;
  auto cell = std::ranges::lower_bound(cells, bytes, {}, &Cell::bytes);
  if (cell == cells.end() ||
      (cell != cells.begin() && !is_nearer(cell->bytes, std::prev(cell)->bytes, bytes))) {
    --cell;
  }
  const int fastest = cell->fastest[static_cast<std::size_t>(carriers)];
  return fastest < 0 ? nullptr : &timings_[static_cast<std::size_t>(fastest)];
}

const MessageFit* TuningTable::fit(int ranks, bool direct, std::int64_t bytes) const {
  const MessageFit* nearest = nullptr;
  for (const MessageFit& fit : fits_) {
    if (fit.ranks == ranks && fit.direct == direct &&
        (nearest == nullptr || is_nearer(fit.bytes, nearest->bytes, bytes))) {
      nearest = &fit;
    }
  }
  return nearest;
}

std::string to_text(const TuningTable& table) {
  const MachineKey& machine = table.machine();
  std::string text = fmt::format(
      "tuning 1\nmachine cpu {}\nmachine cores {}\nmachine memory_gib {}\nmachine gpus {}\n",
      machine.cpu,
      machine.cores,
      machine.memory_gib,
      machine.gpus);
  for (const MessageFit& fit : table.fits()) {
    text += fmt::format("fit ranks {} protocol {} bytes {} start_us {} gbps {}\n",
                        fit.ranks,
                        protocol_name(fit.direct),
                        fit.bytes,
                        fit.start_us,
                        fit.gbps);
  }
  for (const Timing& timing : table.timings()) {
    text += fmt::format("time {} ranks {} bytes {} algorithm {} protocol {} tile {} us {}\n",
                        name(timing.collective),
                        timing.ranks,
                        timing.bytes,
                        timing.algorithm->name,
                        protocol_name(timing.direct),
                        timing.tile_bytes,
                        timing.us);
  }
  return text;
}

Status check_machine(const TuningTable& table, const MachineKey& here, std::string_view file_name) {
  const MachineKey& there = table.machine();
  const auto refuse = [&](std::string_view field, const auto& in_table, const auto& found) {
    return fail(Code::kInvalidArgument,
                "the tuning table {} is of another machine: {} is '{}' in the table and '{}' here; "
                "run `sennit tune` on this machine",
                file_name,
                field,
                in_table,
                found);
  };
  if (there.cpu != here.cpu) {
    return refuse("cpu", there.cpu, here.cpu);
  }
  if (there.cores != here.cores) {
    return refuse("cores", there.cores, here.cores);
  }
  if (there.memory_gib != here.memory_gib) {
    return refuse("memory_gib", there.memory_gib, here.memory_gib);
  }
  if (there.gpus != here.gpus) {
    return refuse("gpus", there.gpus, here.gpus);
  }
  return {};
}

}  // namespace sennit
