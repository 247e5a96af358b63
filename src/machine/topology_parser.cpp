// Reads the text form of a topology, line by line.
#include "machine/topology.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

namespace sennit {
namespace {

constexpr int kMaxIndex = 1023;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlank = " \t\r";
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;
       at = line.find_first_not_of(kBlank, at)) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// All that stands behind the first `skip` words.
std::string rest_of(std::string_view line, const std::vector<std::string_view>& words, int skip) {
  if (static_cast<int>(words.size()) <= skip) {
    return {};
  }
  const auto begin = words[static_cast<std::size_t>(skip)].data() - line.data();
  const auto end = words.back().data() + words.back().size() - line.data();
  return std::string(
      line.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

std::optional<int> index_of(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole && value >= 0 && value <= kMaxIndex ? std::optional(value) : std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view file_name) : file_name_(file_name) {}

  Result<Topology> run(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_number_;
      SENNIT_RETURN_IF_ERROR(read_line(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (topology_.name.empty()) {
      return refuse("the file has no line 'machine NAME TITLE'");
    }
    if (topology_.devices().empty()) {
      return refuse("the machine has neither gpu nor cpu");
    }
    return std::move(topology_);
  }

 private:
  // A value that a line may give: `key NUMBER UNIT`.
  struct Field {
    std::string_view key;
    std::string_view unit;
    double* value;
  };

  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kInvalidArgument,
                "{}:{}: {}",
                file_name_,
                line_number_,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status read_line(std::string_view line) {
    words_ = words_of(line);
    if (words_.empty()) {
      return {};
    }
    const std::string_view word = words_.front();
    if (word == "machine" || word == "source") {
      return read_title(line, word == "machine");
    }
    if (word == "link") {
      return read_link();
    }
    if (word == "path") {
      return read_path();
    }
    for (const VertexKind kind : {VertexKind::kGpu,
                                  VertexKind::kCpu,
                                  VertexKind::kNic,
                                  VertexKind::kSwitch,
                                  VertexKind::kFabric}) {
      if (word == name(kind)) {
        return read_vertices(kind);
      }
    }
    return refuse(
        "'{}' is no kind of line; there are: machine, source, gpu, cpu, nic, switch, fabric, link, "
        "path",
        word);
  }

  Status read_title(std::string_view line, bool is_machine) {
    if (words_.size() < 3) {
      return refuse("expected '{} NAME TEXT'", words_.front());
    }
    const std::string key(words_[1]);
    if (is_machine) {
      topology_.name = key;
      topology_.title = rest_of(line, words_, 2);
    } else {
      topology_.sources.emplace_back(key, rest_of(line, words_, 2));
    }
    return {};
  }

  // Reads `[KEY] NUMBER UNIT ... from SOURCE` from word `at` on.
  Status read_numbers(std::size_t at, std::initializer_list<Field> fields, std::string& source) {
    bool any = false;
    while (at < words_.size() && words_[at] != "from") {
      const auto field = std::ranges::find_if(fields, [&](const Field& f) {
        return f.key.empty() ? words_[at].find_first_not_of("0123456789.") == std::string_view::npos
                             : f.key == words_[at];
      });
      if (field == fields.end()) {
        return refuse("'{}' has no meaning here", words_[at]);
      }
      at += field->key.empty() ? 0 : 1;
      SENNIT_RETURN_IF_ERROR(read_number(at, *field));
      at += 2;
      any = true;
    }
    if (!any && at == words_.size()) {
      return {};
    }
    if (at + 2 != words_.size()) {
      return refuse("expected 'from SOURCE' at the end: every number needs a source");
    }
    source = std::string(words_[at + 1]);
    if (std::ranges::find(topology_.sources, source, &std::pair<std::string, std::string>::first) ==
        topology_.sources.end()) {
      return refuse("there is no line 'source {} ...' above", source);
    }
    return {};
  }

  Status read_number(std::size_t at, const Field& field) {
    if (at + 1 >= words_.size() || words_[at + 1] != field.unit) {
      return refuse("expected a number and '{}' {}",
                    field.unit,
                    field.key.empty() ? "" : fmt::format("after '{}'", field.key));
    }
    const std::string_view text = words_[at];
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), *field.value);
    constexpr double kLargest = 1e9;
    if (error != std::errc() || stop != text.data() + text.size() || !(*field.value > 0) ||
        *field.value > kLargest) {
      return refuse("'{}' is not a positive number", text);
    }
    return {};
  }

  // "gpu0..3" as its members; "gpu0" and names of switches as themselves.
  Result<std::vector<std::string>> expand(std::string_view text) const {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) {
      return std::vector{std::string(text)};
    }
    std::size_t digits = dots;
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') {
      --digits;
    }
    const auto first = index_of(text.substr(digits, dots - digits));
    const auto last = index_of(text.substr(dots + 2));
    if (!first || !last || *first > *last) {
      return refuse("'{}' is no range FIRST..LAST within 0..{}", text, kMaxIndex);
    }
    std::vector<std::string> names;
    for (int i = *first; i <= *last; ++i) {
      names.push_back(fmt::format("{}{}", text.substr(0, digits), i));
    }
    return names;
  }

