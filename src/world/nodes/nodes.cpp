#include "world/nodes/nodes.hpp"

#include "base/env.hpp"
#include "base/log.hpp"
#include "world/nodes/node_guest.hpp"
#include "world/nodes/node_host.hpp"
#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <utility>
#include <vector>

namespace sennit {
namespace {

constexpr int kSpareDescriptors = 16;

// Containers, and machines restored from one snapshot, have the same.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

ino_t inode_of(const char* path) {
  struct stat found{};
  return ::stat(path, &found) == 0 ? found.st_ino : 0;
}

// Ranks that have the same kernel and see each other's processes share its cores, whatever nodes
// they are on.
std::string machine_name() {
  return fmt::format("{}|{}", boot_id(), inode_of("/proc/self/ns/pid"));
}

Status check_options(const Identity& identity, const JoinOptions& options) {
  SENNIT_RETURN_IF_ERROR(check_join(identity, options));
  if (node_name(options.node).size() > kMaxNodeName) {
    return fail(Code::kInvalidArgument,
                "SENNIT_NODE is too long; allowed, together with SENNIT_SOCKET_DIR: about {} bytes",
                kMaxNodeName - 100);
  }
  return {};
}

Result<NodeRequest> make_request(const Identity& identity,
                                 const JoinOptions& options,
                                 const Deadline& deadline) {
  SENNIT_ASSIGN_OR_RETURN(const PortRange range, parse_port_range(env_text("SENNIT_PORT_RANGE")));
  SENNIT_ASSIGN_OR_RETURN(RootPlace root, parse_root(identity.root, identity.key, range));
  const std::string secret_file = env_text("SENNIT_SECRET_FILE");
  SENNIT_ASSIGN_OR_RETURN(const StreamKey key, stream_key(identity.key, secret_file));
  static std::atomic_flag is_warned;
  if (secret_file.empty() && !identity.is_key_secret && identity.rank == 0 &&
      !is_warned.test_and_set()) {
    SENNIT_WARN("comm",
                "whoever can guess the key of this job and reach {} can join it; set "
                "SENNIT_SECRET_FILE on all ranks",
                identity.root);
  }
  return NodeRequest{.hello = {.hello = hello_of(identity, options),
                               .pid = getpid(),
                               .node = node_name(options.node),
                               .machine = machine_name()},
                     .root = std::move(root),
                     .key = key,
                     .deadline = deadline,
                     .interruption = options.interruption};
}

// The ranks of `rank`'s node, lowest first.
std::vector<int> ranks_of_node(const std::vector<Place>& places, int rank) {
  std::vector<int> ranks;
  const int node = places[static_cast<std::size_t>(rank)].node;
  for (std::size_t index = 0; index < places.size(); ++index) {
    if (places[index].node == node) {
      ranks.push_back(static_cast<int>(index));
    }
  }
  return ranks;
}

// On a node its ranks are numbered anew; what is reported has their numbers in the job.
Status renumber(const Status& failure, const std::vector<int>& here) {
  ErrorDetail detail = failure.detail();
  for (int& rank : detail.blamed_ranks) {
    rank = rank >= 0 && static_cast<std::size_t>(rank) < here.size()
               ? here[static_cast<std::size_t>(rank)]
               : rank;
  }
  return {failure.code(),
          fmt::format("{}, numbered from 0 on their node, did not meet there: {}",
                      rank_list(here),
                      failure.message()),
          std::move(detail)};
}

// Side is NodeHost or NodeGuest, which knows the places.
template <typename Side>
Result<Membership> meet_on_nodes(Side& side,
                                 const Identity& identity,
                                 const JoinOptions& options,
                                 const Deadline& deadline,
                                 const std::vector<Place>& places) {
  const std::vector<int> here = ranks_of_node(places, identity.rank);
  const int nodes = 1 + std::ranges::max_element(places, {}, &Place::node)->node;
  const auto own = std::ranges::find(here, identity.rank) - here.begin();
  const Identity on_node{.rank = static_cast<int>(own),
                         .size = static_cast<int>(here.size()),
                         .key = fmt::format("{}|node of rank {}", identity.key, here.front())};
  JoinOptions on_node_options = options;
  // Whatever ends the join elsewhere comes from rank 0, to all.
  on_node_options.interruption = {.reason = [&side] { return side.check(); },
                                  .is_found_by_all = true};
  on_node_options.wants_waker = nodes > 1;
  if (nodes > 1 && options.segment_bytes_over_nodes != 0) {
    on_node_options.segment_bytes = options.segment_bytes_over_nodes;
  }
  Result<Membership> met = meet(on_node, on_node_options, deadline);
  Status status = met.ok() ? Status() : met.status();
  if (!status.ok()) {
    Status elsewhere = side.check();
    status = elsewhere.ok() ? renumber(status, here) : std::move(elsewhere);
  }
  std::string rail_address;
  if (status.ok() && nodes > 1 && options.rail_address) {
    Result<std::string> address = options.rail_address();
    status = address.ok() ? Status() : address.status();
    rail_address = address.ok() ? *std::move(address) : std::string();
    if (rail_address.size() > kMaxRailAddress) {
      status = fail(Code::kInternalError,
                    "rank {} has a rail address of {} bytes; allowed: at most {}",
                    identity.rank,
                    rail_address.size(),
                    kMaxRailAddress);
    }
  }
  SENNIT_ASSIGN_OR_RETURN(std::vector<std::string> rails,
                          side.finish(status, std::move(rail_address)));
  Membership membership;
  membership.identity = identity;
  membership.segment = std::move(met->segment);
  membership.nodes = nodes;
  membership.waker = std::move(met->waker);
  membership.members.resize(places.size());
  for (std::size_t index = 0; index < here.size(); ++index) {
    membership.members[static_cast<std::size_t>(here[index])] = std::move(met->members[index]);
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    Member& member = membership.members[rank];
    member.host = places[rank].host;
    member.node = places[rank].node;
    member.machine = places[rank].machine;
    member.pid_there = places[rank].pid;
    member.address = places[rank].address;
    member.rail_address = std::move(rails[rank]);
  }
  if (nodes > 1 && identity.rank == here.front()) {
    membership.links = side.take_links();
  }
  return membership;
}

Result<Membership> join_nodes(const Identity& identity,
                              const JoinOptions& options,
                              const Deadline& deadline) {
  SENNIT_ASSIGN_OR_RETURN(const NodeRequest request, make_request(identity, options, deadline));
  // Rank 0 has a connection to every other rank.
  SENNIT_RETURN_IF_ERROR(
      check_descriptors((identity.rank == 0 ? identity.size : 0) + kSpareDescriptors));
  if (identity.rank == 0) {
    NodeHost host(request);
    SENNIT_ASSIGN_OR_RETURN(const std::vector<Place> places, host.gather());
    return meet_on_nodes(host, identity, options, deadline, places);
  }
  NodeGuest guest(request);
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Place> places, guest.introduce());
  return meet_on_nodes(guest, identity, options, deadline, places);
}

std::string& node_of_this_thread() {
  thread_local std::string node;
  return node;
}

std::string chosen_node(const std::optional<std::string>& node) {
  if (node) {
    return *node;
  }
  return node_of_this_thread().empty() ? env_text("SENNIT_NODE") : node_of_this_thread();
}

}  // namespace

void set_node_of_this_thread(std::string node) { node_of_this_thread() = std::move(node); }

std::string node_name(const std::optional<std::string>& node) {
  // This says which ranks may share memory, and a Unix socket on which they meet that they do.
  return fmt::format("{}|{}|{}|{}|{}",
                     boot_id(),
                     inode_of("/proc/self/ns/net"),
                     geteuid(),
                     env_text("SENNIT_SOCKET_DIR"),
                     chosen_node(node));
}

Result<Membership> join_world(const Identity& identity, const JoinOptions& options) {
  if (identity.root.empty() || identity.size == 1) {
    return join(identity, options);
  }
  const LogRank log_rank(identity.rank);
  warn_about_unknown_variables();
  SENNIT_RETURN_IF_ERROR(check_options(identity, options));
  const Deadline deadline(options.timeout_s);
  Result<Membership> result = join_nodes(identity, options, deadline);
  if (!result.ok()) {
    return describe_join_failure(identity, result.status(), deadline.elapsed_s());
  }
  SENNIT_INFO("comm",
              "joined {} ranks on {} nodes in {:.3f} s",
              identity.size,
              result->nodes,
              deadline.elapsed_s());
  return result;
}

}  // namespace sennit
