#include "sim/cost_form.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sennit::sim {
namespace {

constexpr double kPicosecondsPerMicrosecond = 1e6;

// Bytes on the wire for each byte of data.
double wire_factor(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return 2;  // 4 bytes of flag for 4 of data
    case Protocol::kLl128:
      return 128.0 / 120;  // 8 bytes of flag in a line of 128
    case Protocol::kSlots:
    case Protocol::kDirectGet:
    case Protocol::kDirectPut:
      return 1;
  }
  return 1;
}

Time ticks(double us) { return std::llround(us * kPicosecondsPerMicrosecond); }

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

CostForm::CostForm(const Strand& strand, Fabric& fabric)
    : flat_(strand), fabric_(&fabric), lanes_of_(strand.schedule->ranks.size()) {
  for (std::size_t l = 0; l < flat_.lanes().size(); ++l) {
    lanes_of_[at(flat_.lanes()[l].rank)].push_back(static_cast<int>(l));
  }
}

Result<CostForm> CostForm::build(const Strand& strand, Fabric& fabric, bool in_turn) {
  CostForm form(strand, fabric);
  const auto count = static_cast<int>(form.flat_.steps().size());
  for (int s = 0; s < count; ++s) {
    form.scratches_.push_back(form.scratches_of(s));
  }
  form.steps_.resize(at(count));
  for (int s = 0; s < count; ++s) {
    SENNIT_RETURN_IF_ERROR(form.add_step(s));
    if (in_turn) {
      form.add_change(s, form.steps_[at(s)]);
    }
  }
  form.add_delays();
  form.add_lanes();
  return form;
}

Status CostForm::add_step(int number) {
  CostStep& out = steps_[at(number)];
  find_lengths(number, out);
  SENNIT_RETURN_IF_ERROR(add_sends(number, out));
  SENNIT_RETURN_IF_ERROR(add_takes(number, out));
  add_local(number, out);
  add_waits(number, out);
  if (flat_.strand().by_steps) {
    // All threads of the block meet before its bytes move, and when they have.
    for (Part& part : out.parts) {
      part.start += ticks(fabric_->device(flat_.steps()[at(number)].rank).step_us);
    }
  }
  return {};
}

// The blocks that say how long the step's messages are. A message that only passes through is as
// long as it was when it was sent.
void CostForm::find_lengths(int number, CostStep& out) const {
  const Step* step = flat_.steps()[at(number)].step;
  while (step->to.empty() && step->from.empty() && !step->in.empty()) {
    number = flat_.messages()[at(flat_.taken_by(number).front())].sender;
    step = flat_.steps()[at(number)].step;
  }
  out.lengths = step->to.empty() ? &step->from : &step->to;
  out.length_count = static_cast<int>(out.lengths->size());
}

Part CostForm::part(int number, PathKind path, const std::vector<Use>& uses) const {
  const FlatStrand::StepInfo& info = flat_.steps()[at(number)];
  const FlatStrand::LaneInfo& lane = flat_.lanes()[at(info.lane)];
  const Engine engine = flat_.strand().lanes[at(lane.rank)][at(lane.lane)].engine;
  const PathCost cost = fabric_->topology().cost(path);
  return {.uses = &uses,
          // A copy engine drives the whole link by itself.
          .limit = engine == Engine::kStream ? 0 : cost.lane_gbps * kBytesPerPicosecond,
          .factor = engine == Engine::kSm ? store_factor(uses, cost) : 1,
          .start = start_of(path, engine)};
}

Time CostForm::start_of(PathKind path, Engine engine) const {
  const PathCost cost = fabric_->topology().cost(path);
  return ticks(engine == Engine::kSm && cost.sm_start_us > 0 ? cost.sm_start_us : cost.start_us);
}

Engine CostForm::engine_of(LaneId lane) const {
  return flat_.strand().lanes[at(lane.rank)][at(lane.lane)].engine;
}

