#include "drivers/ucx/cards.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

namespace sennit {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 64;
constexpr int kLoopback = 772;  // ARPHRD_LOOPBACK

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

int number_in(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max(value, 0);  // -1: not known
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<NetworkCard> rdma_ports(const fs::path& root) {
  std::vector<NetworkCard> cards;
  for (const fs::path& device : entries_of(root / "sys/class/infiniband")) {
    for (const fs::path& port : entries_of(device / "ports")) {
      if (first_line(port / "state").find("ACTIVE") != std::string::npos) {
        cards.push_back({.device = device.filename().string() + ":" + port.filename().string(),
                         .is_rdma = true,
                         .mbit_per_s = 1000 * number_in(first_line(port / "rate"))});
      }
    }
  }
  return cards;
}

// An interface with a device is hardware; one whose link is another interface has a peer, as those
// of containers do.
bool is_card(const fs::path& interface) {
  if (number_in(first_line(interface / "type")) == kLoopback ||
      first_line(interface / "operstate") != "up" || fs::exists(interface / "bridge") ||
      fs::exists(interface / "brport")) {
    return false;
  }
  return fs::exists(interface / "device") ||
         first_line(interface / "iflink") != first_line(interface / "ifindex");
}

// The folder of a device, below those of the bridges that it hangs on. Empty: unknown.
fs::path folder_of(const fs::path& link) {
  std::error_code error;
  const fs::path folder = fs::canonical(link, error);
  return error ? fs::path() : folder;
}

fs::path device_of(const NetworkCard& card, const fs::path& root) {
  return card.is_rdma ? root / "sys/class/infiniband" /
                            card.device.substr(0, card.device.find(':')) / "device"
                      : root / "sys/class/net" / card.device / "device";
}

// First whether they are of different NUMA nodes, then how many folders lie between them.
std::pair<bool, std::ptrdiff_t> distance(const fs::path& one, const fs::path& other) {
  const auto [left, right] = std::ranges::mismatch(one, other);
  const auto hops = std::distance(left, one.end()) + std::distance(right, other.end());
  return {first_line(one / "numa_node") != first_line(other / "numa_node"), hops};
}

}  // namespace

std::vector<NetworkCard> find_cards(const fs::path& root) {
  std::vector<NetworkCard> cards = rdma_ports(root);
  if (!cards.empty()) {
    return cards;
  }
  for (const fs::path& interface : entries_of(root / "sys/class/net")) {
    if (is_card(interface)) {
      cards.push_back({.device = interface.filename().string(),
                       .mbit_per_s = number_in(first_line(interface / "speed"))});
    }
  }
  return cards;
}

Result<std::vector<NetworkCard>> wanted_cards(std::string_view names, const fs::path& root) {
  if (names.empty()) {
    return find_cards(root);
  }
  std::vector<NetworkCard> cards;
  while (true) {
    const std::size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    // It becomes a part of a path and of a list.
    if (name.empty() || name.size() > kLongestName ||
        name.find_first_of("/ \t") != std::string_view::npos) {
      return fail(Code::kInvalidArgument,
                  "SENNIT_RAILS names card '{}', which no card can be called; it takes names such "
                  "as eth0 or mlx5_0:1, separated by commas",
                  name);
    }
    const bool is_rdma = name.find(':') != std::string_view::npos;
    const fs::path speed = root / "sys/class/net" / name / "speed";
    cards.push_back({.device = std::string(name),
                     .is_rdma = is_rdma,
                     .mbit_per_s = is_rdma ? 0 : number_in(first_line(speed))});
    if (comma == names.size()) {
      return cards;
    }
    names.remove_prefix(comma + 1);
  }
}

std::vector<int> nearest_cards(std::span<const NetworkCard> cards,
                               const std::string& pci_bus_id,
                               const fs::path& root) {
  const fs::path here = folder_of(root / "sys/bus/pci/devices" / pci_bus_id);
  std::vector<int> nearest;
  std::pair<bool, std::ptrdiff_t> least;
  for (std::size_t card = 0; card < cards.size(); ++card) {
    const fs::path there = folder_of(device_of(cards[card], root));
    if (pci_bus_id.empty() || here.empty() || there.empty()) {
      return {};
    }
    const auto away = distance(here, there);
    if (nearest.empty() || away < least) {
      nearest.clear();
      least = away;
    }
    if (away == least) {
      nearest.push_back(static_cast<int>(card));
    }
  }
  return nearest;
}

}  // namespace sennit
