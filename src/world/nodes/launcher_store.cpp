#include "world/nodes/launcher_store.hpp"

#include "base/env.hpp"
#include "world/nodes/tcp_socket.hpp"
#include "world/rendezvous/process.hpp"

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace sennit {
namespace {

// As of a unique id.
constexpr std::size_t kMostAddresses = 3;
constexpr std::size_t kKeyTokens = 2;  // 32 bytes

// The key and the addresses, with commas: what launchers take as a word.
std::string text_of_rank_0() {
  std::string text;
  for (std::size_t i = 0; i < kKeyTokens; ++i) {
    for (const std::uint8_t byte : random_token()) {
      text += fmt::format("{:02x}", byte);
    }
  }
  for (const TcpAddress& address : own_addresses(kMostAddresses)) {
    text += fmt::format(",{}", address.host());
  }
  return text;
}

Result<std::string> share(int rank) {
  SENNIT_ASSIGN_OR_RETURN(const double seconds, env_seconds("SENNIT_JOIN_TIMEOUT_S"));
  const int timeout_s = static_cast<int>(std::ceil(seconds));
  const std::string text = rank == 0 ? text_of_rank_0() : std::string();
  if (const char* const socket = std::getenv("PMI_FD"); socket != nullptr) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t number,
                            parse_integer("PMI_FD", socket, {.min = 0, .max = 1 << 20}));
    return share_by_pmi(static_cast<int>(number), rank == 0, text, timeout_s);
  }
  if (std::getenv("PMIX_NAMESPACE") != nullptr) {
    return share_by_pmix(rank == 0, text, timeout_s);
  }
  return fail(Code::kUnsupported, "there is neither PMI_FD nor PMIX_NAMESPACE");
}

}  // namespace

Result<MeetingPlace> meet_by_launcher(int rank) {
  static std::mutex mutex;
  static std::optional<MeetingPlace> known;
  const std::scoped_lock lock(mutex);
  if (!known) {
    SENNIT_ASSIGN_OR_RETURN(const std::string text, share(rank));
    const std::size_t comma = text.find(',');
    if (comma == std::string::npos) {
      return fail(Code::kSystemError, "rank 0 has no address that other nodes could reach");
    }
    known = MeetingPlace{.key = text.substr(0, comma), .root = text.substr(comma + 1)};
  }
  return *known;
}

}  // namespace sennit
