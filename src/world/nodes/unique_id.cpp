#include "world/nodes/unique_id.hpp"

#include "world/nodes/tcp_socket.hpp"
#include "world/rendezvous/process.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sennit {
namespace {

// Magic and version, the key, the number of addresses, and for each its family (4 or 6) and bytes.
// What is left is random.
constexpr std::array<unsigned char, 4> kMagic = {'S', 'n', 'I', 1};
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kCountOffset = kMagic.size() + kKeyBytes;
constexpr std::size_t kIpBytes = 16;
constexpr std::size_t kMostAddresses = 3;
static_assert(kCountOffset + 1 + kMostAddresses * (1 + kIpBytes) <= kUniqueIdBytes);

void put(unsigned char* to, const TcpAddress& address) {
  const bool is_v4 = address.address.ss_family == AF_INET;
  to[0] = is_v4 ? 4 : 6;
  if (is_v4) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address.address);
    std::memcpy(to + 1, &ip.sin_addr, sizeof ip.sin_addr);
  } else {
    const auto& ip = reinterpret_cast<const sockaddr_in6&>(address.address);
    std::memcpy(to + 1, &ip.sin6_addr, sizeof ip.sin6_addr);
  }
}

}  // namespace

void make_unique_id(std::span<unsigned char, kUniqueIdBytes> id) {
  for (std::size_t at = 0; at < id.size(); at += sizeof(Token)) {
    const Token random = random_token();
    std::ranges::copy(random, id.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::ranges::copy(kMagic, id.begin());
  const std::vector<TcpAddress> addresses = own_addresses(kMostAddresses);
  id[kCountOffset] = static_cast<unsigned char>(addresses.size());
  unsigned char* to = id.data() + kCountOffset + 1;
  for (const TcpAddress& address : addresses) {
    put(to, address);
    to += 1 + kIpBytes;
  }
}

bool is_random(UniqueIdBytes id) { return std::ranges::equal(kMagic, id.first<kMagic.size()>()); }

std::vector<std::string> addresses_of(UniqueIdBytes id) {
  if (!is_random(id) || id[kCountOffset] > kMostAddresses) {
    return {};
  }
  std::vector<std::string> addresses;
  const unsigned char* from = id.data() + kCountOffset + 1;
  for (int index = 0; index < id[kCountOffset]; ++index, from += 1 + kIpBytes) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = from[0] == 4 ? AF_INET : AF_INET6;
    if (inet_ntop(family, from + 1, text.data(), text.size()) != nullptr) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

}  // namespace sennit
