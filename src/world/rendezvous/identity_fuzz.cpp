// Any environment: lines "NAME=value" of the launchers' variables, and each value as every type.
#include "base/die_at.hpp"
#include "base/env.hpp"
#include "world/rendezvous/frame.hpp"
#include "world/rendezvous/identity.hpp"
#include "world/rendezvous/unix_socket.hpp"

#include <algorithm>
#include <map>

namespace sennit {
namespace {

std::map<std::string, std::string> split_lines(std::string_view text) {
  std::map<std::string, std::string> variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    variables[std::string(line.substr(0, equals))] = line.substr(std::min(line.size(), equals + 1));
  }
  return variables;
}

void parse_as_every_type(const std::string& value) {
  static_cast<void>(parse_integer("SENNIT_SLOTS", value, {.min = 0, .max = 4096}).ok());
  static_cast<void>(parse_bytes("SENNIT_SLOT_BYTES", value).ok());
  static_cast<void>(parse_seconds("SENNIT_DEADLINE_S", value).ok());
  static_cast<void>(DieAt::parse(value).ok());
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const auto variables = split_lines({reinterpret_cast<const char*>(data), size});
  for (const auto& [name, value] : variables) {
    parse_as_every_type(value);
  }
  const auto lookup = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const Result<Identity> identity = identity_from(lookup, "1:1");
  if (!identity.ok()) {
    SENNIT_CHECK(!identity.status().message().empty(), "a failure without a message");
    return 0;
  }
  SENNIT_CHECK(identity->size >= 1 && identity->size <= kMaxRanks && identity->rank >= 0 &&
                   identity->rank < identity->size,
               "a rank that cannot be");
  SENNIT_CHECK(rendezvous_address(identity->key, "").ok(), "a key without an address");
  return 0;
}
