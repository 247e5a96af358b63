#include "world/nodes/root_listener.hpp"

#include "base/log.hpp"
#include "world/rendezvous/join_request.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace sennit {
namespace {

constexpr auto kListenRetry = std::chrono::milliseconds(20);

// Those of the named hosts that are this machine's. A name may stand for a loopback address alone
// on the machine itself (127.0.1.1 for its own name); then all addresses are listened at.
Result<std::vector<TcpAddress>> listening_addresses(const RootPlace& root) {
  std::vector<TcpAddress> found;
  Status failure;
  for (const std::string& host : root.hosts) {
    auto addresses = resolve(host);
    if (!addresses.ok()) {
      failure = addresses.status();
      continue;
    }
    const bool is_loopback =
        std::ranges::all_of(*addresses, [](const auto& entry) { return entry.is_loopback(); });
    const bool is_meant = host == "localhost" || host.starts_with("127.") || host == "::1";
    if (is_loopback && !is_meant) {
      return any_addresses();
    }
    // One may be named twice: by SENNIT_ROOT and by an id, which has addresses of its own.
    std::ranges::copy_if(*addresses, std::back_inserter(found), [&](const TcpAddress& address) {
      return std::ranges::find(found, address.text(), &TcpAddress::text) == found.end();
    });
  }
  if (found.empty()) {
    return failure;
  }
  return found;
}

}  // namespace

bool RootListener::listen_at(const std::vector<TcpAddress>& addresses, std::uint16_t port) {
  std::vector<std::string> texts;
  for (const TcpAddress& address : addresses) {
    UniqueFd listener = try_listen(address.with_port(port));
    last_error_ = errno;
    if (!listener.valid() && last_error_ == EADDRINUSE) {
      sockets_.clear();
      return false;
    }
    if (listener.valid()) {
      sockets_.push_back(std::move(listener));
      texts.push_back(address.with_port(port).text());
    }
  }
  text_ = fmt::format("{}", fmt::join(texts, ", "));
  return !sockets_.empty();
}

// Ports may be taken by a job that is just ending, or by another of the same key.
Status RootListener::open(const NodeRequest& request) {
  SENNIT_ASSIGN_OR_RETURN(const std::vector<TcpAddress> addresses,
                          listening_addresses(request.root));
  while (true) {
    for (const std::uint16_t port : request.root.ports) {
      if (listen_at(addresses, port)) {
        SENNIT_INFO("comm", "rank 0 listens at {} for ranks of other nodes", text_);
        return {};
      }
    }
    SENNIT_RETURN_IF_ERROR(request.check_interruption());
    if (last_error_ == EADDRNOTAVAIL) {
      return join_failure(Code::kInvalidArgument,
                          fmt::format("rank 0 is not on {}", fmt::join(request.root.hosts, ", ")),
                          {0},
                          fmt::format("{} has none of these addresses", request.hello.hello.host),
                          "name the host of rank 0 in SENNIT_ROOT");
    }
    if (request.deadline.passed()) {
      return join_failure(Code::kJoinTimeout,
                          "rank 0 finds no free port",
                          {0},
                          fmt::format("it tried {} on {}",
                                      fmt::join(request.root.ports, ", "),
                                      fmt::join(request.root.hosts, ", ")),
                          "free one of them, or set SENNIT_PORT_RANGE to others on all ranks");
    }
    std::this_thread::sleep_for(kListenRetry);
  }
}

}  // namespace sennit
