// Reads the JSON form. What a field alone shows to be wrong is refused with its path; the rest is
// left to check_structure.
#include "codec/codec.hpp"
#include "schedule/json_form.hpp"
#include "schedule/text.hpp"

#include <limits>
#include <optional>
#include <utility>

namespace sennit {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();

// Fills `result` with read(item, where) of every item of the list.
template <typename T, typename Read>
Status read_list(const Json& json, const std::string& where, std::vector<T>& result, Read read) {
  SENNIT_RETURN_IF_ERROR(expect_json_list(json, where));
  result.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    SENNIT_ASSIGN_OR_RETURN(T item, read(json[i], fmt::format("{}[{}]", where, i)));
    result.push_back(std::move(item));
  }
  return {};
}

// The same for a field that may be missing.
template <typename T, typename Read>
Status read_optional_list(const JsonObject& object,
                          std::string_view key,
                          std::vector<T>& result,
                          Read read) {
  if (!object.has(key)) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(const Json* list, object.at(key));
  return read_list(*list, object.where(key), result, read);
}

template <typename T, typename Read>
Status read_field_list(const JsonObject& object,
                       std::string_view key,
                       std::vector<T>& result,
                       Read read) {
  SENNIT_RETURN_IF_ERROR(object.at(key).status());
  return read_optional_list(object, key, result, read);
}

Status read_optional_flag(const JsonObject& object, std::string_view key, bool& value) {
  if (object.has(key)) {
    SENNIT_ASSIGN_OR_RETURN(value, object.flag(key));
  }
  return {};
}

Status read_int(const JsonObject& object, std::string_view key, int min, int max, int& value) {
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t number, object.integer(key, min, max));
  value = static_cast<int>(number);
  return {};
}

Result<int> index_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t number, json_integer(json, where, 0, kMaxInt));
  return static_cast<int>(number);
}

// The enumerator of `rows` with the name in `json`.
template <typename Rows>
Result<typename Rows::value_type> enum_from(const Json& json,
                                            std::string_view where,
                                            const Rows& rows) {
  SENNIT_ASSIGN_OR_RETURN(const std::string text, json_text(json, where));
  std::string names;
  for (const auto row : rows) {
    if (name(row) == text) {
      return row;
    }
    names += (names.empty() ? "" : ", ") + std::string(name(row));
  }
  return fail(Code::kInvalidArgument, "{} is '{}', expected one of: {}", where, text, names);
}

template <typename Rows>
Status read_enum(const JsonObject& object,
                 std::string_view key,
                 const Rows& rows,
                 typename Rows::value_type& value) {
  SENNIT_ASSIGN_OR_RETURN(const Json* json, object.at(key));
  SENNIT_ASSIGN_OR_RETURN(value, enum_from(*json, object.where(key), rows));
  return {};
}

Result<std::pair<int, int>> pair_from(const Json& json, const std::string& where) {
  std::vector<int> numbers;
  SENNIT_RETURN_IF_ERROR(read_list(json, where, numbers, index_from));
  if (numbers.size() != 2) {
    return fail(Code::kInvalidArgument, "{} has {} numbers, expected 2", where, numbers.size());
  }
  return std::pair(numbers[0], numbers[1]);
}

Result<LaneId> lane_id_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const auto pair, pair_from(json, where));
  return LaneId{pair.first, pair.second};
}

Result<StepRef> step_ref_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const auto pair, pair_from(json, where));
  return StepRef{pair.first, pair.second};
}

Result<Channel> channel_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                          JsonObject::open(json, where, {"writer", "readers", "single_hop"}));
  Channel channel;
  SENNIT_ASSIGN_OR_RETURN(const Json* writer, object.at("writer"));
  SENNIT_ASSIGN_OR_RETURN(channel.writer, lane_id_from(*writer, object.where("writer")));
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "readers", channel.readers, lane_id_from));
  SENNIT_RETURN_IF_ERROR(read_optional_flag(object, "single_hop", channel.single_hop));
  return channel;
}

Result<Scratch> scratch_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                          JsonObject::open(json, where, {"name", "blocks", "depth", "place"}));
  Scratch scratch;
  SENNIT_ASSIGN_OR_RETURN(scratch.name, object.text("name"));
  SENNIT_RETURN_IF_ERROR(read_int(object, "blocks", 1, kMaxTextBlocks, scratch.blocks));
  SENNIT_RETURN_IF_ERROR(read_int(object, "depth", 1, kMaxTextDepth, scratch.depth));
  SENNIT_RETURN_IF_ERROR(read_enum(object, "place", kPlaces, scratch.place));
  return scratch;
}