std::int64_t CostForm::round_tiles() const {
  const std::vector<ChannelBinding>& channels = flat_.strand().channels;
  const auto packets = [](const ChannelBinding& binding) {
    return always_uses(binding, Protocol::kLl) || always_uses(binding, Protocol::kLl128);
  };
  if (channels.empty() || !std::ranges::all_of(channels, packets)) {
    return 0;
  }
  constexpr int kGenerations = 2;
  const int slots = std::ranges::min(channels, {}, &ChannelBinding::slots).slots;
  const int round = std::max(1, slots / kGenerations);
  // A longer burst would not fit into any round.
  const auto fits = [&](const LaneBinding& lane) { return lane.burst <= round; };
  const bool all_fit = std::ranges::all_of(
      flat_.strand().lanes, [&](const auto& lanes) { return std::ranges::all_of(lanes, fits); });
  return all_fit ? round : 0;
}

// Whether thread blocks store the messages of the channel to where their reader finds them.
bool CostForm::is_posted(LaneId writer, LaneId reader, const ChannelBinding& binding) const {
  if (engine_of(writer) != Engine::kSm || binding.protocol == Protocol::kDirectGet) {
    return false;
  }
  const Route* route = fabric_->route(writer.rank, reader.rank, binding.paths.front());
  return route != nullptr && !route->staged;
}

// Thread blocks do not wait for what they have stored, so the start of their path is on the way.
void CostForm::add_delays() {
  for (std::size_t c = 0; c < flat_.schedule().channels.size(); ++c) {
    const int channel = static_cast<int>(c);
    const Channel& ends = flat_.schedule().channels[c];
    ChannelDelays delays{.free = free_delay(channel)};
    if (is_posted(ends.writer, ends.readers.front(), flat_.strand().channels[c])) {
      delays.flight = start_of(flat_.strand().channels[c].paths.front().kind, Engine::kSm);
      if (reads_input(channel)) {
        delays.flight += ticks(fabric_->device(ends.writer.rank).load_us);
      }
    }
    delays_.push_back(delays);
  }
}

// Packets that come back say that a round has begun for which the one before had to end; a block
// waits for them in any case.
Time CostForm::free_delay(int channel) const {
  const Channel& ends = flat_.schedule().channels[at(channel)];
  const PathCost cost =
      fabric_->topology().cost(flat_.strand().channels[at(channel)].paths.front().kind);
  if (engine_of(ends.writer) == Engine::kStream) {
    return ticks(cost.free_us);
  }
  const bool hears = std::ranges::any_of(flat_.schedule().channels, [&](const Channel& back) {
    return back.writer.rank == ends.readers.front().rank &&
           back.readers.front().rank == ends.writer.rank;
  });
  return round_tiles() > 0 && !hears ? ticks(cost.sm_free_us) : 0;
}

// Whether messages are read from memory, not passed on out of registers.
bool CostForm::reads_input(int channel) const {
  const Step& sender =
      *flat_.steps()[at(flat_.messages()[at(flat_.first_message(channel))].sender)].step;
  return sender.kind == StepKind::kSend && sender.from.front().space == Space::kInput;
}

void CostForm::add_lanes() {
  taken_.resize(flat_.lanes().size());
  last_.resize(flat_.lanes().size());
  for (std::size_t l = 0; l < flat_.lanes().size(); ++l) {
    const FlatStrand::LaneInfo& lane = flat_.lanes()[l];
    bool copies = lane.steps > 0;
    for (int s = lane.first_step; s < lane.first_step + lane.steps; ++s) {
      copies =
          copies && flat_.steps()[at(s)].step->kind == StepKind::kCopy && !steps_[at(s)].awaited;
      taken_[l].insert(taken_[l].end(), steps_[at(s)].taken.begin(), steps_[at(s)].taken.end());
    }
    last_[l] = round_tiles() > 0 && copies && !rides_along(static_cast<int>(l));
  }
}

// Whether the block that `lane` copies is the only one that its rank sends: it is stored where it
// has been loaded to be sent.
bool CostForm::rides_along(int lane) const {
  const FlatStrand::LaneInfo& info = flat_.lanes()[at(lane)];
  const Step& copy = *flat_.steps()[at(info.first_step)].step;
  if (info.steps != 1 || copy.from.size() != 1) {
    return false;
  }
  bool sends = false;
  for (const FlatStrand::StepInfo& other : flat_.steps()) {
    if (other.rank == info.rank && other.step->kind == StepKind::kSend) {
      if (other.step->from != copy.from) {
        return false;
      }
      sends = true;
    }
  }
  return sends;
}

