#include "select/gpu_profile.hpp"

#include "algo/algorithm.hpp"
#include "base/check.hpp"
#include "base/line_reader.hpp"
#include "base/sha256.hpp"
#include "codec/codec.hpp"
#include "select/built_in_profiles.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

namespace sennit {
namespace {

struct Size {
  std::string_view key;
  std::int64_t GpuProfile::* member;
};
constexpr std::array kSizes = {
    Size{"hop", &GpuProfile::hop_bytes},
    Size{"host_hop", &GpuProfile::host_hop_bytes},
    Size{"ll", &GpuProfile::ll_up_to_bytes},
    Size{"host_ll", &GpuProfile::host_ll_up_to_bytes},
    Size{"copy_engines", &GpuProfile::copies_from_bytes},
    Size{"copy_engines.all_reduce", &GpuProfile::all_reduce_copies_from_bytes},
    Size{"copy_engines.reduce_scatter", &GpuProfile::reduce_scatter_copies_from_bytes},
    Size{"copy_engines.broadcast", &GpuProfile::broadcast_copies_from_bytes},
    Size{"copy_engines.send_recv", &GpuProfile::message_copies_from_bytes},
    Size{"one_sided", &GpuProfile::puts_from_bytes},
    Size{"one_sided.send_recv", &GpuProfile::message_puts_from_bytes},
    Size{"host_copy_engines.send_recv", &GpuProfile::host_message_copies_from_bytes},
    Size{"groups", &GpuProfile::groups_from_bytes},
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  Result<GpuProfile> run() {
    std::int64_t version = 0;
    if (!in_.next_line()) {
      return in_.refuse("the file is empty; expected 'profile 1' in its first line");
    }
    SENNIT_RETURN_IF_ERROR(in_.read_field("profile", {1, 1}, version));
    SENNIT_RETURN_IF_ERROR(in_.expect_end());
    while (in_.next_line()) {
      SENNIT_RETURN_IF_ERROR(read_line());
    }
    return check_whole();
  }

 private:
  Status read_line() {
    const std::string_view kind = in_.word();
    if (kind == "name" || kind == "measured_on") {
      (kind == "name" ? profile_.name : profile_.measured_on) = std::string(in_.rest());
      return {};
    }
    if (kind == "gpus") {
      for (std::string_view word = in_.word(); !word.empty(); word = in_.word()) {
        profile_.gpus.emplace_back(word);
      }
      return {};
    }
    if (kind == "compute_capability") {
      return read_number(kind, {1, 1000}, profile_.compute_capability);
    }
    if (kind == "first_dynamic_share") {
      return read_number(kind, {1, 100}, profile_.first_dynamic_share);
    }
    if (kind == "size") {
      return read_size();
    }
    if (kind == "packets") {
      return read_packets();
    }
    if (kind == "host_share") {
      return read_host_share();
    }
    if (kind == "reads" || kind == "shared_reads") {
      return read_few_blocks(kind,
                             {Collective::kAllReduce, Collective::kReduceScatter},
                             kind == "reads" ? profile_.reads : profile_.shared_reads);
    }
    if (kind == "puts") {
      return read_few_blocks(kind, {Collective::kAllGather, Collective::kAllToAll}, profile_.puts);
    }
    if (kind == "host_copies") {
      return read_host_copies();
    }
    if (kind == "codec") {
      return read_codec_rate();
    }
    return in_.refuse(
        "'{}' is no kind of line; there are: name, gpus, compute_capability, measured_on, size, "
        "packets, host_share, reads, shared_reads, puts, host_copies, codec, first_dynamic_share",
        kind);
  }

  Status read_number(std::string_view key, LineReader::Range range, int& value) {
    std::int64_t number = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_value(key, range, number));
    value = static_cast<int>(number);
    return in_.expect_end();
  }

  Status read_size() {
    const std::string_view key = in_.word();
    const auto* const size = std::ranges::find(kSizes, key, &Size::key);
    if (size == kSizes.end()) {
      return in_.refuse("there is no size '{}'", key);
    }
    if (has_size_[static_cast<std::size_t>(size - kSizes.begin())]) {
      return in_.refuse("size '{}' stands here twice", key);
    }
    has_size_[static_cast<std::size_t>(size - kSizes.begin())] = true;
    if (in_.next_is("never")) {
      profile_.*(size->member) = kNever;
      return in_.expect_end();
    }
    SENNIT_RETURN_IF_ERROR(in_.read_bytes(key, profile_.*(size->member)));
    return in_.expect_end();
  }

  // The beginning that rows of all tables share.
  template <typename Row>
  Status read_row(Row& row) {
    const Result<Collective> collective = parse_collective(in_.word());
    if (!collective.ok()) {
      return in_.refuse("{}", collective.status().message());
    }
    row.collective = *collective;
    std::int64_t ranks = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("up_to_ranks", {2, 1024}, ranks));
    row.up_to_ranks = static_cast<int>(ranks);
    SENNIT_RETURN_IF_ERROR(in_.expect_key("from"));
    return in_.read_bytes("from", row.from_bytes);
  }

