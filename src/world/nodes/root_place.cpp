#include "world/nodes/root_place.hpp"

#include "base/fd.hpp"
#include "base/sha256.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace sennit {
namespace {

constexpr std::size_t kPorts = 8;
constexpr std::size_t kMaxSecretBytes = 4096;
constexpr std::size_t kMinSecretBytes = 16;

// 0: it is no port.
std::uint16_t port_from(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() ? port : std::uint16_t{0};
}

Status not_a_root(std::string_view text) {
  return fail(Code::kInvalidArgument,
              "SENNIT_ROOT='{}' is no host; allowed: a name or address, with or without a port "
              "(node7, node7:4711, [fd00::7]:4711), or several of them with commas",
              text);
}

// One of the parts between commas, into host and port.
Status add_host(std::string_view part, std::string_view whole, RootPlace& place) {
  std::string_view host = part;
  std::string_view port;
  if (part.starts_with('[')) {
    const std::size_t end = part.find(']');
    if (end == std::string_view::npos ||
        (end + 1 != part.size() && !part.substr(end + 1).starts_with(':'))) {
      return not_a_root(whole);
    }
    host = part.substr(1, end - 1);
    port = part.substr(std::min(end + 2, part.size()));
    if (port.empty() && end + 1 != part.size()) {
      return not_a_root(whole);
    }
  } else if (std::ranges::count(part, ':') == 1) {
    host = part.substr(0, part.find(':'));
    port = part.substr(host.size() + 1);
    if (port.empty()) {
      return not_a_root(whole);
    }
  }
  if (host.empty()) {
    return not_a_root(whole);
  }
  if (!port.empty()) {
    const std::uint16_t number = port_from(port);
    if (number == 0) {
      return not_a_root(whole);
    }
    if (std::ranges::find(place.ports, number) == place.ports.end()) {
      place.ports.push_back(number);
    }
  }
  place.hosts.emplace_back(host);
  return {};
}

}  // namespace

Result<PortRange> parse_port_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::uint16_t first = port_from(text.substr(0, dash));
  const std::uint16_t last =
      dash == std::string_view::npos ? std::uint16_t{0} : port_from(text.substr(dash + 1));
  if (first == 0 || last == 0 || first > last) {
    return fail(Code::kInvalidArgument,
                "SENNIT_PORT_RANGE='{}' is no range of ports; allowed: FIRST-LAST, each 1 to 65535",
                text);
  }
  return PortRange{first, last};
}

std::vector<std::uint16_t> ports_of(std::string_view key, PortRange range) {
  const std::size_t width = std::size_t{range.last} - range.first + 1;
  std::vector<std::uint16_t> ports;
  Sha256 hash;
  hash.update("sennit ports ");
  hash.update(key);
  const auto digest = hash.finish();
  std::size_t number = 0;
  for (std::size_t index = 0; index < std::min(kPorts, width); ++index) {
    std::uint16_t word = 0;
    std::memcpy(&word, digest.data() + 2 * index, sizeof word);
    number = word % width;
    const auto is_taken = [&] {
      return std::ranges::find(ports, range.first + number) != ports.end();
    };
    while (is_taken()) {
      number = (number + 1) % width;
    }
    ports.push_back(static_cast<std::uint16_t>(range.first + number));
  }
  return ports;
}

Result<RootPlace> parse_root(std::string_view text, std::string_view key, PortRange range) {
  RootPlace place;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    SENNIT_RETURN_IF_ERROR(add_host(rest.substr(0, comma), text, place));
    if (comma == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  if (place.ports.empty()) {
    place.ports = ports_of(key, range);
  }
  return place;
}

Result<std::string> root_elsewhere(std::string_view text, const std::string& address) {
  // A single port means that the text has named it.
  SENNIT_ASSIGN_OR_RETURN(const RootPlace place, parse_root(text, {}, PortRange()));
  const bool is_v6 = address.find(':') != std::string::npos;
  const std::string host = is_v6 ? fmt::format("[{}]", address) : address;
  return place.ports.size() == 1 ? fmt::format("{}:{}", host, place.ports.front()) : host;
}

Result<StreamKey> stream_key(std::string_view key, const std::string& secret_file) {
  std::string secret;
  if (!secret_file.empty()) {
    const UniqueFd file(open(secret_file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info{};
    if (!file.valid() || fstat(file.get(), &info) != 0) {
      return fail(Code::kInvalidArgument,
                  "SENNIT_SECRET_FILE='{}' cannot be read: {}",
                  secret_file,
                  std::strerror(errno));
    }
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
      return fail(Code::kInvalidArgument,
                  "SENNIT_SECRET_FILE='{}' has owner {} and mode {:04o}; allowed: owner {} and "
                  "mode 0600, so that no other user can read it",
                  secret_file,
                  info.st_uid,
                  info.st_mode & 07777u,
                  geteuid());
    }
    std::array<char, kMaxSecretBytes + 1> bytes{};
    const ssize_t got = read(file.get(), bytes.data(), bytes.size());
    if (got < static_cast<ssize_t>(kMinSecretBytes) ||
        got > static_cast<ssize_t>(kMaxSecretBytes)) {
      return fail(Code::kInvalidArgument,
                  "SENNIT_SECRET_FILE='{}' does not hold {} to {} bytes",
                  secret_file,
                  kMinSecretBytes,
                  kMaxSecretBytes);
    }
    secret.assign(bytes.data(), static_cast<std::size_t>(got));
  }
  Sha256 hash;
  hash.update(fmt::format("sennit key {} {} ", secret.size(), key.size()));
  hash.update(secret);
  hash.update(key);
  return hash.finish();
}

}  // namespace sennit
