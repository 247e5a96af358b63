// Nodes: how the ranks of a job on several machines find each other.
//
//   SENNIT_ASSIGN_OR_RETURN(Membership membership, join_world(identity, options));
//
// With Identity::root, every rank connects to rank 0 over TCP; both ends prove that they know the
// job's key (secure_stream.hpp). Rank 0 sorts the ranks into nodes: those that could share memory
// by what they say of themselves. The ranks of each node then meet on the Unix rendezvous under
// their lowest rank, as the ranks of one machine do, and report it to rank 0; when all have, it
// says go. The lowest ranks keep their connections, the others close them.
#pragma once

#include "world/rendezvous/rendezvous.hpp"

namespace sennit {

// The same as join(), also over nodes. Without Identity::root it is join().
Result<Membership> join_world(const Identity& identity, const JoinOptions& options);

// What ranks must have in common to share memory: kernel, network namespace, user, and what
// SENNIT_SOCKET_DIR and SENNIT_NODE (or `node`) say.
std::string node_name(const std::optional<std::string>& node);

// Instead of SENNIT_NODE for what the calling thread joins from now on: ranks that are threads of
// one process have one environment. Empty: SENNIT_NODE.
void set_node_of_this_thread(std::string node);

}  // namespace sennit