  Status read_packets() {
    GpuProfile::Packets row;
    SENNIT_RETURN_IF_ERROR(read_row(row));
    SENNIT_RETURN_IF_ERROR(in_.expect_key("algorithm"));
    const Result<const Algorithm*> algorithm = find_algorithm(row.collective, in_.word());
    if (!algorithm.ok()) {
      return in_.refuse("{}", algorithm.status().message());
    }
    row.algorithm = (*algorithm)->name;
    SENNIT_RETURN_IF_ERROR(in_.expect_key("protocol"));
    const Result<Protocol> protocol = parse_protocol(in_.word());
    if (!protocol.ok() || (*protocol != Protocol::kLl && *protocol != Protocol::kLl128 &&
                           *protocol != Protocol::kSlots)) {
      return in_.refuse("packets have protocols ll, ll128 and slots");
    }
    row.protocol = *protocol;
    profile_.packets.push_back(row);
    return in_.expect_end();
  }

  Status read_host_share() {
    GpuProfile::HostShare row;
    SENNIT_RETURN_IF_ERROR(read_row(row));
    std::int64_t percent = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("percent", {0, 100}, percent));
    row.percent = static_cast<int>(percent);
    profile_.host_shares.push_back(row);
    return in_.expect_end();
  }

  Status read_host_copies() {
    SENNIT_RETURN_IF_ERROR(read_row(profile_.host_copies.emplace_back()));
    return in_.expect_end();
  }

  Status read_codec_rate() {
    GpuProfile::CodecRate row;
    const std::string_view family = in_.word();
    const bool is_known = std::ranges::any_of(kCodecs, [&](Codec codec) {
      return name(codec).substr(0, name(codec).find(':')) == family;
    });
    if (!is_known) {
      return in_.refuse("there is no codec '{}'", family);
    }
    row.family = family;
    std::int64_t gb_per_s = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("gb_per_s", {1, 1'000'000}, gb_per_s));
    row.gb_per_s = static_cast<int>(gb_per_s);
    profile_.codec_rates.push_back(row);
    return in_.expect_end();
  }

  Status read_few_blocks(std::string_view kind,
                         std::initializer_list<Collective> collectives,
                         std::vector<GpuProfile::FewBlocks>& rows) {
    GpuProfile::FewBlocks row;
    SENNIT_RETURN_IF_ERROR(read_row(row));
    if (std::ranges::find(collectives, row.collective) == collectives.end()) {
      return in_.refuse(
          "{} are for {} and {}", kind, name(*collectives.begin()), name(*(collectives.end() - 1)));
    }
    std::int64_t blocks = 0;
    SENNIT_RETURN_IF_ERROR(in_.read_field("blocks", {1, 128}, blocks));
    row.blocks = static_cast<int>(blocks);
    rows.push_back(row);
    return in_.expect_end();
  }

  Result<GpuProfile> check_whole() {
    const auto* const missing = std::ranges::find(has_size_, false);
    if (missing != has_size_.end()) {
      return in_.refuse("the file has no line 'size {}'",
                        kSizes[static_cast<std::size_t>(missing - has_size_.begin())].key);
    }
    if (profile_.name.empty() || profile_.gpus.empty() || profile_.compute_capability == 0 ||
        profile_.measured_on.empty() || profile_.first_dynamic_share == 0) {
      return in_.refuse(
          "the file lacks one of the lines name, gpus, compute_capability, measured_on, "
          "first_dynamic_share");
    }
    return std::move(profile_);
  }

  LineReader in_;
  std::array<bool, kSizes.size()> has_size_{};
  GpuProfile profile_;
};

}  // namespace

bool GpuProfile::has_host_copies_of(Collective collective, int ranks, std::int64_t bytes) const {
  return std::ranges::any_of(host_copies, [&](const HostCopies& row) {
    return row.collective == collective && ranks <= row.up_to_ranks && bytes >= row.from_bytes;
  });
}

Result<GpuProfile> gpu_profile_from_text(std::string_view text, std::string_view file_name) {
  SENNIT_ASSIGN_OR_RETURN(GpuProfile profile, Parser(text, file_name).run());
  constexpr std::size_t kDigits = 16;
  profile.hash = sha256_hex(text).substr(0, kDigits);
  return profile;
}

std::span<const GpuProfile> gpu_profiles() {
  static const std::vector<GpuProfile> kProfiles = [] {
    std::vector<GpuProfile> profiles;
    for (const BuiltInProfile& file : built_in_profiles()) {
      Result<GpuProfile> profile = gpu_profile_from_text(file.text, file.name);
      SENNIT_CHECK(profile.ok(), "a profile that is built in is malformed");
      profiles.push_back(std::move(profile).value());
    }
    return profiles;
  }();
  return kProfiles;
}

bool is_measured_on(const GpuProfile& profile, const GpuModel& gpu) {
  return std::ranges::any_of(profile.gpus, [&](std::string_view word) {
    return gpu.name.find(word) != std::string_view::npos;
  });
}

const GpuProfile& profile_for(const GpuModel& gpu) {
  const std::span<const GpuProfile> all = gpu_profiles();
  const auto measured = std::ranges::find_if(
      all, [&](const GpuProfile& profile) { return is_measured_on(profile, gpu); });
  return measured != all.end()
             ? *measured
             : *std::ranges::min_element(all, {}, [&](const GpuProfile& profile) {
                 return std::abs(profile.compute_capability - gpu.compute_capability);
               });
}

}  // namespace sennit