// Reads what comes after the scratch is known, because blocks name it.
class ProgramReader {
 public:
  explicit ProgramReader(const std::vector<Scratch>& scratch) : scratch_(scratch) {}

  [[nodiscard]] Result<std::vector<Lane>> lanes(const Json& json, const std::string& where) const {
    std::vector<Lane> lanes;
    SENNIT_RETURN_IF_ERROR(read_list(
        json, where, lanes, [this](const Json& j, const std::string& w) { return lane(j, w); }));
    return lanes;
  }

 private:
  [[nodiscard]] Result<Lane> lane(const Json& json, const std::string& where) const {
    SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                            JsonObject::open(json, where, {"need", "steps"}));
    Lane lane;
    SENNIT_RETURN_IF_ERROR(read_enum(object, "need", kNeeds, lane.need));
    SENNIT_RETURN_IF_ERROR(
        read_field_list(object, "steps", lane.steps, [this](const Json& j, const std::string& w) {
          return step(j, w);
        }));
    return lane;
  }

  [[nodiscard]] Result<Step> step(const Json& json, const std::string& where) const {
    SENNIT_ASSIGN_OR_RETURN(
        const JsonObject object,
        JsonObject::open(
            json, where, {"kind", "from", "to", "in", "out", "order", "pre", "post", "after"}));
    const auto read_block = [this](const Json& j, const std::string& w) { return block(j, w); };
    Step step;
    SENNIT_RETURN_IF_ERROR(read_enum(object, "kind", kStepKinds, step.kind));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "from", step.from, read_block));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "to", step.to, read_block));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "in", step.in, index_from));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "out", step.out, index_from));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "order", step.order, index_from));
    SENNIT_RETURN_IF_ERROR(read_optional_flag(object, "pre", step.pre));
    SENNIT_RETURN_IF_ERROR(read_optional_flag(object, "post", step.post));
    SENNIT_RETURN_IF_ERROR(read_optional_list(object, "after", step.after, step_ref_from));
    return step;
  }

  [[nodiscard]] Result<Block> block(const Json& json, const std::string& where) const {
    SENNIT_RETURN_IF_ERROR(expect_json_list(json, where));
    if (json.size() != 2) {
      return fail(Code::kInvalidArgument, "{} is no pair of buffer and index", where);
    }
    Block block;
    SENNIT_ASSIGN_OR_RETURN(const std::string buffer, json_text(json[0], where + "[0]"));
    SENNIT_ASSIGN_OR_RETURN(block.index, index_from(json[1], where + "[1]"));
    if (buffer == name(Space::kInput) || buffer == name(Space::kOutput)) {
      block.space = buffer == name(Space::kInput) ? Space::kInput : Space::kOutput;
      return block;
    }
    block.space = Space::kScratch;
    for (const Scratch& scratch : scratch_) {
      if (scratch.name == buffer) {
        return block;
      }
      ++block.scratch;
    }
    return fail(Code::kInvalidArgument,
                "{} is '{}', expected 'input', 'output' or the name of a scratch",
                where + "[0]",
                buffer);
  }

  const std::vector<Scratch>& scratch_;
};

Status check_schema(const JsonObject& object) {
  return object.integer("schema", kScheduleSchema, kScheduleSchema).status();
}

Result<Schedule> schedule_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                          JsonObject::open(json,
                                           where,
                                           {"schema",
                                            "collective",
                                            "algorithm",
                                            "ranks",
                                            "root",
                                            "cut",
                                            "varying",
                                            "scratch",
                                            "channels",
                                            "programs"}));
  SENNIT_RETURN_IF_ERROR(check_schema(object));
  Schedule schedule;
  Problem& p = schedule.problem;
  SENNIT_RETURN_IF_ERROR(read_enum(object, "collective", kCollectives, p.collective));
  SENNIT_ASSIGN_OR_RETURN(schedule.algorithm, object.text("algorithm"));
  SENNIT_RETURN_IF_ERROR(read_int(object, "ranks", 1, kMaxTextRanks, p.ranks));
  SENNIT_RETURN_IF_ERROR(read_int(object, "root", 0, p.ranks - 1, p.root));
  SENNIT_RETURN_IF_ERROR(read_int(object, "cut", 1, kMaxTextBlocks, p.cut));
  SENNIT_RETURN_IF_ERROR(read_optional_flag(object, "varying", p.varying));
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "scratch", schedule.scratch, scratch_from));
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "channels", schedule.channels, channel_from));
  const ProgramReader reader(schedule.scratch);
  SENNIT_RETURN_IF_ERROR(
      read_field_list(object, "programs", schedule.ranks, [&](const Json& j, const std::string& w) {
        return reader.lanes(j, w);
      }));
  const Status structure = check_structure(schedule);
  return structure.ok() ? Result(std::move(schedule)) : structure.in(where);
}

