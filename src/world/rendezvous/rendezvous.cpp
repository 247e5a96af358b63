#include "world/rendezvous/rendezvous.hpp"

#include "base/env.hpp"
#include "base/host_name.hpp"
#include "base/log.hpp"
#include "sennit/sennit.h"
#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/rendezvous_guest.hpp"
#include "world/rendezvous/rendezvous_host.hpp"
#include "world/rendezvous/shared_segment.hpp"

#include <unistd.h>

#include <cmath>

namespace sennit {
namespace {

constexpr int kLibraryVersion =
    SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
// Sockets and files that a join opens whatever the number of ranks, and room for connections that
// turn out not to be ranks.
constexpr int kSpareDescriptors = 16;

Result<Membership> join_alone(const JoinOptions& options) {
  Membership membership;
  SENNIT_ASSIGN_OR_RETURN(const UniqueFd file, create_segment_file(options.segment_bytes));
  SENNIT_ASSIGN_OR_RETURN(membership.segment,
                          map_segment(random_token(), file.get(), options.segment_bytes));
  membership.members.push_back({getpid(), host_name(), true, {}});
  if (options.wants_waker) {
    SENNIT_ASSIGN_OR_RETURN(membership.waker, create_waker());
  }
  return membership;
}

Result<Membership> join_others(const Identity& identity,
                               const JoinOptions& options,
                               const Deadline& deadline) {
  // Rank 0 has a connection and a pidfd for each other rank, the others have the pidfds.
  const int others = identity.size - 1;
  SENNIT_RETURN_IF_ERROR(
      check_descriptors((identity.rank == 0 ? 2 * others : others) + kSpareDescriptors));
  SENNIT_ASSIGN_OR_RETURN(SocketAddress address,
                          rendezvous_address(identity.key, env_text("SENNIT_SOCKET_DIR")));
  SENNIT_ASSIGN_OR_RETURN(UniqueFd own_pidfd, open_own_pidfd());
  const JoinRequest request{hello_of(identity, options),
                            digest_key(identity.key),
                            std::move(address),
                            std::move(own_pidfd),
                            deadline,
                            options.interruption,
                            options.wants_waker};
  return identity.rank == 0 ? RendezvousHost(request).run() : RendezvousGuest(request).run();
}

}  // namespace

Status check_join(const Identity& identity, const JoinOptions& options) {
  if (identity.size < 1 || identity.size > kMaxRanks) {
    return fail(Code::kInvalidArgument,
                "{} ranks are not allowed; allowed: 1 to {}",
                identity.size,
                kMaxRanks);
  }
  if (identity.rank < 0 || identity.rank >= identity.size) {
    return fail(Code::kInvalidArgument,
                "rank {} is not allowed; allowed: 0 to {}",
                identity.rank,
                identity.size - 1);
  }
  if (!std::isfinite(options.timeout_s) || options.timeout_s <= 0) {
    return fail(Code::kInvalidArgument,
                "a join timeout of {} s is not allowed; allowed: more than 0, and finite",
                options.timeout_s);
  }
  if (options.segment_bytes == 0) {
    return fail(Code::kInvalidArgument, "a shared segment of 0 bytes is not allowed");
  }
  if (options.settings.size() > kMaxSettingsBytes) {
    return fail(Code::kInvalidArgument,
                "settings of {} bytes are not allowed; allowed: at most {}",
                options.settings.size(),
                kMaxSettingsBytes);
  }
  return {};
}

Hello hello_of(const Identity& identity, const JoinOptions& options) {
  Hello hello;
  hello.rank = identity.rank;
  hello.size = identity.size;
  hello.library_version = kLibraryVersion;
  hello.segment_bytes = options.segment_bytes;
  hello.process = process_token();
  hello.host = host_name();
  hello.settings = options.settings;
  return hello;
}

Result<Membership> meet(const Identity& identity,
                        const JoinOptions& options,
                        const Deadline& deadline) {
  Result<Membership> result =
      identity.size == 1 ? join_alone(options) : join_others(identity, options, deadline);
  if (result.ok()) {
    result->identity = identity;
  }
  return result;
}

Status describe_join_failure(const Identity& identity, const Status& failure, double elapsed_s) {
  ErrorDetail detail = failure.detail();
  detail.op = "join";
  detail.rank = identity.rank;
  detail.size = identity.size;
  detail.elapsed_s = elapsed_s;
  std::string message = fmt::format("join, rank {} of {}, failed after {:.2f} s: {}",
                                    identity.rank,
                                    identity.size,
                                    elapsed_s,
                                    failure.message());
  if (!detail.evidence.empty()) {
    message += fmt::format(" ({})", detail.evidence);
  }
  if (!detail.next.empty()) {
    message += fmt::format(". Next: {}.", detail.next);
  }
  return {failure.code(), std::move(message), std::move(detail)};
}

Result<Membership> join(const Identity& identity, const JoinOptions& options) {
  const LogRank log_rank(identity.rank);
  warn_about_unknown_variables();
  SENNIT_RETURN_IF_ERROR(check_join(identity, options));
  const Deadline deadline(options.timeout_s);
  Result<Membership> result = meet(identity, options, deadline);
  if (!result.ok()) {
    return describe_join_failure(identity, result.status(), deadline.elapsed_s());
  }
  SENNIT_INFO("comm", "joined {} ranks in {:.3f} s", identity.size, deadline.elapsed_s());
  return result;
}

}  // namespace sennit
