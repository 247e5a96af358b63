#include "compare_variants.hpp"

namespace sennit_bench {
namespace {

constexpr std::size_t kEnginesFromBytes = std::size_t{1} << 20;
constexpr std::size_t kMessageEnginesFromBytes = std::size_t{64} << 10;
// A collective's share is cut into as many blocks as there are ranks, that of a message is not.
constexpr std::size_t kSharesFromBytes = std::size_t{16} << 20;
constexpr std::size_t kMessageSharesFromBytes = std::size_t{1} << 20;
constexpr int kWhole = 100;

// Whatever their size.
bool shares_copies(const Options& options) { return options.algorithm == "shared_buffer"; }

bool is_message(const std::string& collective) { return collective == "send_recv"; }

bool runs_on_copy_engines(const std::string& collective) {
  return collective == "all_gather" || collective == "all_to_all" || collective == "broadcast" ||
         is_message(collective);
}

void add_kernels(const Options& options,
                 const std::string& collective,
                 std::vector<Variant>& found) {
  found.push_back({"sennit ll128", options.direct, "ll128"});
  found.push_back({"sennit slots", options.direct, "slots"});
  if (runs_on_copy_engines(collective)) {
    found.push_back({"sennit put", options.direct, "direct_put"});
  } else if (collective == "all_reduce" || collective == "reduce_scatter") {
    found.push_back({"sennit reads", options.direct, "direct_get"});
  }
}

void add_engines(const Options& options,
                 const std::string& collective,
                 std::vector<Variant>& found) {
  add_kernels(options, collective, found);
  if (runs_on_copy_engines(collective)) {
    found.push_back({"sennit stream", options.direct, "copy_engines"});
  }
}

// Where the message over NVLink has but a few thread blocks, kernels carry it: copy engines take
// none, and nothing holds them back.
void add_shares(const Options& options,
                const std::string& collective,
                std::vector<Variant>& found) {
  const bool by_kernels = is_message(collective) && options.sm_budget > 0;
  if (is_message(collective)) {
    add_kernels(options, collective, found);
  }
  const std::string both = options.direct + "+host:";
  for (const int share : options.shares) {
    const std::string text = std::to_string(share);
    if (share == kWhole && !shares_copies(options)) {
      found.push_back({"sennit host", "host", ""});
    } else if (!by_kernels) {
      found.push_back({"sennit share " + text, both + text, "copy_engines"});
    } else if (share > 0) {
      found.push_back({"sennit sm share " + text, both + text, "direct_put"});
    }
  }
  if (options.dynamic_share && is_message(collective)) {
    const char* const rest = by_kernels ? "sennit sm share dynamic" : "sennit share dynamic";
    found.push_back({rest, both + "dynamic", by_kernels ? "direct_put" : ""});
  }
}

}  // namespace

std::vector<Variant> variants_of(const Options& options,
                                 const std::string& collective,
                                 std::size_t bytes) {
  std::vector<Variant> found;
  const bool message = is_message(collective);
  const std::size_t engines_from = message ? kMessageEnginesFromBytes : kEnginesFromBytes;
  if (options.against == "engines" && bytes >= engines_from) {
    add_engines(options, collective, found);
  }
  const std::size_t shares_from = shares_copies(options) ? 0
                                  : message              ? kMessageSharesFromBytes
                                                         : kSharesFromBytes;
  // Among more than two ranks the algorithms of a broadcast over the two paths cut it differently.
  const bool has_shares =
      shares_copies(options) ||
      (runs_on_copy_engines(collective) && (collective != "broadcast" || options.ranks == 2));
  if (options.against == "shares" && bytes >= shares_from && has_shares) {
    add_shares(options, collective, found);
  }
  return found;
}

}  // namespace sennit_bench