// Stores of thread blocks travel in smaller packets than a copy engine's, so the same wire carries
// less of them.
double CostForm::store_factor(const std::vector<Use>& uses, const PathCost& cost) const {
  double narrowest = std::numeric_limits<double>::infinity();
  for (const Use& use : uses) {
    narrowest = std::min(narrowest, fabric_->capacities()[at(use.resource)] / use.weight);
  }
  const double stores = cost.sms_gbps * kBytesPerPicosecond;
  return stores > 0 && std::isfinite(narrowest) ? std::max(1.0, narrowest / stores) : 1;
}

Status CostForm::add_sends(int number, CostStep& out) {
  for (const int channel : flat_.steps()[at(number)].step->out) {
    const auto known = std::ranges::find(out.sent, channel, &Sent::channel);
    if (known == out.sent.end()) {
      out.sent.push_back({.channel = channel});
    } else {
      ++known->count;
    }
    const ChannelBinding& binding = flat_.strand().channels[at(channel)];
    if (binding.protocol == Protocol::kDirectGet) {
      out.exposes = true;
      continue;
    }
    const std::vector<LaneId>& readers = flat_.schedule().channels[at(channel)].readers;
    // What a hub's writer puts into host memory serves all readers.
    const bool once = info(binding.paths.front().kind).hub;
    for (std::size_t r = 0; r < (once ? std::size_t{1} : readers.size()); ++r) {
      SENNIT_RETURN_IF_ERROR(add_message(number, channel, readers[r], out));
    }
  }
  return {};
}

Status CostForm::add_takes(int number, CostStep& out) {
  const FlatStrand::StepInfo& info = flat_.steps()[at(number)];
  for (const int channel : info.step->in) {
    const Channel& ends = flat_.schedule().channels[at(channel)];
    const auto reader =
        std::ranges::find(ends.readers, info.rank, &LaneId::rank) - ends.readers.begin();
    const auto known = std::ranges::find(out.taken, channel, &Taken::channel);
    if (known == out.taken.end()) {
      out.taken.push_back({.channel = channel, .reader = static_cast<int>(reader)});
    } else {
      ++known->count;
    }
    SENNIT_RETURN_IF_ERROR(add_message(number, channel, ends.writer, out));
  }
  return {};
}

// Whether the bytes of `channel` lie in a slot of the reader's device when `number` takes them, and
// have to be stored from there.
bool CostForm::arrives_unstored(int number, int channel) const {
  const Step& step = *flat_.steps()[at(number)].step;
  const bool put = flat_.strand().channels[at(channel)].protocol == Protocol::kDirectPut;
  return step.kind == StepKind::kRecv && !step.to.empty() && !put;
}

// The flows of one message at the step `number`, which sends it to or takes it from `peer`; one for
// each path of a bundle.
Status CostForm::add_message(int number, int channel, LaneId peer, CostStep& out) {
  const int rank = flat_.steps()[at(number)].rank;
  const LaneId writer = flat_.schedule().channels[at(channel)].writer;
  const bool sends = writer.rank == rank;
  const ChannelBinding& binding = flat_.strand().channels[at(channel)];
  const bool get = binding.protocol == Protocol::kDirectGet;
  for (std::size_t p = 0; p < binding.paths.size(); ++p) {
    const Path& path = binding.paths[p];
    const Route* route = fabric_->route(writer.rank, sends ? peer.rank : rank, path);
    if (route == nullptr) {
      return fail(Code::kInvalidArgument,
                  "machine {} has no path {} from rank {} to rank {}",
                  fabric_->topology().name,
                  text_of(path),
                  writer.rank,
                  sends ? peer.rank : rank);
    }
    Part flow;
    if (sends || get) {
      flow = part(number, path.kind, route->put.uses);
      flow.factor *= wire_factor(binding.protocol);
      if (is_posted(writer, sends ? peer : writer, binding)) {
        flow.start = 0;
      }
    } else if (route->staged) {
      flow = part(number, path.kind, route->fetch.uses);
    } else if (arrives_unstored(number, channel)) {
      flow = part(number, path.kind, memory_uses(rank, 2, 0));
      flow.factor = 1;
      flow.start = 0;
    } else {
      continue;
    }
    if (binding.paths.size() > 1) {
      flow.channel = channel;
      flow.alternative = static_cast<int>(p);
    }
    out.parts.push_back(flow);
  }
  return {};
}