Result<Path> path_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const std::string text, json_text(json, where));
  const Result<Path> path = parse_path(text);
  return path.ok() ? path : path.status().in(where);
}

Status read_optional_codec(const JsonObject& object,
                           std::string_view key,
                           std::optional<Codec>& codec) {
  if (object.has(key)) {
    SENNIT_ASSIGN_OR_RETURN(const std::string text, object.text(key));
    const Result<Codec> parsed = parse_codec(text);
    SENNIT_RETURN_IF_ERROR(parsed.ok() ? Status() : parsed.status().in(object.where(key)));
    codec = *parsed;
  }
  return {};
}

Result<ChannelBinding> channel_binding_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(
      const JsonObject object,
      JsonObject::open(json, where, {"paths", "protocol", "slots", "chooser", "codec"}));
  ChannelBinding binding;
  binding.paths.clear();
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "paths", binding.paths, path_from));
  SENNIT_RETURN_IF_ERROR(read_enum(object, "protocol", kProtocols, binding.protocol));
  SENNIT_RETURN_IF_ERROR(read_int(object, "slots", 1, kMaxInt, binding.slots));
  SENNIT_RETURN_IF_ERROR(read_enum(object, "chooser", kChoosers, binding.chooser));
  SENNIT_RETURN_IF_ERROR(read_optional_codec(object, "codec", binding.codec));
  return binding;
}

Result<LaneBinding> lane_binding_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                          JsonObject::open(json, where, {"engine", "burst"}));
  LaneBinding binding;
  SENNIT_RETURN_IF_ERROR(read_enum(object, "engine", kEngines, binding.engine));
  SENNIT_RETURN_IF_ERROR(read_int(object, "burst", 1, kMaxInt, binding.burst));
  return binding;
}

Result<std::vector<LaneBinding>> lane_bindings_from(const Json& json, const std::string& where) {
  std::vector<LaneBinding> bindings;
  SENNIT_RETURN_IF_ERROR(read_list(json, where, bindings, lane_binding_from));
  return bindings;
}

Result<Strand> strand_from(const Json& json, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(
      const JsonObject object,
      JsonObject::open(
          json,
          where,
          {"schedule", "channels", "lanes", "tile_bytes", "width", "share", "home_codec"}));
  Strand strand;
  SENNIT_ASSIGN_OR_RETURN(const Json* schedule, object.at("schedule"));
  SENNIT_ASSIGN_OR_RETURN(Schedule parsed, schedule_from(*schedule, object.where("schedule")));
  strand.schedule = std::make_shared<const Schedule>(std::move(parsed));
  SENNIT_RETURN_IF_ERROR(
      read_field_list(object, "channels", strand.channels, channel_binding_from));
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "lanes", strand.lanes, lane_bindings_from));
  SENNIT_ASSIGN_OR_RETURN(
      strand.tile_bytes, object.integer("tile_bytes", 1, std::numeric_limits<std::int64_t>::max()));
  SENNIT_RETURN_IF_ERROR(read_int(object, "width", 1, kMaxInt, strand.width));
  SENNIT_RETURN_IF_ERROR(read_int(object, "share", 0, kMaxInt, strand.share));
  SENNIT_RETURN_IF_ERROR(read_optional_codec(object, "home_codec", strand.home_codec));
  return strand;
}

}  // namespace

Result<Schedule> schedule_from_json(std::string_view text, std::string_view file_name) {
  SENNIT_ASSIGN_OR_RETURN(const Json json, parse_json(text, file_name));
  return schedule_from(json, std::string(file_name));
}

Result<Plan> plan_from_json(std::string_view text, std::string_view file_name) {
  SENNIT_ASSIGN_OR_RETURN(const Json json, parse_json(text, file_name));
  const std::string where(file_name);
  SENNIT_ASSIGN_OR_RETURN(const JsonObject object,
                          JsonObject::open(json, where, {"schema", "strands", "division"}));
  SENNIT_RETURN_IF_ERROR(check_schema(object));
  Plan plan;
  SENNIT_RETURN_IF_ERROR(read_field_list(object, "strands", plan.strands, strand_from));
  SENNIT_RETURN_IF_ERROR(read_enum(object, "division", kDivisions, plan.division));
  const Status structure = check_structure(plan);
  return structure.ok() ? Result(std::move(plan)) : structure.in(where);
}

}  // namespace sennit