  Status read_vertices(VertexKind kind) {
    if (words_.size() < 2) {
      return refuse(
          "expected '{} {}'",
          words_.front(),
          kind == VertexKind::kSwitch || kind == VertexKind::kFabric ? "NAME" : "FIRST..LAST");
    }
    const bool numbered = kind != VertexKind::kSwitch && kind != VertexKind::kFabric;
    const std::string prefix(numbered ? name(kind) : "");
    Vertex vertex{.kind = kind};
    SENNIT_RETURN_IF_ERROR(read_numbers(2,
                                        {{"memory", "GB/s", &vertex.memory_gbps},
                                         {"reduce", "GB/s", &vertex.reduce_gbps},
                                         {"switch", "us", &vertex.switch_us},
                                         {"copy_switch", "us", &vertex.copy_switch_us},
                                         {"call", "us", &vertex.call_us},
                                         {"load", "us", &vertex.load_us},
                                         {"step", "us", &vertex.step_us}},
                                        vertex.source));
    SENNIT_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            expand(prefix + std::string(words_[1])));
    for (const std::string& vertex_name : names) {
      if (!number_of_.emplace(vertex_name, static_cast<int>(topology_.vertices.size())).second) {
        return refuse("there are two '{}'", vertex_name);
      }
      vertex.name = vertex_name;
      topology_.vertices.push_back(vertex);
    }
    return {};
  }

  Result<std::vector<int>> vertices(std::string_view text) const {
    SENNIT_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand(text));
    std::vector<int> numbers;
    for (const std::string& vertex_name : names) {
      const auto found = number_of_.find(vertex_name);
      if (found == number_of_.end()) {
        return refuse("there is no '{}' above", vertex_name);
      }
      numbers.push_back(found->second);
    }
    return numbers;
  }

  Status read_link() {
    if (words_.size() < 6) {
      return refuse("expected 'link A B KIND NUMBER GB/s [both NUMBER GB/s] from SOURCE'");
    }
    SENNIT_ASSIGN_OR_RETURN(const std::vector<int> from, vertices(words_[1]));
    SENNIT_ASSIGN_OR_RETURN(const std::vector<int> to, vertices(words_[2]));
    constexpr std::array kKinds = {
        WireKind::kNvlink, WireKind::kPcie, WireKind::kBus, WireKind::kHostBus, WireKind::kNet};
    const auto kind =
        std::ranges::find_if(kKinds, [&](WireKind k) { return name(k) == words_[3]; });
    if (kind == kKinds.end()) {
      return refuse("'{}' is no kind of link; there are: nvlink, pcie, bus, hostbus, net",
                    words_[3]);
    }
    Wire wire{.kind = *kind};
    SENNIT_RETURN_IF_ERROR(read_numbers(
        4, {{"both", "GB/s", &wire.both_gbps}, {"", "GB/s", &wire.gbps}}, wire.source));
    if (from.size() != to.size() && from.size() != 1 && to.size() != 1) {
      return refuse("'{}' and '{}' do not pair off", words_[1], words_[2]);
    }
    for (std::size_t i = 0; i < std::max(from.size(), to.size()); ++i) {
      wire.a = from[from.size() == 1 ? 0 : i];
      wire.b = to[to.size() == 1 ? 0 : i];
      topology_.wires.push_back(wire);
    }
    return {};
  }

  Status read_path() {
    if (words_.size() < 2) {
      return refuse("expected 'path KIND ...'");
    }
    const Result<PathKind> kind = parse_path_kind(words_[1]);
    if (!kind.ok()) {
      return refuse("{}", kind.status().message());
    }
    PathCost cost{.path = *kind};
    SENNIT_RETURN_IF_ERROR(read_numbers(2,
                                        {{"start", "us", &cost.start_us},
                                         {"sm", "us", &cost.sm_start_us},
                                         {"free", "us", &cost.free_us},
                                         {"sm_free", "us", &cost.sm_free_us},
                                         {"lane", "GB/s", &cost.lane_gbps},
                                         {"sms", "GB/s", &cost.sms_gbps}},
                                        cost.source));
    topology_.paths.push_back(cost);
    return {};
  }

  std::string_view file_name_;
  int line_number_ = 0;
  std::vector<std::string_view> words_;
  std::map<std::string, int, std::less<>> number_of_;
  Topology topology_;
};

}  // namespace

Result<Topology> topology_from_text(std::string_view text, std::string_view file_name) {
  return Parser(file_name).run(text);
}

}  // namespace sennit
