#include "schedule/json_form.hpp"

#include "codec/codec.hpp"

namespace sennit {
namespace {

// Calls make(item) for each item and lists the results.
template <typename List, typename Make>
Json list_of(const List& list, Make make) {
  Json result = Json::array();
  for (const auto& item : list) {
    result.push_back(make(item));
  }
  return result;
}

Json lane_id(const LaneId& id) { return Json::array({id.rank, id.lane}); }

Json channel_form(const Channel& channel) {
  Json json = {{"writer", lane_id(channel.writer)}, {"readers", list_of(channel.readers, lane_id)}};
  if (channel.single_hop) {
    json["single_hop"] = true;
  }
  return json;
}

Json scratch_form(const Scratch& scratch) {
  return {{"name", scratch.name},
          {"blocks", scratch.blocks},
          {"depth", scratch.depth},
          {"place", name(scratch.place)}};
}

Json blocks_form(const Schedule& schedule, const std::vector<Block>& blocks) {
  return list_of(blocks, [&](const Block& block) {
    const std::string_view buffer =
        block.space == Space::kScratch
            ? std::string_view(schedule.scratch[static_cast<std::size_t>(block.scratch)].name)
            : name(block.space);
    return Json::array({buffer, block.index});
  });
}

// Empty lists and false flags are left out: most fields of most steps are.
Json step_form(const Schedule& schedule, const Step& step) {
  Json json = {{"kind", name(step.kind)}};
  const auto set = [&](const char* key, Json value) {
    if (!value.empty()) {
      json[key] = std::move(value);
    }
  };
  set("from", blocks_form(schedule, step.from));
  set("to", blocks_form(schedule, step.to));
  set("in", step.in);
  set("out", step.out);
  set("order", step.order);
  if (step.pre) {
    json["pre"] = true;
  }
  if (step.post) {
    json["post"] = true;
  }
  set("after", list_of(step.after, [](StepRef ref) { return Json::array({ref.lane, ref.step}); }));
  return json;
}

Json lane_form(const Schedule& schedule, const Lane& lane) {
  return {{"need", name(lane.need)},
          {"steps", list_of(lane.steps, [&](const Step& s) { return step_form(schedule, s); })}};
}

Json channel_binding_form(const ChannelBinding& binding) {
  Json json = {{"paths", list_of(binding.paths, [](const Path& path) { return text_of(path); })},
               {"protocol", name(binding.protocol)},
               {"slots", binding.slots},
               {"chooser", name(binding.chooser)}};
  if (binding.codec) {
    json["codec"] = name(*binding.codec);
  }
  return json;
}

Json lane_binding_form(const LaneBinding& binding) {
  return {{"engine", name(binding.engine)}, {"burst", binding.burst}};
}

Json strand_form(const Strand& strand) {
  Json json = {
      {"schedule", to_json(*strand.schedule)},
      {"channels", list_of(strand.channels, channel_binding_form)},
      {"lanes",
       list_of(strand.lanes, [](const auto& lanes) { return list_of(lanes, lane_binding_form); })},
      {"tile_bytes", strand.tile_bytes},
      {"width", strand.width},
      {"share", strand.share}};
  if (strand.home_codec) {
    json["home_codec"] = name(*strand.home_codec);
  }
  return json;
}

}  // namespace

Json to_json(const Schedule& schedule) {
  const Problem& p = schedule.problem;
  const auto lane = [&](const Lane& l) { return lane_form(schedule, l); };
  Json json = {{"schema", kScheduleSchema},
               {"collective", name(p.collective)},
               {"algorithm", schedule.algorithm},
               {"ranks", p.ranks},
               {"root", p.root},
               {"cut", p.cut},
               {"scratch", list_of(schedule.scratch, scratch_form)},
               {"channels", list_of(schedule.channels, channel_form)},
               {"programs",
                list_of(schedule.ranks, [&](const auto& lanes) { return list_of(lanes, lane); })}};
  if (p.varying) {
    json["varying"] = true;
  }
  return json;
}

Json to_json(const Plan& plan) {
  return {{"schema", kScheduleSchema},
          {"division", name(plan.division)},
          {"strands", list_of(plan.strands, strand_form)}};
}

}  // namespace sennit