// What the step does in its own memory: `touches` reads and writes of each byte, `combined` pairs
// of operands.
const std::vector<Use>& CostForm::memory_uses(int rank, double touches, double combined) {
  const int memory = fabric_->memory_of(rank);
  const int reducer = fabric_->reducer_of(rank);
  std::vector<Use>& uses = local_uses_[{memory, reducer, touches, combined}];
  if (uses.empty()) {
    if (memory >= 0) {
      uses.push_back({.resource = memory, .weight = touches});
    }
    if (reducer >= 0 && combined > 0) {
      uses.push_back({.resource = reducer, .weight = combined});
    }
  }
  return uses;
}

void CostForm::add_local(int number, CostStep& out) {
  const FlatStrand::StepInfo& info = flat_.steps()[at(number)];
  const Step& step = *info.step;
  const std::size_t blocks = std::max<std::size_t>(out.lengths->size(), 1);
  double operands = 0;
  if (step.kind == StepKind::kCopy) {
    operands = 1;
  } else if (step.kind == StepKind::kReduce) {
    operands = static_cast<double>(step.from.size()) / static_cast<double>(blocks);
  } else if (step.kind == StepKind::kRecvReduce) {
    operands = static_cast<double>(step.in.size() + (step.from.empty() ? 0 : 1));
  }
  if (operands > 0) {
    Part part{.uses = &memory_uses(info.rank, operands + 1, operands - 1)};
    const FlatStrand::LaneInfo& lane = flat_.lanes()[at(info.lane)];
    if (step.kind == StepKind::kCopy && engine_of({lane.rank, lane.lane}) == Engine::kSm) {
      part.start = ticks(fabric_->device(info.rank).load_us);
    }
    out.parts.push_back(part);
  }
}

// Copies from or to the host may cost less than what runs within the device.
void CostForm::add_change(int number, CostStep& out) const {
  const FlatStrand::StepInfo& info = flat_.steps()[at(number)];
  const Vertex& device = fabric_->device(info.rank);
  if (info.step->kind == StepKind::kCopy || info.step->kind == StepKind::kReduce ||
      info.step->kind == StepKind::kRecvReduce) {
    out.change = ticks(device.switch_us);
  }
  for (const std::vector<int>* const channels : {&info.step->in, &info.step->out}) {
    for (const int channel : *channels) {
      const ChannelBinding& binding = flat_.strand().channels[at(channel)];
      const bool is_sender = channels == &info.step->out;
      const bool staged = binding.paths.front() == PathKind::kHost;
      const bool reads = binding.protocol == Protocol::kDirectGet;
      if (staged || is_sender != reads) {
        out.change = std::max(out.change, ticks(staged ? device.copy_switch_us : device.switch_us));
      }
    }
  }
}

std::vector<int> CostForm::scratches_of(int step) const {
  std::vector<int> used;
  for (const auto* list :
       {&flat_.steps()[at(step)].step->from, &flat_.steps()[at(step)].step->to}) {
    for (const Block& block : *list) {
      if (block.space == Space::kScratch && std::ranges::find(used, block.scratch) == used.end()) {
        used.push_back(block.scratch);
      }
    }
  }
  return used;
}

// `after`, and for each scratch the last step of every other lane that uses the same instance.
void CostForm::add_waits(int number, CostStep& out) {
  const FlatStrand::StepInfo& info = flat_.steps()[at(number)];
  for (const StepRef ref : info.step->after) {
    steps_[at(flat_.step_index(info.rank, ref))].awaited = true;
    out.waits.push_back(
        {.lane = flat_.lane_index(info.rank, ref.lane), .step = ref.step, .delay = 0});
  }
  for (const int scratch : scratches_[at(number)]) {
    for (const int other : lanes_of_[at(info.rank)]) {
      const FlatStrand::LaneInfo& lane = flat_.lanes()[at(other)];
      if (other == info.lane) {
        continue;
      }
      for (int last = lane.steps; last-- > 0;) {
        const int step = lane.first_step + last;
        if (std::ranges::find(scratches_[at(step)], scratch) != scratches_[at(step)].end()) {
          steps_[at(step)].awaited = true;
          out.waits.push_back(
              {.lane = other, .step = last, .delay = flat_.schedule().scratch[at(scratch)].depth});
          break;
        }
      }
    }
  }
}

}  // namespace sennit::sim
